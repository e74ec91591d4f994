"""Pairs that are known to be translations: their file, their rows in two collections, and the threshold by them."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from lsar_jax.corpora.row_files import JSON_LINES, file_rows
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.embeddings import Embeddings
from lsar_jax.mining.pairs import Pairs
from lsar_jax.mining.thresholds import best_threshold

__all__ = ["KnownPairs", "Side", "flat", "known_rows", "known_threshold"]

_log = logging.getLogger("lsar_jax")

# A collection to mine, and its rows that hold distinct sentences.
Side = tuple[Embeddings, Int[np.ndarray, " _"]]
# Sentences that are read at a time.
_ROWS = 65_536
# Of so many mined pairs, a precision of 95% has an interval of 89 to 98%.
_FEW = 100


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
    def read(cls, path: Path, least_precision: float | None = None) -> "KnownPairs":
        """Reads pairs from a file in a format that ``mine_folders`` writes; the score may be absent.

        Raises:
          OSError: there is no such file.
          ValueError: a line has other columns, or the file has no pairs.
        """
        pairs = tuple(dict.fromkeys(_pairs_of(path)))
        if not pairs:
            raise ValueError(f"{path} has no pairs")
        return cls(pairs, least_precision)


def known_rows(threshold: object, source: Side, target: Side) -> Int[np.ndarray, "known 2"]:
    """Returns the rows of the known pairs that are in both collections, among the distinct sentences, each once.

    They are found by text or by id, whichever finds more.

    Raises:
      ValueError: none is.
    """
    found = np.empty((0, 2), np.int64)
    if not isinstance(threshold, KnownPairs):
        return found
    for by_id in (False, True):
        left, right = (
            _rows_of(side, {pair[n] for pair in threshold.pairs}, by_id) for n, side in enumerate((source, target))
        )
        rows = [(left[a], right[b]) for a, b in threshold.pairs if a in left and b in right]
        found = max(found, np.unique(np.array(rows, np.int64).reshape(-1, 2), axis=0), key=len)
    if len(found):
        if len(found) < _FEW:
            uncertain = "%d known pairs are in the inputs, fewer than %d: a threshold that so few choose is uncertain"
            _log.warning(uncertain, len(found), _FEW)
        return found
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
        raise ValueError(
            f"none of the {len(known):,} known pairs in the inputs was mined; give pairs that are translations"
        )
    chosen = best_threshold(pairs.score, right, len(known), least_precision=threshold.least_precision)
    written = pairs.score >= chosen.value
    places = (np.isin(rows[written], known[:, side]) for side, rows in enumerate(pairs[:2]))
    low, high = _interval(chosen.precision / 100, int(written.sum()))
    return chosen.value, (
        f"threshold {chosen.value:.6f}: precision {chosen.precision:.1f}% (95% interval {low:.1f} to {high:.1f}), "
        f"recall {chosen.recall:.1f}% on {len(known):,} known pairs in the inputs, of {len(threshold.pairs):,}; of the "
        f"{written.sum():,} pairs above it, {(~np.logical_or(*places)).sum():,} have no sentence of a known pair and "
        "count as wrong; the threshold was chosen on these pairs"
    )


def _interval(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share of ``count``, in percent: the score interval of Wilson, JASA 1927."""
    z = 1.96
    middle, half = share + z**2 / (2 * count), z * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return 100 * (middle - half) / (1 + z**2 / count), 100 * (middle + half) / (1 + z**2 / count)


def _rows_of(side: Side, names: set[str], by_id: bool) -> dict[str, int]:
    """Each id's or text's row among the distinct sentences; tabs of texts count as spaces."""
    texts = {name: flat(name) for name in names}
    if by_id:
        every = np.arange(len(side[0]))
        texts = {name: text for text, name in _sentences(side[0], every) if name in names}
    wanted, places = set(texts.values()), dict[str, int]()
    for place, (text, _) in enumerate(_sentences(*side)):
        if text in wanted:
            places.setdefault(text, place)
    return {name: places[text] for name, text in texts.items() if text in places}


def _sentences(embeddings: Embeddings, rows: Int[np.ndarray, " row"]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(rows), _ROWS):
        part = embeddings.sentences_of(rows[start : start + _ROWS])
        yield from zip(map(flat, part.texts), part.ids, strict=True)


def flat(text: str) -> str:
    """Returns a sentence as it is written between tabs."""
    return re.sub(r"[\t\r\n]", " ", text)


def _pairs_of(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix.lower() in JSON_LINES:
        names, form = ("source", "target"), "an object with source and target, or source_id and target_id"
        for place, row in file_rows(path):
            ids = [row.get(f"{name}_id") for name in names]
            yield _pair(place, ids if None not in ids else [row.get(name) for name in names], form)
        return
    for number, line in enumerate(stream_lines(path), 1):
        fields = line.split("\t")
        if line.strip():
            yield _pair(f"{path}, line {number}", fields[-2:] if len(fields) <= 3 else [], "source, tab, target")


def _pair(place: str, values: list[Any], form: str) -> tuple[str, str]:
    if len(values) != 2 or not all(isinstance(value, str) and value.strip() for value in values):
        raise ValueError(f"{place}: expected {form}, as mine writes them")
    return values[0], values[1]
