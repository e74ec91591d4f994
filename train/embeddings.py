"""Embeddings of text: every text in one call, with a line on the speed; those of parallel text are kept on disk."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int

from lsar_jax import EncodeReport, SentenceEncoder, load_encoder
from lsar_jax.files import new_file
from train.console import console

__all__ = ["Embedded", "EncoderOptions", "embed_pairs", "encode_all", "open_encoder"]

K = TypeVar("K")

# Of each language the rows of its English sentences and of their translations.
Rows = dict[str, tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]
Embedded = tuple[Float[np.ndarray, "sentence dim"], Rows]


@dataclass(frozen=True)
class EncoderOptions:
    """The encoder whose embeddings are trained on.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      revision: of a Hub id.
      pooling: mean, mean_no_special, cls, max or pooler; by default the checkpoint's own.
      dtype: float32 or bfloat16, of the encoder.
      max_length: most tokens of a sentence.
    """

    encoder: str = "bundled"
    revision: str | None = None
    pooling: str | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_length: int = 128

    def open(self, layer: int | None) -> SentenceEncoder:
        """Loads the blocks up to ``layer``, or all."""
        return open_encoder(self.encoder, None if layer is None else (layer,), self.revision, self.pooling, self.dtype)


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
        language=codes if encoder.uses_language else None,
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


def embed_pairs(
    encoder: SentenceEncoder, pairs: Mapping[str, Sequence[tuple[str, str]]], max_length: int, cache: Path
) -> Embedded:
    """Returns the embeddings of distinct sentences, and their rows in each language's pairs.

    Args:
      encoder: its own layer is used.
      pairs: of each language, English sentences and their translations.
      max_length: tokens at most of a sentence.
      cache: folder of the embeddings; a file is named by all that they depend on.
    """
    # An encoder that splits words by language has another vector for the same words of another.
    own = encoder.uses_language
    row: dict[tuple[str, str], int] = {}
    rows: Rows = {}
    for code, several in pairs.items():
        sides = [
            np.array([row.setdefault((language if own else "", text), len(row)) for text in texts], np.int32)
            for language, texts in zip(("en", code), zip(*several, strict=True), strict=True)
        ]
        rows[code] = (sides[0], sides[1])
    named = json.dumps([encoder.spec.to_dict(), max_length, list(row)], ensure_ascii=False)
    path = cache / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.npy"
    if path.is_file():
        x = np.load(path, allow_pickle=False)
        if len(x) != len(row):
            raise ValueError(f"{path} has {len(x)} embeddings for {len(row)} sentences; delete it")
        console.print(f"{len(row)} distinct sentences are in {path}")
        return x, rows
    texts: dict[str, list[str]] = {}
    for language, text in row:
        texts.setdefault(language, []).append(text)
    layer = encoder.spec.layer
    encoded, _ = encode_all(encoder, texts, (layer,), max_length, {language: language or "en" for language in texts})
    # Back in the order of the rows.
    taken = {language: iter(x[0]) for language, x in encoded.items()}
    x = np.stack([next(taken[language]) for language, _ in row])
    cache.mkdir(parents=True, exist_ok=True)
    with new_file(path) as partial:  # another run may encode the same text at the same time
        np.save(partial, x)
    return x, rows
