"""BUCC's mining task as a TensorFlow dataset: two lists of sentences and their gold translation pairs.

Zweigenbaum et al., "Overview of the third BUCC shared task", BUCC 2018. Each pair and split has the
files ``{xx}-en.{split}.{xx}`` and ``.en`` with lines of ``id<TAB>sentence``, and ``.gold`` with lines
of ``id<TAB>id``, where the English id comes second. A row is a line of one of the three files.

Data: comparable.limsi.fr/bucc2018, or XTREME's download; the files may be in one folder, or in one folder
``{xx}-en`` per pair.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from lsar_jax.corpora.builders.base import DatasetFiles, Row, fields_of
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.languages import language_code

__all__ = ["SPLITS", "Bucc", "Comparable"]

# XTREME tunes the threshold on the first and tests on the second.
SPLITS = ("sample", "training")
# Includes XTREME's names, dev and test.
_NAMES = {"sample": "sample", "dev": "sample", "training": "training", "test": "training"}


class Comparable(NamedTuple):
    """The sentences and gold pairs of one language pair and split.

    Attributes:
      other: non-English sentences by id.
      english: English sentences by id.
      gold: pairs of ids of sentences that are translations, with the English id second.
    """

    other: dict[str, str]
    english: dict[str, str]
    gold: list[tuple[str, str]]


class Bucc(DatasetFiles):
    r"""BUCC's files in a folder or in its subfolders ``{xx}-en``; a split is there if its gold file is.

    Raises:
      FileNotFoundError: the folder does not exist or has no such files (when they are first needed).
      ValueError: a line is malformed, an id occurs twice, or a gold pair has an unknown id.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import builders
      >>> files = {"de": "d1\tHallo\nd2\tMontag\n", "en": "e1\tHello\n", "gold": "d1\te1\n"}
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     for end, text in files.items():
      ...         _ = Path(folder, f"de-en.sample.{end}").write_text(text, encoding="utf-8")
      ...     found = builders.Bucc.load(folder, "de-en", "sample")
      >>> [(found.other[other], found.english[english]) for other, english in found.gold]
      [('Hallo', 'Hello')]
    """

    name: ClassVar = "bucc"
    # The parts are source, target (English) and gold; the text of a gold row is the English id.
    fields: ClassVar = {"part": "text", "id": "text", "text": "text"}

    @cached_property
    def files(self) -> dict[str, dict[str, list[Path]]]:
        """The non-English, English and gold files of each split of each pair."""
        if not self.folder.is_dir():
            raise FileNotFoundError(f"there is no folder {self.folder}")
        found: dict[str, dict[str, list[Path]]] = {}
        for path in sorted([*self.folder.glob("*-en.*.gold"), *self.folder.glob("*-en/*-en.*.gold")]):
            if match := re.fullmatch(rf"(\w+)-en\.({'|'.join(_NAMES)})\.gold", path.name):
                files = [path.with_suffix(f".{end}") for end in (match[1], "en", "gold")]
                pair = found.setdefault(f"{language_code(match[1])}-en", {})
                if (known := pair.setdefault(_NAMES[match[2]], files)) != files:
                    raise ValueError(f"{known[2]} and {path} are for the same language and split; remove one of them")
        if not found:
            raise FileNotFoundError(f"{self.folder} has no files XX-en.SPLIT.gold, where SPLIT is sample or training")
        return dict(sorted(found.items()))

    def splits(self, config: str) -> tuple[str, ...]:
        """The available splits among ``sample`` and ``training``."""
        return tuple(self.files[config])

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the lines of the non-English, the English and the gold file."""
        if split not in self.files[config]:
            raise FileNotFoundError(f"{self.folder} has no {config}.{split}.gold")
        *paths, gold = self.files[config][split]
        numbers: list[dict[str, int]] = [{}, {}]
        for part, path, ids in zip(("source", "target"), paths, numbers, strict=True):
            for number, line in enumerate(stream_lines(path), start=1):
                # A sentence may contain a tab.
                id, tab, text = line.partition("\t")
                if not id or not tab:
                    raise ValueError(f"{path}, line {number} is not an id, a tab and a sentence")
                if ids.setdefault(id, number) != number:
                    raise ValueError(f"{path}, line {number}: the id {id!r} is already on line {ids[id]}")
                yield {"part": part, "id": id, "text": text}
        pairs: dict[tuple[str, ...], int] = {}
        for number, pair in fields_of(gold, 2):
            for id, ids, file in zip(pair, numbers, paths, strict=True):
                if id not in ids:
                    raise ValueError(f"{gold}, line {number}: the id {id!r} is not in {file}")
            if (first := pairs.setdefault(tuple(pair), number)) != number:
                raise ValueError(f"{gold}, line {number}: the pair is already on line {first}")
            yield {"part": "gold", "id": pair[0], "text": pair[1]}

    @staticmethod
    def gather(rows: Iterable[Row]) -> Comparable:
        """Returns the sentences and the gold pairs."""
        result = Comparable({}, {}, [])
        for row in rows:
            if row["part"] == "gold":
                result.gold.append((row["id"], row["text"]))
            else:
                (result.other if row["part"] == "source" else result.english)[row["id"]] = row["text"]
        return result
