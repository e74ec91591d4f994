"""Parallel text in files ``en-xx.tsv``: domain, English, xx, with tabs between them."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lsar_jax import corpora
from lsar_jax.languages import language_code

__all__ = ["distinct", "held_out", "read_tsv", "tsv_files"]

Pair = tuple[str, str]


def tsv_files(folder: Path, languages: Sequence[str], option: str, known: Sequence[str] = ()) -> dict[str, Path]:
    """Returns the file of each language.

    Args:
      folder: of the files.
      languages: codes; by default all that the folder has.
      option: of the command line that names the folder, for the error.
      known: the languages that ``by default`` is limited to, if there are any.

    Raises:
      FileNotFoundError: no file of a language.
    """
    paths = {language_code(path.stem[3:]): path for path in sorted(folder.glob("en-*.tsv"))}
    wanted = [language_code(code) for code in languages] or [code for code in paths if not known or code in known]
    missing = ", ".join(code for code in wanted if code not in paths)
    if missing or not wanted:
        raise FileNotFoundError(
            f"{folder} has no en-xx.tsv {missing and f'of {missing}'}, but of {', '.join(paths) or 'none'}: lines of "
            "domain, English and xx with tabs between, say the messages of Debian's gimp-data, inkscape and "
            f"gnucash-common; put them there or say {option}"
        )
    return {code: paths[code] for code in wanted}


def read_tsv(path: Path) -> tuple[list[Pair], int]:
    """Returns the pairs of English and the other language, and how many rows with an empty field were left out.

    Raises:
      FileNotFoundError: no such file.
      ValueError: a line that has not three fields; file and line are named.
    """
    pairs, skipped = [], 0
    for number, line in enumerate(corpora.lines(path), 1):
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != 3:
            raise ValueError(f"{path}, line {number} has {len(fields)} fields; there are 3")
        if all(fields):
            pairs.append((fields[1], fields[2]))
        else:
            skipped += 1
    return pairs, skipped


def distinct(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs of which neither side came before, but for case, digits and punctuation."""
    seen: tuple[set[str], set[str]] = set(), set()
    kept = []
    for pair in pairs:
        keys = [re.sub(r"[\d\W_]+", " ", text.casefold()).strip() for text in pair]
        if any(key in known or not key for key, known in zip(keys, seen, strict=True)):
            continue
        for key, known in zip(keys, seen, strict=True):
            known.add(key)
        kept.append(pair)
    return kept


def held_out(pairs: Sequence[Pair], count: int, seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Splits the distinct pairs into those to train on and ``count`` that are held out.

    Raises:
      ValueError: there are not more distinct pairs than ``count``.
    """
    kept = distinct(pairs)
    if not 0 < count < len(kept):
        raise ValueError(f"{count} pairs cannot be held out of {len(kept)} distinct ones")
    order = np.random.default_rng(seed).permutation(len(kept))
    return [kept[i] for i in order[count:]], [kept[i] for i in order[:count]]
