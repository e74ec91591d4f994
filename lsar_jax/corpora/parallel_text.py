"""Parallel text: tables ``en-xx.tsv`` of domain, English and xx, Moses files, or as prepared."""

import hashlib
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from lsar_jax.corpora.builders import Parallel
from lsar_jax.corpora.tables import Data, folder_of, named_pairs, named_tables
from lsar_jax.languages import language_code

__all__ = ["Pair", "distinct", "held_out", "read_bitext", "text_key"]

Pair = tuple[str, str]

_log = logging.getLogger("lsar_jax")


def read_bitext(
    data: Data, languages: Sequence[str], option: str, known: Sequence[str] = (), split: str = ""
) -> dict[str, list[Pair]]:
    """Returns the pairs of English and each language; rows with an empty side are left out, and their number is logged.

    Args:
      data: the folder of tables or Moses files, or that ``prepare`` wrote; ``hub:ID`` or ``tfds:NAME``.
      languages: codes; by default all that there are.
      option: of the command line that names the folder, for the error.
      known: the languages that ``by default`` is limited to, if there are any.
      split: of a dataset with a name; by default its only one or ``test``.

    Raises:
      FileNotFoundError: no file of a language.
      ValueError: a line that has not three fields, or files of different lengths; file and line are named.
    """
    tables = named_tables(data)
    if tables is None:
        sides = _files(folder_of(data, "it is no folder"), languages, option, known)
    else:
        sides = named_pairs(tables, languages, split)
        sides = {code: sides[code] for code in sides if languages or not known or code in known}
    result, skipped = {}, 0
    for code, (first, second) in sides.items():
        every = [(english.strip(), other.strip()) for english, other in zip(first, second, strict=True)]
        result[code] = [pair for pair in every if all(pair)]
        skipped += len(every) - len(result[code])
    if skipped:
        _log.warning("left out %d rows of %s with an empty side", skipped, data)
    return result


def _files(
    folder: Path, languages: Sequence[str], option: str, known: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    try:
        pairs = Parallel.known(folder)
    except FileNotFoundError:
        pairs = ()
    # English may come first or second.
    places = {code: pair for pair in pairs for code in pair.split("-") if code != "en" and "en" in pair.split("-")}
    wanted = [language_code(code) for code in languages] or [code for code in places if not known or code in known]
    missing = ", ".join(code for code in wanted if code not in places)
    if missing or not wanted:
        raise FileNotFoundError(
            f"{folder} has no en-xx.tsv {missing and f'of {missing}'}, but of {', '.join(places) or 'none'}: lines of "
            "domain, English and xx with tabs between, say the messages of Debian's gimp-data, inkscape and "
            f"gnucash-common, or Moses files; put them there or say {option}"
        )
    result = {}
    for code in wanted:
        read = Parallel.load(folder, places[code], "train")
        result[code] = (read.first, read.second) if places[code].startswith("en-") else (read.second, read.first)
    return result


def distinct(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs of which neither side came before, but for case, digits and punctuation."""
    seen: tuple[set[str], set[str]] = set(), set()
    kept = []
    for pair in pairs:
        keys = [text_key(text) for text in pair]
        if any(key in known or not key for key, known in zip(keys, seen, strict=True)):
            continue
        for key, known in zip(keys, seen, strict=True):
            known.add(key)
        kept.append(pair)
    return kept


def text_key(text: str) -> str:
    """Returns what is the same in texts that differ in case, digits and punctuation."""
    return re.sub(r"[\d\W_]+", " ", text.casefold()).strip()


def held_out(pairs: Sequence[Pair], count: int, seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Splits the distinct pairs into those to train on and ``count`` that are held out.

    Which ones is by the hash of the seed and the English sentence: one that is held out with one language is mostly
    held out with the others.

    Raises:
      ValueError: there are not more distinct pairs than ``count``.
    """
    kept = distinct(pairs)
    if not 0 < count < len(kept):
        raise ValueError(f"{count} pairs cannot be held out of {len(kept)} distinct ones")
    order = sorted(kept, key=lambda pair: hashlib.sha256(f"{seed}\t{pair[0]}".encode()).digest())
    return order[count:], order[:count]
