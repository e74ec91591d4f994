"""Encoding for evaluations: every text in one call, and a line on the speed."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from eval.results import console
from lsar_jax import EncodeReport, SentenceEncoder, load_encoder

K = TypeVar("K")

__all__ = ["by_language", "encode_all", "open_encoder", "print_latency", "times"]


def open_encoder(
    name: str, layers: Sequence[int] | None, revision: str | None, pooling: str | None, dtype: str = "float32"
) -> SentenceEncoder:
    """Loads the blocks up to the highest of ``layers``, or all."""
    started = time.perf_counter()
    encoder = load_encoder(name, layer=max(layers) if layers else None, revision=revision, pooling=pooling, dtype=dtype)
    devices = encoder.mesh.devices
    console.print(
        f"encoder {encoder.spec.id}, blocks 1 to {encoder.spec.layer}, {encoder.spec.pooling} pooling, "
        f"{encoder.spec.dtype}, on {devices.size} x {devices.flat[0].device_kind}; "
        f"loaded in {time.perf_counter() - started:.1f} s"
    )
    return encoder


def encode_all(
    encoder: SentenceEncoder,
    texts: Mapping[K, Sequence[str]],
    layers: Sequence[int],
    max_length: int,
    languages: Mapping[K, str],
) -> tuple[dict[K, Float[np.ndarray, "layer vector dim"]], EncodeReport]:
    """Returns the embeddings of every text, ``[layer, sentence, dim]`` under its key, and what it took.

    ``languages`` are those of the texts, for an encoder that splits or embeds them by language.

    Programs are compiled before the clock starts; the line printed is of a warm encoder.
    """
    started = time.perf_counter()
    programs = encoder.warm_up(layers=layers, max_length=max_length)
    console.print(f"compiled {programs} programs in {time.perf_counter() - started:.1f} s")
    flat = [sentence for sentences in texts.values() for sentence in sentences]
    codes = [languages[key] for key, sentences in texts.items() for _ in sentences]
    x, report = encoder.encode_with_report(
        flat,
        layers=layers,
        language=codes if by_language(encoder) else None,
        max_length=max_length,
        show_progress=console.is_terminal,
    )
    console.print(
        f"encoded {report.sentences} sentences, {report.tokens} tokens in {report.seconds:.1f} s: "
        f"{report.sentences / report.seconds:.0f} sentences/s, {report.tokens / report.seconds:.0f} tokens/s, "
        f"padding waste {100 * report.padding_waste:.0f}%, {report.truncated} cut to {max_length} tokens"
    )
    ends = np.cumsum([len(sentences) for sentences in texts.values()])
    return dict(zip(texts, np.split(np.asarray(x), ends[:-1], axis=1), strict=True)), report


def by_language(encoder: SentenceEncoder) -> bool:
    """Whether the encoder splits or embeds a sentence by its language."""
    return encoder.tokenizer.uses_language or encoder.languages is not None


def print_latency(encoder: SentenceEncoder, sentence: str, language: str, max_length: int) -> None:
    """Prints the median time of one warm call with one sentence."""
    code = language if by_language(encoder) else None

    def encode() -> int:
        return encoder.encode_with_report(sentence, language=code, max_length=max_length)[1].tokens

    tokens, calls = encode(), times(encode, 20)
    median = 1000 * float(np.median(calls))
    console.print(f"latency of one warm sentence of {tokens} tokens: {median:.1f} ms (median of {len(calls)})")


def times(call: Callable[[], object], repeats: int) -> list[float]:
    """Returns the seconds of each of ``repeats`` calls."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds
