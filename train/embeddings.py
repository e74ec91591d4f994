"""Encodes all texts in one call and prints the speed; caches embeddings of parallel text on disk."""

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
from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.files import check_outputs
from lsar_jax.models.transformer import Transformer
from train.console import console

__all__ = ["EncoderChoice", "PairEmbeddings", "embed_pairs", "encode_all", "open_encoder"]

# Format of the file of cached embeddings.
_FORMAT = "lsar_jax.embeddings.v2"
# Bytes of the hash that stands for a sentence in it.
_HASH = 16

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
) -> tuple[dict[K, Float[np.ndarray, "layer vector dim"]], EncodeReport]:
    """Returns the embeddings of the texts by key, ``[layer, sentence, dim]``, and a report on the encoding.

    ``languages`` is only used by encoders whose tokenizer or embeddings depend on the language. Programs are compiled
    first, so that the printed speed is that of a warm encoder.
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
    row: dict[tuple[str, str], int] = {}
    rows: PairRows = {}
    for code, several in pairs.items():
        sides = [
            np.array([row.setdefault((language if own else "", text), len(row)) for text in texts], np.int32)
            for language, texts in zip(("en", code), zip(*several, strict=True), strict=True)
        ]
        rows[code] = (sides[0], sides[1])
    cached = _Cache(cache, encoder, max_length)
    x, missing = cached.read(list(row))
    if len(missing) < len(row):
        console.print(f"using the cached embeddings of {len(row) - len(missing)} of {len(row)} distinct sentences")
    if missing:
        # Before the encoding, because it may take hours.
        cache.mkdir(parents=True, exist_ok=True)
        new = sorted((sentence for sentence, number in row.items() if number in missing), key=lambda one: one[0])
        path = cached.path(new)
        check_outputs([path])
        texts: dict[str, list[str]] = {}
        for language, text in new:
            texts.setdefault(language, []).append(text)
        languages = {language: language or "en" for language in texts}
        encoded, _ = encode_all(encoder, texts, (encoder.spec.layer,), max_length, languages)
        values = np.concatenate([x[0] for x in encoded.values()])
        x[[row[sentence] for sentence in new]] = values
        cached.write(path, new, values)
    return x, rows


class _Cache:
    """Embeddings of sentences, in files of those that were encoded together.

    The names of the files begin with a hash of the encoder and of the maximum number of tokens.
    """

    def __init__(self, folder: Path, encoder: SentenceEncoder, max_length: int) -> None:
        self.folder, self.encoder = folder, encoder
        self.name = hashlib.sha256(json.dumps([encoder.spec.to_dict(), max_length]).encode()).hexdigest()[:32]

    def read(self, sentences: Sequence[tuple[str, str]]) -> tuple[Float[np.ndarray, "sentence dim"], set[int]]:
        """Returns the embeddings of sentences, and the numbers of those that are not in the cache."""
        x = np.zeros((len(sentences), self.encoder.dim), np.float32)
        missing = {_hash(sentence): number for number, sentence in enumerate(sentences)}
        for path in sorted(self.folder.glob(f"{self.name}-*.safetensors")):
            with open_arrays(path, format=_FORMAT, what="embedding cache") as file:
                known = file.read("sentences") if "sentences" in file.names else np.empty((0, 0), np.uint8)
                if known.shape[1:] != (_HASH,) or known.dtype != np.uint8 or "embeddings" not in file.names:
                    raise ValueError(f"{path} has no embeddings of sentences; delete the file")
                hashes = [row.tobytes() for row in known]
                places = [place for place, one in enumerate(hashes) if one in missing]
                if not places:
                    continue
                values = file.read("embeddings")
            shape = (len(known), self.encoder.dim)
            if values.shape != shape or values.dtype != np.float32:
                raise ValueError(
                    f"{path} holds {values.dtype} of shape {list(values.shape)}, but the embeddings are float32 of "
                    f"shape {list(shape)}; delete the file"
                )
            x[[missing.pop(hashes[place]) for place in places]] = values[places]
        return x, set(missing.values())

    def path(self, sentences: Sequence[tuple[str, str]]) -> Path:
        """Returns the file of sentences that are encoded together."""
        every = hashlib.sha256(b"".join(_hash(sentence) for sentence in sentences)).hexdigest()
        return self.folder / f"{self.name}-{every[:16]}.safetensors"

    def write(self, path: Path, sentences: Sequence[tuple[str, str]], x: Float[np.ndarray, "sentence dim"]) -> None:
        """Writes the embeddings of sentences that were encoded together."""
        known = np.stack([np.frombuffer(_hash(sentence), np.uint8) for sentence in sentences])
        save_arrays(path, {"sentences": known, "embeddings": x}, format=_FORMAT, header=self.encoder.spec.to_dict())


def _hash(sentence: tuple[str, str]) -> bytes:
    """Returns a hash of a language and a text."""
    return hashlib.sha256(json.dumps(sentence).encode()).digest()[:_HASH]
