"""STS17: sentence pairs with human similarity scores from 0 to 5.

The files are ``STS.input.track*.txt`` (two tab-separated sentences per line) and ``STS.gs.track*.txt`` (scores), as in
github.com/eduardofv/sts_eval. There, track 6 has 500 pairs but scores only for the first 250; the others are dropped,
and a note is printed. The columns are not always in the order of the file name: tracks 2, 4b and 6 have English first.
The columns of other tracks (such as ``STS.input.track7.en-de.txt``) are read in the order of the name.
``hub:mteb/sts17-crosslingual-sts`` names the tracks by their languages, lacks track 4b, and adds four more.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lsar_jax import corpora
from lsar_jax.cli.console import console
from lsar_jax.corpora.tables import Data, Tables, named_tables, one_split, plain_folder
from lsar_jax.languages import language_code

__all__ = ["Track", "read_tracks"]

# The track with public scores for its first half only, and the tracks with swapped columns.
_HALF = "6.tr-en"
_TURNED = ("2.ar-en", "4b.es-en", "6.tr-en")


@dataclass(frozen=True)
class Track:
    """Sentence pairs with gold scores.

    Attributes:
      languages: language codes of the two columns.
      pairs: the two columns of sentences.
      gold: scores from 0 to 5.
    """

    languages: tuple[str, str]
    pairs: tuple[list[str], list[str]]
    gold: Float[np.ndarray, " pair"]


def read_tracks(data: Data, names: tuple[str, ...] = (), split: str = "") -> dict[str, Track]:
    """Reads the tracks by name, such as ``4a.es-en`` in files and ``es-en`` in a named dataset.

    Args:
      data: folder of the files, or ``hub:ID``.
      names: names of the tracks; by default, all available.
      split: split of a named dataset; by default, its only split, or else ``test``.

    Raises:
      FileNotFoundError: the data, a track or a file of scores does not exist.
      ValueError: a line is not two sentences, a score is not a number from 0 to 5, or the numbers of pairs
        and scores disagree. Errors name the file.
    """
    tables = named_tables(data)
    return _files(plain_folder(data), names) if tables is None else _named(tables, names, split)


def _named(tables: Tables, names: tuple[str, ...], split: str) -> dict[str, Track]:
    matches = {name: re.fullmatch(r"(\w+)-(\w+)", name) for name in tables.configs}
    there = {name: match for name, match in matches.items() if match}
    missing = [name for name in names if name not in there]
    if missing or not there:
        raise ValueError(
            f"{tables.name} has no track {', '.join(missing)}; it has {', '.join(there) or 'none named like en-tr'}"
        )
    tracks = {}
    for name in names or sorted(there):
        first, second, gold = [], [], []
        for number, row in enumerate(tables.rows(name, one_split(tables, name, split)), 1):
            sides = [str(row.get(column) or "").strip() for column in ("sentence1", "sentence2")]
            score = row.get("score")
            if not all(sides) or not isinstance(score, int | float) or not 0 <= score <= 5:
                raise ValueError(
                    f"{tables.name}, track {name}, row {number} is not sentence1, sentence2 and a score from 0 to 5"
                )
            first.append(sides[0])
            second.append(sides[1])
            gold.append(float(score))
        if not gold:
            raise ValueError(f"{tables.name}, track {name} has no rows")
        languages = language_code(there[name][1]), language_code(there[name][2])
        tracks[name] = Track(languages, (first, second), np.array(gold))
    return tracks


def _files(folder: Path, names: tuple[str, ...]) -> dict[str, Track]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; copy sts2017 of github.com/eduardofv/sts_eval there, or set --data, "
            "for example to hub:mteb/sts17-crosslingual-sts"
        )
    pattern = r"STS\.input\.track(\w+\.(\w+)-(\w+))\.txt"
    there = {match[1]: match for path in folder.iterdir() if (match := re.fullmatch(pattern, path.name))}
    missing = [name for name in names if name not in there]
    if missing or not there:
        raise FileNotFoundError(
            f"{folder} has no track {', '.join(missing)}; it has {', '.join(sorted(there)) or 'none'}"
        )
    tracks = {}
    for name in names or sorted(there):
        pairs = _pairs(folder / f"STS.input.track{name}.txt")
        gold = _scores(folder / f"STS.gs.track{name}.txt")
        if len(gold) > len(pairs):
            raise ValueError(
                f"{folder}, track {name}: {len(pairs)} pairs and {len(gold)} scores; each pair must have one score"
            )
        if len(gold) < len(pairs) and name != _HALF:
            raise ValueError(
                f"{folder}, track {name}: {len(pairs)} pairs and {len(gold)} scores; each pair must have one score"
            )
        if len(gold) < len(pairs):
            console.print(f"track {name}: using the first {len(gold)} of {len(pairs)} pairs; the others have no score")
        first, second = language_code(there[name][2]), language_code(there[name][3])
        languages = (second, first) if name in _TURNED else (first, second)
        columns = ([pair[0] for pair in pairs[: len(gold)]], [pair[1] for pair in pairs[: len(gold)]])
        tracks[name] = Track(languages, columns, gold)
    return tracks


def _pairs(path: Path) -> list[list[str]]:
    pairs = [line.split("\t") for line in corpora.lines(path)]
    for number, pair in enumerate(pairs, 1):
        if len(pair) != 2 or not all(part.strip() for part in pair):
            raise ValueError(f"{path}, line {number} is not two sentences separated by a tab")
    return pairs


def _scores(path: Path) -> Float[np.ndarray, " pair"]:
    scores = []
    for number, line in enumerate(corpora.lines(path), 1):
        try:
            score = float(line)
        except ValueError:
            score = -1.0
        if not 0 <= score <= 5:
            raise ValueError(f"{path}, line {number}: {line!r} is not a score from 0 to 5")
        scores.append(score)
    return np.array(scores)
