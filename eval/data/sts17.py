"""STS17: sentence pairs with human similarity scores from 0 to 5.

The files are ``STS.input.track*.txt`` (two tab-separated sentences per line) and ``STS.gs.track*.txt`` (scores), as in
github.com/eduardofv/sts_eval. There, track 6 has 500 pairs but scores only for the first 250; the others are dropped,
and a note is printed. The columns are not always in the order of the file name: tracks 2, 4b and 6 have English first.
The columns of other tracks (such as ``STS.input.track7.en-de.txt``) are read in the order of the name.
``hub:mteb/sts17-crosslingual-sts`` names the tracks by their languages, lacks track 4b, and adds four more.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lsar_jax import corpora
from lsar_jax.console.output import console
from lsar_jax.corpora.tables import Data, Tables, named_tables, one_split
from lsar_jax.languages import language_code

__all__ = ["Track", "read_tracks"]

# The track with public scores for its first half only, and the tracks with swapped columns.
_HALF = "6.tr-en"
_TURNED = ("2.ar-en", "4b.es-en", "6.tr-en")

# A track's name, languages, and rows: where a pair is, its two sentences and its score, before they are checked.
_Read = tuple[str, tuple[str, str], list[tuple[str, Any, Any, Any]]]


@dataclass(frozen=True)
class Track:
    """Two columns of sentences, their languages, and gold scores of the pairs from 0 to 5."""

    languages: tuple[str, str]
    pairs: tuple[list[str], list[str]]
    gold: Float[np.ndarray, " pair"]


def read_tracks(data: Data) -> dict[str, Track]:
    """Reads all tracks by name, such as ``4a.es-en`` in files and ``es-en`` in a dataset ``hub:ID``."""
    tables = named_tables(data)
    tracks: dict[str, Track] = {}
    for name, languages, rows in sorted(_files(Path(data)) if tables is None else _named(tables)):
        for where, *sides, score in rows:
            texts = all(isinstance(side, str) and side.strip() for side in sides)
            if not texts or not isinstance(score, int | float) or not 0 <= score <= 5:
                raise ValueError(f"{where} is not two sentences with a score from 0 to 5")
        _, first, second, scores = zip(*rows, strict=True) if rows else ((), (), (), ())
        tracks[name] = Track(languages, (list(first), list(second)), np.array(scores, np.float64))
    if not tracks:
        raise FileNotFoundError(f"{data} has no track named like en-tr or STS.input.trackNAME.xx-yy.txt")
    return tracks


def _named(tables: Tables) -> Iterator[_Read]:
    for match in (re.fullmatch(r"(\w+)-(\w+)", name) for name in tables.configs):
        if match is None:
            continue
        where = f"{tables.name}, track {match[0]}"
        rows = [
            (f"{where}, row {number}", _text(row.get("sentence1")), _text(row.get("sentence2")), row.get("score"))
            for number, row in enumerate(tables.rows(match[0], one_split(tables, match[0], "")), 1)
        ]
        if not rows:
            raise ValueError(f"{where} has no rows")
        yield match[0], (language_code(match[1]), language_code(match[2])), rows


def _files(folder: Path) -> Iterator[_Read]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; copy sts2017 of github.com/eduardofv/sts_eval there, or set --data, "
            "for example to hub:mteb/sts17-crosslingual-sts"
        )
    for path in folder.iterdir():
        match = re.fullmatch(r"STS\.input\.track(\w+\.(\w+)-(\w+))\.txt", path.name)
        if match is None:
            continue
        name, gold = match[1], folder / f"STS.gs.track{match[1]}.txt"
        pairs, scores = corpora.lines(path), corpora.lines(gold)
        if len(scores) > len(pairs) or (len(scores) < len(pairs) and name != _HALF):
            raise ValueError(
                f"{folder}, track {name}: {len(pairs)} pairs and {len(scores)} scores; each pair must have one score"
            )
        if count := len(pairs) - len(scores):
            console.print(f"track {name}: {count} of {len(pairs)} pairs have no score, and are left out")
        first, second = language_code(match[2]), language_code(match[3])
        rows = []
        for number, (line, score) in enumerate(zip(pairs, scores, strict=False), 1):
            sides = line.split("\t")
            where = f"{path}, line {number}, with that line of {gold.name},"
            left, right = sides if len(sides) == 2 else ("", "")
            rows.append((where, left, right, float(score) if re.fullmatch(r"\s*\d+(\.\d*)?\s*", score) else None))
        yield name, (second, first) if name in _TURNED else (first, second), rows


def _text(value: Any) -> str:
    return str(value or "").strip()
