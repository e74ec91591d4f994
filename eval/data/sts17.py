"""STS17: sentence pairs with human similarity scores from 0 to 5.

The files are ``STS.input.track*.txt`` (two tab-separated sentences per line) and ``STS.gs.track*.txt`` (scores), as in
github.com/eduardofv/sts_eval. There, track 6 has 500 pairs but scores only for the first 250; the others are dropped,
and a note is printed. The columns are not always in the order of the file name: tracks 2, 4b and 6 have English first.
The columns of other tracks (such as ``STS.input.track7.en-de.txt``) are read in the order of the name.
``hub:mteb/sts17-crosslingual-sts`` names the tracks by their languages, lacks track 4b, and adds four more.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lsar_jax import corpora
from lsar_jax.console.output import console
from lsar_jax.corpora.by_language import folder_at
from lsar_jax.corpora.tables import Data, Tables, named_tables, numbered_rows, text_in
from lsar_jax.corpora.text_files import fields_of
from lsar_jax.languages import language_code

__all__ = ["Track", "read_tracks"]

# The track with public scores for its first half only, and the tracks with swapped columns.
_HALF = "6.tr-en"
_TURNED = ("2.ar-en", "4b.es-en", "6.tr-en")

# A track's name, languages, and rows with their places.
_Read = tuple[str, tuple[str, str], Iterable[tuple[str, dict[str, Any]]]]


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
        first, second, gold = list[str](), list[str](), list[float]()
        for where, row in rows:
            one, other, score = (text_in(row, column, where).strip() for column in ("sentence1", "sentence2", "score"))
            first.append(one)
            second.append(other)
            gold.append(float(score) if re.fullmatch(r"\d+(\.\d*)?", score) else -1)
            if not 0 <= gold[-1] <= 5:
                raise ValueError(f"{where} has the score {score!r}; it must be a number from 0 to 5")
        tracks[name] = Track(languages, (first, second), np.array(gold))
    if not tracks:
        raise FileNotFoundError(f"{data} has no track named like en-tr or STS.input.trackNAME.xx-yy.txt")
    return tracks


def _named(tables: Tables) -> Iterator[_Read]:
    for match in filter(None, (re.fullmatch(r"(\w+)-(\w+)", name) for name in tables.configs)):
        yield match[0], (language_code(match[1]), language_code(match[2])), numbered_rows(tables, match[0])


def _files(folder: Path) -> Iterator[_Read]:
    advice = "copy sts2017 of github.com/eduardofv/sts_eval there, or set --data hub:mteb/sts17-crosslingual-sts"
    for path in folder_at(folder, advice).iterdir():
        match = re.fullmatch(r"STS\.input\.track(\w+\.(\w+)-(\w+))\.txt", path.name)
        if match is None:
            continue
        name, pairs = match[1], list(fields_of(path, ("sentence1", "sentence2")))
        scores = corpora.lines(folder / f"STS.gs.track{name}.txt")
        if len(scores) > len(pairs) or (len(scores) < len(pairs) and name != _HALF):
            raise ValueError(f"{folder}, track {name}: {len(pairs)} pairs and {len(scores)} scores; give one for each")
        if count := len(pairs) - len(scores):
            console.print(f"track {name}: {count} of {len(pairs)} pairs have no score, and are left out")
        rows = [
            (f"{where}, with that line of its scores,", row | {"score": score})
            for (where, row), score in zip(pairs, scores, strict=False)
        ]
        first, second = language_code(match[2]), language_code(match[3])
        yield name, (second, first) if name in _TURNED else (first, second), rows
