r"""Aligned sentences in two text files: their words, and their links in Pharaoh format.

``en-de.train.words`` has lines such as ``the cat sleeps ||| die Katze schläft``, the input of fast_align and eflomal;
``en-de.train.links`` has lines such as ``0-0 1-1 2-2``, their output. As in fast_align, spaces and tabs of ASCII
separate words, and other white space, as within ``10\u00a0000``, does not. The files of the validation pairs have
``validation`` in place of ``train``. Files of any aligner can be read, because links are filtered when they are read:
it may also get both parts at once, as ``en-de.words``, from ``python -m train.word_pairs --links``.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lsar_jax.checks import errors_of
from lsar_jax.corpora.by_language import add_once, chosen
from lsar_jax.corpora.text_files import line_pairs
from lsar_jax.corpora.text_rules import separated
from lsar_jax.files import write_text
from lsar_jax.languages import language_code
from train.word_pairs.links import Links, one_to_one, parse_links
from train.word_pairs.word_splitter import SEPARATOR

__all__ = [
    "PARTS", "AlignedPair", "LinkCounts", "Words", "keep", "read_aligned", "read_pairs", "write_aligned", "write_words",
]  # fmt: skip

PARTS = ("train", "validation")
# The words of an English sentence and of its translation.
Words = tuple[tuple[str, ...], tuple[str, ...]]


class AlignedPair(NamedTuple):
    """The words of an English sentence and of its translation, and the links between them."""

    english: tuple[str, ...]
    other: tuple[str, ...]
    links: Links


class LinkCounts(NamedTuple):
    """Links of the aligner, those between different words and those one to one; pairs, and those with links left."""

    aligned: int
    different: int
    one_to_one: int
    pairs: int
    linked: int


def keep(aligned: Iterable[AlignedPair]) -> tuple[list[AlignedPair], LinkCounts]:
    """Returns the pairs with their one-to-one links between different words, without pairs that have none, and counts.

    Equal words are dropped first, because that decides which links are one to one. Applied twice, it changes nothing.
    """
    pairs, counts = [], np.zeros(5, int)
    for pair in aligned:
        different = frozenset((i, j) for i, j in pair.links if pair.english[i] != pair.other[j])
        links = one_to_one(different)
        if links:
            pairs.append(pair._replace(links=links))
        counts += len(pair.links), len(different), len(links), 1, bool(links)
    return pairs, LinkCounts(*counts.tolist())


def write_aligned(folder: Path, code: str, part: str, pairs: Sequence[AlignedPair]) -> None:
    """Writes the words and the links of a language's pairs."""
    write_words(folder / f"en-{code}.{part}.words", [pair[:2] for pair in pairs])
    lines = (" ".join(f"{i}-{j}" for i, j in sorted(pair.links)) for pair in pairs)
    write_text(folder / f"en-{code}.{part}.links", "".join(f"{line}\n" for line in lines))


def write_words(path: Path, pairs: Sequence[Words]) -> None:
    """Writes the words of pairs, a pair a line."""
    write_text(path, "".join(f"{' '.join(english)} {SEPARATOR} {' '.join(other)}\n" for english, other in pairs))


def read_aligned(folder: Path, part: str, languages: Sequence[str] = ()) -> dict[str, list[AlignedPair]]:
    """Returns the filtered pairs of each language."""
    ending = f".{part}.words"
    paths: dict[str, Path] = {}
    for path in sorted(folder.glob(f"en-*{ending}")):
        add_once(paths, language_code(path.name.removesuffix(ending).partition("-")[2]), path)
    advice = f"; make it with python -m train.word_pairs --out {folder}"
    result: dict[str, list[AlignedPair]] = {}
    for code, words in chosen(paths, languages or None, folder, f"en-{{}}{ending}", advice).items():
        result[code] = keep(read_pairs(words, words.with_suffix(".links")))[0]
    return result


def read_pairs(words: Path, links: Path) -> Iterable[AlignedPair]:
    """Yields the pairs of a file of words with the links of a file beside it, unfiltered; line i belongs to line i."""
    for number, (sentences, line) in enumerate(line_pairs(words, links), start=1):
        tokens = separated(sentences)
        place = tokens.index(SEPARATOR) if tokens.count(SEPARATOR) == 1 else 0
        sides = (tuple(tokens[:place]), tuple(tokens[place + 1 :]))
        if not all(sides):
            raise ValueError(f"{words}, line {number} is not 'English words {SEPARATOR} other words'")
        with errors_of(f"{links}, line {number}"):
            parsed = parse_links(line, *map(len, sides))
        yield AlignedPair(*sides, parsed)
