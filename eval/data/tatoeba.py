"""LASER's Tatoeba v1: sentence pairs of English and other languages, among them the 36 of XTREME.

The files are those in ``data/tatoeba/v1`` of github.com/facebookresearch/LASER (CC BY 2.0 FR). Each language has two,
``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``; line i of one translates line i of the other.
``hub:mteb/tatoeba-bitext-mining`` and ``tfds:tatoeba/tatoeba_{}`` are derived from them.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lsar_jax.corpora.by_language import chosen, folder_at
from lsar_jax.corpora.tables import Data, named_pairs, named_tables
from lsar_jax.corpora.text_files import line_pairs
from lsar_jax.languages import language_code, own_name

__all__ = ["ORACLE_8", "ORACLE_14", "XTREME_36", "check_not_blank", "files_of", "read_pairs"]

_XTREME = "af ar bg bn de el es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr nl pt ru sw ta te th tl tr ur vi zh"
XTREME_36 = tuple(_XTREME.split())
# The languages of ORACLE's table with 14 languages.
ORACLE_14 = ("ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
# The languages of its table of code-switched sentences; Romanian is not among the 36.
ORACLE_8 = ("ar", "de", "es", "fr", "it", "nl", "pt", "ro")


def read_pairs(data: Data, languages: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Reads the English side and the other side of each language's pairs."""

    def sides(found: Iterable[tuple[str, str]], places: Sequence[object]) -> tuple[list[str], list[str]]:
        english, other = map(list, zip(*found, strict=True))
        for place, lines in zip(places, (english, other), strict=True):
            check_not_blank(lines, str(place))
        return english, other

    if (tables := named_tables(data)) is not None:
        named, place = named_pairs(tables, languages).items(), tables.name
        return {code: sides(of, [f"{place}, {side} of {code}" for side in ("English", code)]) for code, of in named}
    advice = "copy data/tatoeba/v1 of facebookresearch/LASER there, or set --data hub:mteb/tatoeba-bitext-mining"
    names = files_of(folder_at(data, advice))
    pairs = {}
    for code in chosen({language_code(name): name for name in names}, languages, data, "files for {}"):
        name = own_name(code, names, str(data))
        paths = [Path(data, f"tatoeba.{name}-eng.{side}") for side in ("eng", name)]
        pairs[code] = sides(line_pairs(*paths), paths)
    return pairs


def files_of(folder: Path) -> list[str]:
    """The languages that a folder has pairs of, as its file names have them."""
    matches = (re.fullmatch(r"tatoeba\.(\w+)-eng\.\1", path.name) for path in sorted(folder.iterdir()))
    return [match[1] for match in matches if match]


def check_not_blank(lines: Sequence[str], where: str) -> None:
    """Raises ValueError that names the first blank line."""
    if blank := next((number for number, line in enumerate(lines, 1) if not line.strip()), None):
        raise ValueError(f"{where}, line {blank} is blank")
