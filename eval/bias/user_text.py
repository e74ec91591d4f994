"""A user's own multilingual text: a folder with a file per language, or parallel text of English and other languages.

If line i has the same content in every file, or if there are pairs, retrieval of translations can be measured.
Sentences that repeat another of their language, ignoring case, digits and punctuation, are left out, since a copy could
be found instead of a translation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from eval.metrics import find_own
from lsar_jax import corpora, languages, transforms
from lsar_jax.cli.console import console
from lsar_jax.corpora.parallel_text import distinct, read_bitext, shuffled, text_key

__all__ = ["Aligned", "UserText", "finds_lines", "read_user_text"]

Aligned = Literal["auto", "yes", "no"]

# Fewest sentences of a language.
_LEAST = 20
# A line finds its translation this many times as often as by chance in text that is taken to be aligned.
_ABOVE_CHANCE = 10


@dataclass(frozen=True)
class UserText:
    """The sentences of each language, and which of them translate each other.

    Attributes:
      sentences: language -> different sentences.
      units: language -> unit of each sentence. Sentences of one unit, such as translations of each other, are fitted
        on or measured together.
      pairs: language -> rows of English sentences, and rows of their translations, for parallel text with English.
      aligned: whether sentences of a unit translate each other.
    """

    sentences: dict[str, list[str]]
    units: dict[str, Int[np.ndarray, " _"]]
    pairs: dict[str, tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]
    aligned: bool

    @property
    def codes(self) -> list[str]:
        """The languages."""
        return list(self.sentences)

    @property
    def count(self) -> int:
        """The number of sentences."""
        return sum(map(len, self.sentences.values()))

    @property
    def form(self) -> str:
        """What the text is, in words."""
        if self.pairs:
            return "pairs of English and another language"
        return "the same content in every language, line by line" if self.aligned else "text that is not aligned"

    def order(self, seed: int) -> dict[str, Int[np.ndarray, " _"]]:
        """The place of each sentence in a random order of the units, which is the same in all languages."""
        place = np.random.default_rng(seed).permutation(1 + max(int(unit.max()) for unit in self.units.values()))
        return {code: place[unit] for code, unit in self.units.items()}

    def folds(self, count: int, seed: int) -> dict[str, Int[np.ndarray, " _"]]:
        """The fold of each sentence; units stay together, and each language has as many in every fold.

        Units are dealt in a random order to the fold that has the fewest of the language, the rarest language first.
        """
        order = self.order(seed)
        fold = np.full(1 + max(int(place.max()) for place in order.values()), -1)
        for place in sorted(order.values(), key=len):
            sizes = np.bincount(fold[place][fold[place] >= 0], minlength=count)
            for unit in np.sort(place[fold[place] < 0]):
                fold[unit] = sizes.argmin()
                sizes[fold[unit]] += 1
        return {code: fold[place] for code, place in order.items()}

    def not_aligned(self) -> "UserText":
        """The same sentences, with a unit for each."""
        counts = list(map(len, self.sentences.values()))
        units = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
        return replace(self, units=dict(zip(self.sentences, units, strict=True)), pairs={}, aligned=False)


def read_user_text(folder: Path, codes: Sequence[str], count: int, aligned: Aligned, seed: int) -> UserText:
    """Reads a folder of ``{language}.txt`` files, or of parallel text in any form that ``read_bitext`` reads.

    Text with as many lines in every file counts as aligned, unless ``aligned`` is ``no``; ``finds_lines`` tells from
    the embeddings whether it is. Of each language, ``count`` sentences are drawn at random.
    """
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; put a file per language there, such as de.txt and en.txt, with one sentence "
            "per line, or parallel text, such as en-de.tsv"
        )
    if any(folder.glob("*.txt")):
        if tables := sorted([*folder.glob("*.tsv"), *folder.glob("*.*-*.*")]):
            raise ValueError(
                f"{folder} has both a file per language and parallel text ({tables[0].name}); give each a folder of "
                "its own"
            )
        text = _read_files(folder, codes, count, aligned, seed)
    else:
        text = _read_pairs(folder, codes, count, seed)
    if len(text.sentences) < 2:
        raise ValueError(f"{folder} has only {', '.join(text.sentences)}; give text in at least two languages")
    for code, sentences in text.sentences.items():
        if len(sentences) < _LEAST:
            raise ValueError(
                f"{folder} has {len(sentences)} different sentences in {code}; give at least {_LEAST}, or leave the "
                "language out with --languages"
            )
    return text


def finds_lines(x: Mapping[str, Float[np.ndarray, "sentence dim"]]) -> bool:
    """Whether the lines of each language find those of the same number in the first language far above chance."""
    center = transforms.fit_center(x)
    first, *others = (np.asarray(center(rows, code)) for code, rows in x.items())
    return min(find_own(rows, first).mean() for rows in others) >= min(1.0, _ABOVE_CHANCE / len(first))


def _read_files(folder: Path, codes: Sequence[str], count: int, aligned: Aligned, seed: int) -> UserText:
    paths = corpora.language_files(folder, ".txt", codes or None)
    texts = {code: [line.strip() for line in corpora.lines(path)] for code, path in paths.items()}
    counts = {code: len(text) for code, text in texts.items()}
    same = len(set(counts.values())) == 1
    if aligned == "yes" and not same:
        raise ValueError(
            f"--aligned yes needs as many lines in every file, but they have {counts}; correct the files, or "
            "leave --aligned out"
        )
    rows = {code: _different(text) for code, text in texts.items()}
    rng = np.random.default_rng(seed)
    if not same or aligned == "no":
        sentences = {}
        for code, text in texts.items():
            _print_left_out(counts[code] - len(rows[code]), f"lines of {paths[code]} that are blank or repeated")
            sentences[code] = [text[i] for i in np.sort(rng.permutation(rows[code])[:count])]
        return UserText(sentences, {}, {}, False).not_aligned()
    shared = reduce(np.intersect1d, rows.values())
    _print_left_out(max(counts.values()) - len(shared), f"lines of {folder} that are blank or repeated in a language")
    if len(shared) < _LEAST:
        raise ValueError(
            f"{folder} has {len(shared)} lines with text in all of {', '.join(texts)}, of "
            f"{ {code: len(of) for code, of in rows.items()} } in each; choose languages with --languages, or have the "
            "files read as not aligned with --aligned no"
        )
    shared = np.sort(rng.permutation(shared)[:count])
    sentences = {code: [text[i] for i in shared] for code, text in texts.items()}
    return UserText(sentences, dict.fromkeys(texts, np.arange(len(shared))), {}, True)


def _read_pairs(folder: Path, codes: Sequence[str], count: int, seed: int) -> UserText:
    others = [code for code in map(languages.language_code, codes) if code != "en"]
    if codes and not others:
        raise ValueError("--languages names only English; name the languages of the pairs, such as de")
    try:
        read = read_bitext(folder, others, "--texts")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder} has neither a file per language, such as de.txt, nor parallel text: {error}"
        ) from error
    pairs = {}
    for code, bitext in read.items():
        different = distinct(bitext)
        _print_left_out(len(bitext) - len(different), f"pairs of en-{code} that repeat a side of another pair")
        pairs[code] = shuffled(different, seed)[:count]
    english = list(dict.fromkeys(first for of in pairs.values() for first, _ in of))
    place = {sentence: number for number, sentence in enumerate(english)}
    units = {code: np.array([place[first] for first, _ in of]) for code, of in pairs.items()}
    sentences = {"en": english} | {code: [second for _, second in of] for code, of in pairs.items()}
    sides = {code: (unit, np.arange(len(unit))) for code, unit in units.items()}
    return UserText(sentences, {"en": np.arange(len(english))} | units, sides, True)


def _different(text: Sequence[str]) -> Int[np.ndarray, " _"]:
    """The lines that are not blank and repeat no earlier one; a line without letters is its own key."""
    first: dict[str, int] = {}
    for number, line in enumerate(text):
        if line:
            first.setdefault(text_key(line) or line, number)
    return np.array(list(first.values()), int)


def _print_left_out(count: int, what: str) -> None:
    if count:
        console.print(f"left out {count} {what}")
