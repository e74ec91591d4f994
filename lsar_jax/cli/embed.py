"""Encodes all texts in one call and prints the speed; caches embeddings of parallel text on disk."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.cli.console import console
from lsar_jax.embeddings.cache import EmbeddingCache, Sentence
from lsar_jax.encoders import SentenceEncoder, load_encoder
from lsar_jax.files import check_outputs
from lsar_jax.models.transformer import Transformer
from lsar_jax.processes import agreed, from_first, gather, is_first, own_rows, wait_for_all

__all__ = ["EncoderChoice", "PairEmbeddings", "embed_pairs", "encode_all", "open_encoder"]

K = TypeVar("K")

# Language -> rows of the English sentences, and rows of their translations.
PairRows = dict[str, tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]
PairEmbeddings = tuple[Float[np.ndarray, "sentence dim"], PairRows]


@dataclass(frozen=True)
class EncoderChoice:
    """The encoder to train, or whose embeddings are trained on.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      revision: commit, tag or branch of a Hub id.
      pooling: mean, mean_no_special, cls, max or pooler; by default, the checkpoint's own.
      dtype: dtype of the encoder, float32 or bfloat16.
      max_length: maximum number of tokens per sentence.
    """

    encoder: str = "bundled"
    revision: str | None = None
    pooling: str | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_length: int = 128

    def open(self, layer: int | None, param_dtype: str | None = None) -> SentenceEncoder:
        """Loads the encoder with its blocks up to ``layer``, or with all blocks."""
        layers = None if layer is None else (layer,)
        return open_encoder(self.encoder, layers, self.revision, self.pooling, self.dtype, param_dtype)

    def open_transformer(self, layer: int | None, done: str) -> SentenceEncoder:
        """Loads a transformer to train, with float32 parameters, up to ``layer`` or with all blocks.

        Args:
          layer: the layer to keep; by default the last, whatever layer the encoder pools.
          done: what is done with it, quoted in the error.

        Raises:
          ValueError: the encoder is not a transformer.
        """
        encoder = self.open(layer, "float32")
        if not isinstance(encoder.model, Transformer):
            raise ValueError(f"{encoder.spec.id} is not a transformer; only transformers can be {done}")
        if layer is None and encoder.spec.layer != encoder.model.config.blocks:
            encoder = self.open(encoder.model.config.blocks, "float32")
        return encoder


def open_encoder(
    name: str,
    layers: Sequence[int] | None,
    revision: str | None,
    pooling: str | None,
    dtype: str = "float32",
    param_dtype: str | None = None,
) -> SentenceEncoder:
    """Loads an encoder with its blocks up to the highest of ``layers``, or with all blocks."""
    started = time.perf_counter()
    layer = max(layers) if layers else None
    encoder = load_encoder(name, layer=layer, revision=revision, pooling=pooling, dtype=dtype, param_dtype=param_dtype)
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
    cache: Path | None = None,
) -> dict[K, Float[np.ndarray, "layer vector dim"]]:
    """Returns the embeddings of the texts by key, ``[layer, sentence, dim]``, and prints the speed.

    Args:
      encoder: the encoder.
      texts: the texts; the same sentence is encoded once.
      layers: the layers.
      max_length: maximum number of tokens per sentence.
      languages: language of each text, which only some encoders use.
      cache: folder for the embeddings of sentences, of which only those that it lacks are encoded; None for none.
    """
    row: dict[Sentence, int] = {}
    rows = {}
    for key, several in texts.items():
        language = languages[key] if encoder.uses_language else ""
        rows[key] = np.array([row.setdefault((language, text), len(row)) for text in several], np.int64)
    x = _encode_distinct(encoder, list(row), layers, max_length, cache)
    return {key: x[:, numbers] for key, numbers in rows.items()}


def _encode_distinct(
    encoder: SentenceEncoder, sentences: Sequence[Sentence], layers: Sequence[int], max_length: int, cache: Path | None
) -> Float[np.ndarray, "layer sentence dim"]:
    """Returns the embeddings of distinct sentences."""
    if cache is None:
        return _encode_now(encoder, sentences, layers, max_length)
    width = encoder.dim if tuple(layers) == (encoder.spec.layer,) else encoder.model.config.widths[layers[0]]
    specs = [replace(encoder.spec, layer=layer) for layer in layers]
    caches = [EmbeddingCache(cache, spec, width, max_length) for spec in specs]
    known, lacking = zip(*(one.read(sentences) for one in caches), strict=True)
    x = np.stack(known)
    # Several processes must have the same, whatever each of them has found: what process 0 has.
    x = from_first(x)
    missing = agreed(sorted(set().union(*lacking), key=lambda number: (sentences[number][0], number)))
    if len(missing) < len(sentences):
        console.print(f"using the cached embeddings of {len(sentences) - len(missing)} of {len(sentences)} sentences")
    if missing:
        # Before the encoding, because it may take hours.
        cache.mkdir(parents=True, exist_ok=True)
        new = [sentences[number] for number in missing]
        # One layer may have this text already; its file is written again with the same embeddings.
        check_outputs([one.path(new) for one in caches], overwrite=True)
        values = _encode_now(encoder, new, layers, max_length)
        x[:, missing] = values
        for one, value in zip(caches, values, strict=True) if is_first() else ():
            one.write(one.path(new), new, value)
        wait_for_all("cached")
    return x


def _encode_now(
    encoder: SentenceEncoder, sentences: Sequence[Sentence], layers: Sequence[int], max_length: int
) -> Float[np.ndarray, "layer sentence dim"]:
    own = own_rows(len(sentences))
    x = _encode_own(encoder, sentences[own], layers, max_length)
    parts = [np.frombuffer(one, x.dtype).reshape(len(layers), -1, x.shape[2]) for one in gather(x.tobytes())]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _encode_own(
    encoder: SentenceEncoder, sentences: Sequence[Sentence], layers: Sequence[int], max_length: int
) -> Float[np.ndarray, "layer sentence dim"]:
    # Programs are compiled first, so that the speed is that of a warm encoder.
    started = time.perf_counter()
    programs = encoder.warm_up(layers=layers, max_length=max_length)
    console.print(f"compiled {programs} programs in {time.perf_counter() - started:.1f} s")
    x, report = encoder.encode_with_report(
        [text for _, text in sentences],
        layers=layers,
        language=[language for language, _ in sentences] if encoder.uses_language else None,
        max_length=max_length,
        show_progress=console.is_terminal,
    )
    console.print(
        f"encoded {report.sentences} sentences, {report.tokens} tokens in {report.seconds:.1f} s: "
        f"{report.sentences / report.seconds:.0f} sentences/s, {report.tokens / report.seconds:.0f} tokens/s, "
        f"padding waste {100 * report.padding_waste:.0f}%, {report.truncated} cut to {max_length} tokens"
    )
    return np.asarray(x)


def embed_pairs(
    encoder: SentenceEncoder, pairs: Mapping[str, Sequence[tuple[str, str]]], max_length: int, cache: Path
) -> PairEmbeddings:
    """Returns the embeddings of distinct sentences, and their rows for each language's pairs.

    Args:
      encoder: the encoder; its last loaded layer is used.
      pairs: language -> pairs of English sentences and their translations.
      max_length: maximum number of tokens per sentence.
      cache: folder for the embeddings of sentences; only those that it lacks are encoded.
    """
    # If the encoder uses the language, the same text has different embeddings in different languages.
    own = encoder.uses_language
    row: dict[Sentence, int] = {}
    rows: PairRows = {}
    for code, several in pairs.items():
        sides = [
            np.array([row.setdefault((language if own else "", text), len(row)) for text in texts], np.int32)
            for language, texts in zip(("en", code), zip(*several, strict=True), strict=True)
        ]
        rows[code] = (sides[0], sides[1])
    return _encode_distinct(encoder, list(row), (encoder.spec.layer,), max_length, cache)[0], rows
