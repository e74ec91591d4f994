"""Pairs that are known to be translations: their file, their rows in two collections, and the threshold by them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from lsar_jax.checks import positive_number
from lsar_jax.embeddings import Embeddings
from lsar_jax.mining.pair_files import flat, read_pairs
from lsar_jax.mining.pairs import Pairs
from lsar_jax.mining.side import Side
from lsar_jax.mining.thresholds import best_threshold

__all__ = ["KnownPairs", "known_rows", "known_threshold"]

# Sentences that are read at a time.
_ROWS = 65_536


class KnownPairs(NamedTuple):
    """All pairs of translations of a collection, and the precision to reach on them.

    Attributes:
      pairs: the sentences of both sides, or the ids of both.
      least_precision: the share of the mined pairs above the threshold that must be among them, in percent; by default,
        the threshold with the best F1 is chosen.
    """

    pairs: tuple[tuple[str, str], ...]
    least_precision: float | None = None

    @classmethod
    def read(cls, path: Path, least_precision: float | None = None, columns: Sequence[str] = ()) -> "KnownPairs":
        """Reads the pairs of a file, as ``read_pairs`` does; raises ValueError if it has none, or for the precision."""
        if least_precision is not None:
            positive_number("the wanted precision, as a share,", least_precision / 100, share=True)
        pairs = tuple(dict.fromkeys(read_pairs(path, columns=columns)))
        if not pairs:
            raise ValueError(f"{path} has no pairs")
        return cls(pairs, least_precision)


def known_rows(threshold: object, source: Side, target: Side) -> Int[np.ndarray, "known 2"]:
    """Returns the rows of the known pairs that are in both collections, among the distinct sentences, each once.

    They are found by text or, if there is no such text, by id.

    Raises:
      ValueError: none is found.
    """
    if not isinstance(threshold, KnownPairs):
        return np.empty((0, 2), np.int64)
    left, right = (_rows_of(side, {pair[n] for pair in threshold.pairs}) for n, side in enumerate((source, target)))
    if found := {(left[a], right[b]) for a, b in threshold.pairs if a in left and b in right}:
        return np.array(sorted(found))
    one, other = threshold.pairs[0]
    raise ValueError(
        f"none of the {len(threshold.pairs):,} known pairs is in the inputs, neither as sentences nor as ids; give "
        f"that of the source first, and then that of the target; the first pair is {one!r:.80} and {other!r:.80}"
    )


def known_threshold(pairs: Pairs, threshold: KnownPairs, known: Int[np.ndarray, "known 2"]) -> tuple[float, str]:
    """Returns the lowest score to write, and what to say about it.

    Args:
      pairs: all mined pairs.
      threshold: the known pairs that choose it.
      known: their rows, as ``known_rows`` returns them.

    Raises:
      ValueError: no known pair was mined, or no threshold reaches the precision.
    """
    # A pair as one number: source << 32 | target.
    numbers, every = (left.astype(np.int64) << 32 | right for left, right in (known.T, pairs[:2]))
    right = np.isin(every, numbers)
    if not right.any():
        raise ValueError(f"none of the {len(known):,} known pairs in the inputs was mined; give translations")
    chosen = best_threshold(pairs.score, right, len(known), least_precision=threshold.least_precision)
    return chosen.value, (
        f"threshold {chosen.value:.6f}: precision {chosen.precision:.1f}%, recall {chosen.recall:.1f}% on "
        f"{len(known):,} known pairs in the inputs, of {len(threshold.pairs):,}, which chose it"
    )


def _rows_of(side: Side, names: set[str]) -> dict[str, int]:
    """Each text's or id's row among the distinct sentences; tabs of texts count as spaces."""
    every = np.arange(len(side.embeddings))
    texts = {id: text for text, id in _sentences(side.embeddings, every) if id in names}
    wanted, places = {*map(flat, names), *texts.values()}, dict[str, int]()
    for place, (text, _) in enumerate(_sentences(side.embeddings, side.rows)):
        if text in wanted:
            places.setdefault(text, place)
    found = {name: places.get(flat(name), places.get(texts.get(name, ""))) for name in names}
    return {name: place for name, place in found.items() if place is not None}


def _sentences(embeddings: Embeddings, rows: Int[np.ndarray, " row"]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(rows), _ROWS):
        part = embeddings.sentences_of(rows[start : start + _ROWS])
        yield from zip(map(flat, part.texts), part.ids, strict=True)
