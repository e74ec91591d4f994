"""Embeddings of parallel text, encoded once and kept on disk."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from eval.encode import by_language, encode_all
from eval.results import console
from lsar_jax import SentenceEncoder

__all__ = ["Embedded", "embed_pairs"]

# Of each language the rows of its English sentences and of their translations.
Rows = dict[str, tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]
Embedded = tuple[Float[np.ndarray, "sentence dim"], Rows]


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
    own = by_language(encoder)
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
    partial = path.with_suffix(f".{os.getpid()}.partial.npy")  # another objective may encode the same text
    np.save(partial, x)
    partial.replace(path)
    return x, rows
