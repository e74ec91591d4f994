"""Pairs that are known to be translations: their file, and their rows in two collections."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from lsar_jax.checks import as_float, shown
from lsar_jax.corpora.row_files import JSON_LINES
from lsar_jax.embeddings import Embeddings
from lsar_jax.files import check_file

__all__ = ["KnownPairs", "Side", "flat", "known_rows"]

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
        """Reads pairs from a file of the forms that ``mine_folders`` writes, of which the score may be absent.

        Raises:
          OSError: there is no such file.
          ValueError: a line has other columns, the file has no pairs, or the precision is not a percentage.
        """
        pairs = tuple(dict.fromkeys(_pairs_of(path)))
        if not pairs:
            raise ValueError(f"{path} has no pairs")
        known = cls(pairs, least_precision)
        known.check()
        return known

    def check(self) -> None:
        """Raises ValueError if the precision is not a percentage."""
        least = self.least_precision
        if least is not None and not 0 < as_float(least) <= 100:
            raise ValueError(
                f"the precision on known pairs is {shown(least)}; it must be above 0 and at most 100 percent"
            )


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
            _log.warning(
                "%d known pairs are in the inputs, fewer than %d: a threshold that so few choose is uncertain",
                len(found),
                _FEW,
            )
        return found
    one, other = threshold.pairs[0]
    raise ValueError(
        f"none of the {len(threshold.pairs):,} known pairs is in the inputs, neither as sentences nor as ids; give "
        f"that of the source first, and then that of the target; the first pair is {one!r:.80} and {other!r:.80}"
    )


def _rows_of(side: Side, names: set[str], by_id: bool) -> dict[str, int]:
    """The number, among the distinct sentences, of those with these ids or this text (without tabs)."""
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
    as_json = path.suffix.lower() in JSON_LINES
    for number, line in enumerate(_lines(path), 1):
        line = line.removesuffix("\n")
        if not line.strip():
            continue
        pair: list[Any] = []
        if as_json:
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if isinstance(row, dict):
                ids = {"source_id", "target_id"} <= row.keys()
                pair = [row.get(f"{side}_id" if ids else side) for side in ("source", "target")]
        else:
            pair = [*line.split("\t")][-2:] if line.count("\t") in (1, 2) else []
        if len(pair) != 2 or not all(isinstance(value, str) and value.strip() for value in pair):
            form = "an object with source and target, or source_id and target_id" if as_json else "source, tab, target"
            raise ValueError(f"{path}, line {number}: expected {form}, as mine writes them")
        yield str(pair[0]), str(pair[1])


def _lines(path: Path) -> Iterator[str]:
    check_file(path)
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error
