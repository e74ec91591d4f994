"""A user's own multilingual text, in files of each language, in pairs or in columns, and vectors of it.

Copies of a sentence, ignoring case, digits and punctuation, are left out: one could be found for a translation.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int

from lsar_jax import languages, transforms
from lsar_jax.arrays import padded_rows
from lsar_jax.checks import check_option
from lsar_jax.console.output import console
from lsar_jax.corpora.builders.parallel import Parallel
from lsar_jax.corpora.parallel_text import distinct, read_bitext, shuffled
from lsar_jax.corpora.records import Records, has_columns
from lsar_jax.corpora.text_rules import text_key
from lsar_jax.embeddings import Embeddings
from lsar_jax.options.inputs import open_vectors
from lsar_jax.options.texts import Texts, stem_of, texts_of
from lsar_jax.retrieval import nearest

__all__ = ["Aligned", "UserText", "finds_lines", "read_user_text", "read_user_vectors"]

K = TypeVar("K")

Aligned = Literal["auto", "yes", "no"]

_LEAST, _TOTAL = 20, 4000  # sentences of a language, and of all by default
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
    items: Sequence[str], codes: Sequence[str], count: int | None, aligned: Aligned, seed: int,
    columns: Sequence[str] = (), column: str | None = None,
) -> UserText:  # fmt: skip
    """Reads text, as ``TextFolderOptions`` describes it; of each language, ``count`` sentences, drawn at random.

    The sentences of tables are in the ``column``, those of pairs in ``columns``. Text with as many lines in every file
    counts as aligned, unless ``aligned`` is ``no``; see ``finds_lines``.
    """
    where, folder, pairs = " ".join(items), Path(items[0]), dict[str, Any]()
    for item in items:
        with suppress(FileNotFoundError):  # there are none
            folder, pairs = Path(item), Parallel(item).files
    if pairs and len(items) > 1:
        raise ValueError(f"{where} has parallel text ({next(iter(pairs))}) beside other text; give one")
    if pairs and any(folder.glob("*.txt")):
        raise ValueError(f"{folder} has both a file per language and parallel text ({next(iter(pairs))}); give one")
    if pairs:
        check_option(column is None, "left out: --columns names those of pairs", text=column)
        text = _read_pairs(folder, codes, count, seed, columns)
    else:
        text = _read_files(items, codes, count, aligned, seed, column)
    if aligned == "yes" and not text.aligned:
        raise ValueError(f"--aligned yes needs as many lines in the file of every language, unlike {where}; omit it")
    counts = {code: len(sentences) for code, sentences in text.sentences.items()}
    if len(counts) < 2 or min(counts.values()) < _LEAST:
        advice = f"give two languages or more, each with at least {_LEAST}, or use --aligned no"
        raise ValueError(f"{where} has {counts} different sentences; {advice}")
    return text


def finds_lines(x: Mapping[str, Float[np.ndarray, "sentence dim"]]) -> bool:
    """Whether lines of each language find the line of the same number in the first language far above chance."""
    center = transforms.fit_center(x)
    first, *others = (np.asarray(center(rows, code)) for code, rows in x.items())
    own = np.arange(len(first))
    found = [(np.asarray(nearest(rows, first)[1])[:, 0] == own).mean() for rows in others]
    return bool(min(found) >= min(1.0, _ABOVE_CHANCE / len(first)))


def read_user_vectors(
    path: Path, items: Sequence[str], text: UserText, column: str | None = None
) -> dict[str, Float[np.ndarray, "sentence dim"]]:
    """Returns the vectors in ``path`` of text that ``read_user_text`` read from ``items``, by language.

    Raises:
      FileNotFoundError: there are no vectors of a language.
      ValueError: there are more or fewer vectors than lines, their widths differ, a value is not finite, or the text is
        pairs.
    """
    x, where = {}, " ".join(items)
    found = Texts({}, ()) if text.pairs else texts_of(items, column, vectors=False)
    if len(items) == 1 and Path(items[0]) in found.tables:
        vectors = open_vectors(path)
        rows = [*Records([*found.tables], column, "language").by_language()]
        places = _first_places(path, vectors, where, [(code, line.strip()) for code, line in rows])
        for code, sentences in text.sentences.items():
            x[code] = np.asarray(vectors)[[places[code, sentence] for sentence in sentences]]
    elif text.pairs or found.tables or not path.is_dir():
        raise ValueError(f"--vectors {path} must be a folder with de.npy for de.txt in {where}, which has {text.form}")
    else:
        lines = _lines(found, text.codes, column)
        for code in text.codes:
            name = stem_of(found.files[code][0])
            named = [path / f"{name}.npy", path / f"{name}.parquet", path / name]
            of = next((place for place in named if place.exists()), None)
            if of is None:
                raise FileNotFoundError(f"there is no {name}.npy, no {name}.parquet and no folder {name} in {path}")
            vectors = open_vectors(of)
            place = _first_places(of, vectors, " ".join(map(str, found.files[code])), lines[code])
            x[code] = np.asarray(vectors)[[place[sentence] for sentence in text.sentences[code]]]
    padded_rows({f"{path}, {code}": rows for code, rows in x.items()})  # their floats, widths and finite values
    return x


def _first_places(path: Path, vectors: np.ndarray | Embeddings, text: str, lines: Sequence[K]) -> dict[K, int]:
    """Where each line stands first; raises ValueError unless there are as many vectors as lines."""
    if len(vectors) != len(lines):
        raise ValueError(f"{path} has {len(vectors)} vectors, and {text} {len(lines)} lines")
    return {line: number for number, line in reversed(list(enumerate(lines)))}


def _lines(found: Texts, codes: Collection[str], column: str | None) -> dict[str, list[str]]:
    """The sentences of each language, without space around them; a table is read once."""
    lines: dict[str, list[str]] = {code: [] for code in codes}
    for path in dict.fromkeys(chain.from_iterable(found.files.values())):
        if path in found.tables:
            rows = Records([path], column, "language").by_language()
        else:
            of_path = [code for code in lines if path in found.files[code]]
            named = column if has_columns(path) else None
            rows = ((code, record.text) for record in (Records([path], named) if of_path else ()) for code in of_path)
        for code, sentence in rows:
            if code in lines:
                lines[code].append(sentence.strip())
    return lines


def _not_aligned(texts: Mapping[str, Sequence[str]], count: int, rng: np.random.Generator) -> UserText:
    """Text without the lines that are blank or repeated, and up to ``count`` lines of each language."""
    sentences = {}
    for code, text in texts.items():
        rows = _different(text)
        _print_left_out(len(text) - len(rows), f"lines in {code} that are blank or repeated")
        sentences[code] = [text[i] for i in np.sort(rng.permutation(rows)[:count])]
    return UserText(sentences, {}, {}, False).not_aligned()


def _read_files(
    items: Sequence[str], codes: Sequence[str], count: int | None, aligned: Aligned, seed: int, column: str | None
) -> UserText:
    found, where = texts_of(items, column, vectors=False, languages=codes), " ".join(items)
    Records([*chain.from_iterable(found.files.values())], column)  # refuses a column where no file has any
    chosen = dict.fromkeys(languages.own_name(code, found.files, where) for code in codes)
    texts = _lines(found, chosen or found.files, column)
    count = count or _drawn(len(texts), max(map(len, texts.values())))
    counts = {code: len(text) for code, text in texts.items()}
    same = len(set(counts.values())) == 1 and not found.tables
    rng = np.random.default_rng(seed)
    if not same or aligned == "no":
        return _not_aligned(texts, count, rng)
    rows = {code: _different(text) for code, text in texts.items()}
    shared = reduce(np.intersect1d, rows.values())
    _print_left_out(max(counts.values()) - len(shared), f"lines of {where} that are blank or repeated in a language")
    shared = np.sort(rng.permutation(shared)[:count])
    sentences = {code: [text[i] for i in shared] for code, text in texts.items()}
    return UserText(sentences, dict.fromkeys(texts, np.arange(len(shared))), {}, True)


def _read_pairs(folder: Path, codes: Sequence[str], count: int | None, seed: int, columns: Sequence[str]) -> UserText:
    others = [code for code in map(languages.language_code, codes) if code != "en"]
    if codes and not others:
        raise ValueError("--languages names only English; name the languages of the pairs, such as de")
    pairs, texts = {}, read_bitext(folder, others, "--texts", columns=columns)
    count = count or _drawn(2 * len(texts), max(map(len, texts.values())))
    for code, bitext in texts.items():
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
    first = {text_key(line) or line: number for number, line in reversed([*enumerate(text)]) if line}
    return np.sort(np.array(list(first.values()), int))


def _drawn(languages: int, most: int) -> int:
    """Returns the default number of sentences of a language, of which one has ``most``."""
    count = min(max(_TOTAL // languages, 100), 1000)
    if most > count:
        console.print(f"reading {count} sentences of each language, drawn at random (--count)")
    return count


def _print_left_out(count: int, what: str) -> None:
    if count:
        console.print(f"left out {count} {what}")
