"""Bilingual dictionaries of single words.

    apt install dict-freedict-deu-eng dict-freedict-fra-eng     # or unpack the packages anywhere
    python -m eval make-dictionaries --from /usr/share/dictd --to data/dictionaries

The format is MUSE's: ``de-en.txt`` with a word and one translation per line, as published by Conneau et al., "Word
translation without parallel data", ICLR 2018 (github.com/facebookresearch/MUSE). ``make-dictionaries`` converts
FreeDict's, from the Debian packages ``dict-freedict-deu-eng`` and so on (GPL or other free licences).
"""

import gzip
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated

import regex
import tyro

from lsar_jax import corpora
from lsar_jax.console.output import console
from lsar_jax.corpora.by_language import named_files
from lsar_jax.corpora.text_rules import folded, separated
from lsar_jax.files import check_outputs, write_text
from lsar_jax.languages import language_code

__all__ = ["MakeDictionaries", "entries", "read_dictionary"]

_DIGITS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
# Annotations of a translation: part of speech, register, domain, remarks.
_REMARK = re.compile(r"<[^>]*>|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|/[^/]*/|\"[^\"]*\"")
_SOURCE = "get it from github.com/facebookresearch/MUSE, or from FreeDict with python -m eval make-dictionaries"


@dataclass(frozen=True)
class MakeDictionaries:
    """Converts FreeDict's dictionaries to MUSE's format.

    Attributes:
      source: folder with freedict-deu-eng.index, freedict-deu-eng.dict.dz and so on.
      to: folder to which de-en.txt and so on are written.
      overwrite: replace files that exist.
    """

    source: Annotated[Path, tyro.conf.arg(name="from")] = Path("/usr/share/dictd")
    to: Path = Path("data/dictionaries")
    overwrite: bool = False

    def run(self) -> None:
        """Writes a file for each dictionary into English, and prints its number of words."""
        indices = sorted(self.source.glob("freedict-*-eng.index"))
        if not indices:
            raise FileNotFoundError(f"{self.source} has no freedict-xxx-eng.index; apt install dict-freedict-deu-eng")
        self.to.mkdir(parents=True, exist_ok=True)
        files = {index: self.to / f"{language_code(index.stem.split('-')[1])}-en.txt" for index in indices}
        check_outputs(files.values(), overwrite=self.overwrite)
        for index, path in files.items():
            lines = [f"{word}\t{translation}\n" for word, translation in dict.fromkeys(entries(index))]
            words = len({line.partition("\t")[0] for line in lines})
            write_text(path, "".join(lines))
            console.print(f"{path.name}: {words} words, {len(lines)} translations")


def read_dictionary(folder: Path, code: str) -> dict[str, list[str]]:
    """Reads the English translations of each word of a language, ``folded``, from ``{code}-en.txt``."""
    path = named_files(folder, [r"(.*)-en\.txt"], [code], "dictionary {}-en.txt", _SOURCE)[code]
    words: dict[str, list[str]] = {}
    for number, line in enumerate(corpora.lines(path), 1):
        # MUSE separates the two by a space or a tab; a translation of several words must follow a tab.
        parts = line.split("\t") if "\t" in line else separated(line)
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise ValueError(f"{path}, line {number} is not a word and its translation: {line!r:.60}")
        word, translation = (folded(part.strip()) for part in parts)
        if translation not in (known := words.setdefault(word, [])):
            known.append(translation)
    return words


def entries(index: Path) -> Iterator[tuple[str, str]]:
    """Yields (word, translation) pairs, both single words, from a FreeDict dictionary in dictd's format.

    Translations are separated by commas or semicolons, on those lines below the headword that are not indented.
    """
    path = index.with_suffix(".dict.dz")
    data = gzip.decompress(path.read_bytes()) if path.is_file() else index.with_suffix(".dict").read_bytes()
    for line in corpora.lines(index):
        word, *places = line.split("\t")
        if word.startswith("00") or not regex.fullmatch(r"\w+", word):
            continue
        # Numbers in dictd's base 64, whose first digit counts most.
        start, size = (reduce(lambda value, digit: 64 * value + _DIGITS.index(digit), place, 0) for place in places)
        for text in data[start : start + size].decode("utf-8").split("\n")[1:]:
            if text[:1].isspace() or not text:
                continue
            for part in re.split(r"[,;]", _REMARK.sub(" ", re.sub(r"^\d+\.\s*", "", text))):
                translation = part.strip().removeprefix("to ").strip()
                if re.fullmatch(r"[A-Za-z'-]+", translation):
                    yield folded(word), translation.casefold()
