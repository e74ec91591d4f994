"""Encodes distinct sentences once, with a cache on disk, for training and evaluations."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.console.output import console, decomposed_note
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.encoders.progress import count_meter
from lsar_jax.files import check_outputs
from lsar_jax.spec import EncoderSpec

__all__ = ["embed_pairs", "encode_all"]

K = TypeVar("K")

# Format of the files of the cache.
_FORMAT = "lsar_jax.embeddings.v2"
# Sentences that are encoded and kept together: a killed run loses those of one chunk at most.
_CHUNK = 1024
# A language, which is empty if the encoder does not use it, and a text.
Sentence = tuple[str, str]


def encode_all(
    encoder: SentenceEncoder,
    texts: Mapping[K, Sequence[str]],
    layers: Sequence[int],
    max_length: int,
    languages: Mapping[K, str],
    cache: Path | None = None,
) -> dict[K, Float[np.ndarray, "layer vector dim"]]:
    """Returns the embeddings of the texts by key, ``[layer, sentence, dim]``; the same sentence is encoded once.

    Args:
      encoder: the encoder.
      texts: the texts.
      layers: the layers.
      max_length: maximum number of tokens per sentence.
      languages: language of each text, which only some encoders use.
      cache: folder for the embeddings of sentences, or None; only those that it lacks are encoded.
    """
    given = {key: (languages[key], sentences) for key, sentences in texts.items()}
    x, rows = _encode_distinct(encoder, given, layers, max_length, cache)
    return {key: x[:, numbers] for key, numbers in rows.items()}


def embed_pairs(
    encoder: SentenceEncoder, pairs: Mapping[str, Sequence[tuple[str, str]]], max_length: int, cache: Path
) -> tuple[Float[np.ndarray, "sentence dim"], dict[str, tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]]:
    """Returns the embeddings of distinct sentences, and the rows of each language's English and other sides.

    Args:
      encoder: the encoder; its last loaded layer is used.
      pairs: language -> pairs of English sentences and their translations.
      max_length: maximum number of tokens per sentence.
      cache: folder for the embeddings of sentences; only those that it lacks are encoded.
    """
    sides = {
        (code, side): (language, [pair[side] for pair in translations])
        for code, translations in pairs.items()
        for side, language in enumerate(("en", code))
    }
    x, rows = _encode_distinct(encoder, sides, (encoder.spec.layer,), max_length, cache)
    return x[0], {code: (rows[code, 0], rows[code, 1]) for code in pairs}


def _encode_distinct(
    encoder: SentenceEncoder,
    texts: Mapping[K, tuple[str, Sequence[str]]],
    layers: Sequence[int],
    max_length: int,
    cache: Path | None,
) -> tuple[Float[np.ndarray, "layer sentence dim"], dict[K, Int[np.ndarray, " _"]]]:
    """Returns the embeddings of the distinct sentences of texts in their languages, and the rows of each text."""
    numbers: dict[Sentence, int] = {}
    rows = {}
    for key, (language, text) in texts.items():
        # Only of an encoder that uses the language, the same text has other embeddings in other languages.
        code = language if encoder.uses_language else ""
        rows[key] = np.array([numbers.setdefault((code, line), len(numbers)) for line in text], np.int32)
    sentences = list(numbers)
    if cache is None:
        return _encode(encoder, [sentences], layers, max_length), rows
    width = encoder.dim_of(layers[0])
    caches = [_Cache(cache, replace(encoder.spec, layer=layer), width, max_length) for layer in layers]
    known, missing_by_layer = zip(*(layer_cache.read(sentences) for layer_cache in caches), strict=True)
    x = np.stack(known)
    missing = sorted(set().union(*missing_by_layer), key=lambda number: (sentences[number][0], number))
    if len(missing) < len(sentences):
        console.print(f"using the cached embeddings of {len(sentences) - len(missing)} of {len(sentences)} sentences")
    if missing:
        # Before the encoding, because it may take hours.
        cache.mkdir(parents=True, exist_ok=True)
        new = [sentences[number] for number in missing]
        chunks = [new[start : start + _CHUNK] for start in range(0, len(new), _CHUNK)]
        # One layer may have a chunk already; its file is written again with the same embeddings.
        check_outputs([layer_cache.path(chunk) for chunk in chunks for layer_cache in caches], overwrite=True)

        x[:, missing] = _encode(encoder, chunks, layers, max_length, caches)
    return x, rows


def _encode(
    encoder: SentenceEncoder,
    chunks: Sequence[Sequence[Sentence]],
    layers: Sequence[int],
    max_length: int,
    caches: Sequence["_Cache"] = (),
) -> Float[np.ndarray, "layer sentence dim"]:
    """Encodes chunks of sentences, writes each layer to its cache, and prints how long all took."""
    encoded, reports = [], []
    with count_meter(True, sum(map(len, chunks))) as advance:
        for chunk in chunks:
            x, report = encoder.encode_with_report(
                [text for _, text in chunk],
                layers=layers,
                language=[language for language, _ in chunk] if encoder.uses_language else None,
                max_length=max_length,
                show_progress=advance,
            )
            encoded.append(np.asarray(x))
            for cache, vectors in zip(caches, encoded[-1], strict=False):
                cache.write(chunk, vectors)
            reports.append((report.sentences, report.tokens, report.seconds, report.truncated, report.decomposed))
    sentences, tokens, seconds, truncated, decomposed = map(sum, zip(*reports, strict=True))
    console.print(
        f"encoded {sentences} sentences, {tokens} tokens, in {seconds:.1f} s; {truncated} cut to {max_length} tokens"
        f"{decomposed_note(decomposed)}"
    )
    return np.concatenate(encoded, axis=1)


class _Cache:
    """Embeddings ``[sentence, dim]`` at the layer of ``spec``, in files of sentences that were encoded together.

    The names of the files begin with a hash of the encoder, the maximum number of tokens and the version of lsar_jax.
    """

    def __init__(self, folder: Path, spec: EncoderSpec, dim: int, max_length: int) -> None:
        self.folder, self.spec, self.dim = folder, spec, dim
        key = json.dumps([spec.to_dict(), max_length, version("lsar_jax")])
        self.name = hashlib.sha256(key.encode()).hexdigest()[:32]

    def read(self, sentences: Sequence[Sentence]) -> tuple[Float[np.ndarray, "sentence dim"], set[int]]:
        """Returns the embeddings of sentences, and the numbers of those that are not in the cache."""
        x = np.zeros((len(sentences), self.dim), np.float32)
        missing = {_hash(sentence): number for number, sentence in enumerate(sentences)}
        for path in sorted(self.folder.glob(f"{self.name}-*.safetensors")):
            if not missing:
                break
            with open_arrays(path, format=_FORMAT, what="embedding cache") as file:
                hashes = [row.tobytes() for row in file.read("sentences")]
                places = [place for place, digest in enumerate(hashes) if digest in missing]
                if not places:
                    continue
                values = file.read("embeddings")
            x[[missing.pop(hashes[place]) for place in places]] = values[places]
        return x, set(missing.values())

    def path(self, sentences: Sequence[Sentence]) -> Path:
        """The file of sentences that are encoded together."""
        digest = hashlib.sha256(b"".join(map(_hash, sentences))).hexdigest()
        return self.folder / f"{self.name}-{digest[:16]}.safetensors"

    def write(self, sentences: Sequence[Sentence], x: Float[np.ndarray, "sentence dim"]) -> None:
        """Writes the embeddings of sentences that were encoded together."""
        hashes = np.frombuffer(b"".join(map(_hash, sentences)), np.uint8).reshape(len(sentences), -1)
        arrays = {"sentences": hashes, "embeddings": x}
        save_arrays(self.path(sentences), arrays, format=_FORMAT, header=self.spec.to_dict())


def _hash(sentence: Sentence) -> bytes:
    return hashlib.sha256(json.dumps(sentence).encode()).digest()[:16]
