"""Bilingual dictionaries, word by word.

    apt install dict-freedict-deu-eng dict-freedict-fra-eng     # or unpack the packages anywhere
    python -m eval make-dictionaries --from /usr/share/dictd --to data/dictionaries

Read in MUSE's form, ``de-en.txt`` with a word and one of its translations a line, as Conneau et al., "Word
translation without parallel data", ICLR 2018, published them (github.com/facebookresearch/MUSE). Where those are
not to be had, FreeDict's dictionaries of Debian's packages ``dict-freedict-deu-eng`` and so on (GPL or free) are
turned into that form.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from lsar_jax import corpora
from lsar_jax.languages import language_code
from train.console import console

__all__ = ["MakeDictionaries", "entries", "read_dictionary"]

_DIGITS = {letter: n for n, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
# What stands beside a translation: part of speech, register, domain, remarks.
_REMARK = re.compile(r"<[^>]*>|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|/[^/]*/|\"[^\"]*\"")
_SOURCE = (
    "get it from github.com/facebookresearch/MUSE, or make it from Debian's dict-freedict packages with "
    "python -m eval make-dictionaries"
)


@dataclass(frozen=True)
class MakeDictionaries:
    """Dictionaries in MUSE's form from FreeDict's.

    Attributes:
      source: the folder of freedict-deu-eng.index and freedict-deu-eng.dict.dz and others.
      to: the folder to write de-en.txt and others in.
    """

    source: Annotated[Path, tyro.conf.arg(name="from")] = Path("/usr/share/dictd")
    to: Path = Path("data/dictionaries")

    def run(self) -> None:
        """Writes a file for each dictionary into English, and prints how many words it has."""
        indices = sorted(self.source.glob("freedict-*-eng.index"))
        if not indices:
            raise FileNotFoundError(
                f"{self.source} has no freedict-xxx-eng.index; apt install dict-freedict-deu-eng and others, or say "
                "--from"
            )
        self.to.mkdir(parents=True, exist_ok=True)
        for index in indices:
            code = language_code(index.stem.split("-")[1])
            lines = [f"{word}\t{translation}\n" for word, translation in dict.fromkeys(entries(index))]
            words = len({line.partition("\t")[0] for line in lines})
            (self.to / f"{code}-en.txt").write_text("".join(lines), encoding="utf-8")
            console.print(f"{code}-en.txt: {words} words, {len(lines)} translations")


def read_dictionary(folder: Path, code: str) -> dict[str, list[str]]:
    """Returns the English translations of each word of a language, in lower case.

    Raises:
      FileNotFoundError: no ``{code}-en.txt``.
      ValueError: a line that is not a word and a translation; file and line are named.
    """
    path = folder / f"{code}-en.txt"
    if not path.is_file():
        raise FileNotFoundError(f"there is no dictionary {path}; {_SOURCE}")
    words: dict[str, list[str]] = {}
    for number, line in enumerate(corpora.lines(path), 1):
        # MUSE has a space or a tab; a translation of several words comes only after a tab.
        parts = line.split("\t") if "\t" in line else line.split()
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise ValueError(f"{path}, line {number} is not a word and its translation: {line!r:.60}")
        word, translation = (part.strip().casefold() for part in parts)
        if translation not in (known := words.setdefault(word, [])):
            known.append(translation)
    return words


def entries(index: Path) -> Iterator[tuple[str, str]]:
    """Yields the words of a FreeDict dictionary in dictd's form, each with one translation at a time.

    Words and translations of one word each; the first line that is not indented after the headword's holds the
    translations, with commas or semicolons between them.

    Raises:
      ValueError: an index that points outside the dictionary.
    """
    path = index.with_suffix(".dict.dz")
    data = gzip.decompress(path.read_bytes()) if path.is_file() else index.with_suffix(".dict").read_bytes()
    for number, line in enumerate(corpora.lines(index), 1):
        word, *places = line.split("\t")
        if word.startswith("00") or not re.fullmatch(r"\w+", word):
            continue
        start, size = (_number(place) for place in places)
        if start + size > len(data):
            raise ValueError(f"{index}, line {number}: {word!r} lies outside of {path}")
        for text in data[start : start + size].decode("utf-8").splitlines()[1:]:
            if text[:1].isspace() or not text:
                continue
            for part in re.split(r"[,;]", _REMARK.sub(" ", re.sub(r"^\d+\.\s*", "", text))):
                translation = part.strip().removeprefix("to ").strip()
                if re.fullmatch(r"[A-Za-z'-]+", translation):
                    yield word.casefold(), translation.casefold()


def _number(digits: str) -> int:
    """Returns dictd's base 64 number."""
    value = 0
    for digit in digits:
        value = value * 64 + _DIGITS[digit]
    return value
