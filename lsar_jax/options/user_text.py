"""A user's own multilingual text, in files of each language, in pairs or in columns, and vectors of it.

Copies of a sentence, ignoring case, digits and punctuation, are left out: one could be found for a translation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import itemgetter
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int

from lsar_jax import corpora, languages, transforms
from lsar_jax.arrays import padded_rows
from lsar_jax.console.output import console
from lsar_jax.corpora.by_language import group_by
from lsar_jax.corpora.parallel_text import distinct, read_bitext, shuffled
from lsar_jax.corpora.records import Records, is_parquet
from lsar_jax.corpora.row_files import file_rows
from lsar_jax.corpora.text_rules import text_key
from lsar_jax.embeddings import Embeddings
from lsar_jax.options.inputs import open_vectors
from lsar_jax.retrieval import nearest

__all__ = ["Aligned", "UserText", "finds_lines", "read_user_text", "read_user_vectors"]

K = TypeVar("K")

Aligned = Literal["auto", "yes", "no"]

_LEAST = 20  # sentences of a language
# A line finds its translation this many times as often as by chance in text that is taken to be aligned.
_ABOVE_CHANCE = 10


@dataclass(frozen=True)
class UserText:
    """The sentences of each language, and which of them translate each other.

    Attributes:
      sentences: language -> different sentences.
      units: language -> unit of each sentence. Sentences of one unit are fitted on or measured together.
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
        """The form of the text, in words."""
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


def read_user_text(
    folder: Path, codes: Sequence[str], count: int, aligned: Aligned, seed: int, columns: Sequence[str] = ()
) -> UserText:
    """Reads text, as ``TextFolderOptions.texts`` describes it; of each language, ``count`` sentences, drawn at random.

    Text with as many lines in every file counts as aligned, unless ``aligned`` is ``no``; see ``finds_lines``.
    """
    if folder.is_file():
        text = _read_columns(folder, codes, count, seed)
    elif not folder.is_dir() or not any(folder.iterdir()):
        forms = "a file per language there, with a sentence in each line, such as de.txt, or parallel text (en-de.tsv)"
        raise FileNotFoundError(f"there is no folder {folder}, or it is empty; put {forms}")
    elif any(folder.glob("*.txt")):
        if tables := sorted([*folder.glob("*.tsv"), *folder.glob("*.*-*.*")]):
            raise ValueError(f"{folder} has both a file per language and parallel text ({tables[0].name}); give one")
        text = _read_files(folder, codes, count, aligned, seed)
    else:
        text = _read_pairs(folder, codes, count, seed, columns)
    if aligned == "yes" and not text.aligned:
        raise ValueError(f"--aligned yes needs a folder with as many lines in every file, unlike {folder}; omit it")
    counts = {code: len(sentences) for code, sentences in text.sentences.items()}
    if len(counts) < 2 or min(counts.values()) < _LEAST:
        advice = f"give two languages or more, each with at least {_LEAST}, by --languages, or use --aligned no"
        raise ValueError(f"{folder} has {counts} different sentences; {advice}")
    return text


def finds_lines(x: Mapping[str, Float[np.ndarray, "sentence dim"]]) -> bool:
    """Whether lines of each language find the line of the same number in the first language far above chance."""
    center = transforms.fit_center(x)
    first, *others = (np.asarray(center(rows, code)) for code, rows in x.items())
    own = np.arange(len(first))
    found = [(np.asarray(nearest(rows, first)[1])[:, 0] == own).mean() for rows in others]
    return bool(min(found) >= min(1.0, _ABOVE_CHANCE / len(first)))


def read_user_vectors(path: Path, folder: Path, text: UserText) -> dict[str, Float[np.ndarray, "sentence dim"]]:
    """Returns the vectors in ``path`` of text that ``read_user_text`` read from ``folder``, by language.

    Raises:
      FileNotFoundError: there are no vectors of a language.
      ValueError: there are more or fewer vectors than lines, their widths differ, a value is not finite, or the text is
        pairs.
    """
    x = {}
    if folder.is_file():
        rows, vectors = _rows(folder), _open(path)
        places = _first_places(path, vectors, folder, rows)
        for code, sentences in text.sentences.items():
            x[code] = np.asarray(vectors)[[places[code, sentence] for sentence in sentences]]
    elif text.pairs or not path.is_dir():
        raise ValueError(f"--vectors {path} must be a folder with de.npy for de.txt in {folder}, which has {text.form}")
    else:
        for code, file in corpora.language_files(folder, ".txt", text.codes).items():
            found = next((place for place in (path / f"{file.stem}.npy", path / file.stem) if place.exists()), None)
            if found is None:
                raise FileNotFoundError(f"there is no {file.stem}.npy and no folder {file.stem} in {path}")
            vectors, lines = open_vectors(found), [line.strip() for line in corpora.lines(file)]
            place = _first_places(found, vectors, file, lines)
            x[code] = np.asarray(vectors)[[place[sentence] for sentence in text.sentences[code]]]
    padded_rows({f"{path}, {code}": rows for code, rows in x.items()})  # their floats, widths and finite values
    return x


def _open(path: Path) -> np.ndarray | Embeddings:
    """The vectors of a file or a folder."""
    if not is_parquet(path):
        return open_vectors(path)
    vectors = [row["vector"] for _, row in file_rows(path, ["vector"])]
    try:
        return np.array(vectors, np.float32)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: the column vector must hold lists of as many floats in every row") from error


def _first_places(path: Path, vectors: np.ndarray | Embeddings, file: Path, lines: Sequence[K]) -> dict[K, int]:
    """Where each line stands first; raises ValueError unless there are as many vectors as lines."""
    if len(vectors) != len(lines):
        raise ValueError(f"{path} has {len(vectors)} vectors, and {file} {len(lines)} lines")
    return {line: number for number, line in reversed(list(enumerate(lines)))}


def _rows(path: Path) -> list[tuple[str, str]]:
    """The language and the sentence of each row of a file with columns."""
    return [(code, text.strip()) for code, text in Records([path], ids="language").by_language()]


def _read_columns(path: Path, codes: Sequence[str], count: int, seed: int) -> UserText:
    rows = group_by(_rows(path), itemgetter(0))
    texts = {code: [sentence for _, sentence in of_code] for code, of_code in rows.items()}
    chosen = dict.fromkeys(languages.own_name(code, texts, str(path)) for code in codes) or sorted(texts)
    return _not_aligned({code: texts[code] for code in chosen}, count, np.random.default_rng(seed))


def _not_aligned(texts: Mapping[str, Sequence[str]], count: int, rng: np.random.Generator) -> UserText:
    """Text without the lines that are blank or repeated, and up to ``count`` lines of each language."""
    sentences = {}
    for code, text in texts.items():
        rows = _different(text)
        _print_left_out(len(text) - len(rows), f"lines in {code} that are blank or repeated")
        sentences[code] = [text[i] for i in np.sort(rng.permutation(rows)[:count])]
    return UserText(sentences, {}, {}, False).not_aligned()


def _read_files(folder: Path, codes: Sequence[str], count: int, aligned: Aligned, seed: int) -> UserText:
    paths = corpora.language_files(folder, ".txt", codes or None)
    texts = {code: [line.strip() for line in corpora.lines(path)] for code, path in paths.items()}
    counts = {code: len(text) for code, text in texts.items()}
    same = len(set(counts.values())) == 1
    rng = np.random.default_rng(seed)
    if not same or aligned == "no":
        return _not_aligned(texts, count, rng)
    rows = {code: _different(text) for code, text in texts.items()}
    shared = reduce(np.intersect1d, rows.values())
    _print_left_out(max(counts.values()) - len(shared), f"lines of {folder} that are blank or repeated in a language")
    shared = np.sort(rng.permutation(shared)[:count])
    sentences = {code: [text[i] for i in shared] for code, text in texts.items()}
    return UserText(sentences, dict.fromkeys(texts, np.arange(len(shared))), {}, True)


def _read_pairs(folder: Path, codes: Sequence[str], count: int, seed: int, columns: Sequence[str]) -> UserText:
    others = [code for code in map(languages.language_code, codes) if code != "en"]
    if codes and not others:
        raise ValueError("--languages names only English; name the languages of the pairs, such as de")
    pairs = {}
    for code, bitext in read_bitext(folder, others, "--texts", columns=columns).items():
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
