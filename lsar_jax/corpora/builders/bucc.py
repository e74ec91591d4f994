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

from lsar_jax.corpora.builders.base import DatasetFiles, Row
from lsar_jax.corpora.by_language import add_once, chosen, folder_at
from lsar_jax.corpora.text_files import fields_of, stream_lines
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
    def files(self) -> dict[str, dict[str, Path]]:
        """The gold file of each split of each pair; the files of sentences lie beside it."""
        found: dict[str, dict[str, Path]] = {}
        folder = folder_at(self.folder)
        for path in sorted([*folder.glob("*-en.*.gold"), *folder.glob("*-en/*-en.*.gold")]):
            if match := re.fullmatch(rf"(\w+)-en\.({'|'.join(_NAMES)})\.gold", path.name):
                add_once(found.setdefault(f"{language_code(match[1])}-en", {}), _NAMES[match[2]], path)
        return chosen(dict(sorted(found.items())), None, folder, "{}-en.SPLIT.gold of a split, sample or training")

    def splits(self, config: str) -> tuple[str, ...]:
        """The available splits among ``sample`` and ``training``."""
        return tuple(self.files[config])

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the lines of the non-English, the English and the gold file."""
        splits = self.files[config]
        if split not in splits:
            raise FileNotFoundError(f"{self.folder} has no {config}.{split}.gold; it has {', '.join(splits)}")
        gold = splits[split]
        paths = [gold.with_suffix(f".{end}") for end in (gold.name.partition("-")[0], "en")]
        numbers: list[dict[str, int]] = [{}, {}]
        for part, path, ids in zip(("source", "target"), paths, numbers, strict=True):
            for number, line in enumerate(stream_lines(path), start=1):
                # A sentence may contain a tab.
                id, tab, text = line.partition("\t")
                if not id or not tab or id in ids:
                    again = f": the id {id!r} is already on line {ids[id]}" if id in ids else ""
                    raise ValueError(f"{path}, line {number} is not a new id, a tab and a sentence{again}")
                ids[id] = number
                yield {"part": part, "id": id, "text": text}
        pairs: set[tuple[str, ...]] = set()
        for where, row in fields_of(gold, ("id", "text")):
            pair = tuple(row.values())
            if pair in pairs or any(id not in ids for id, ids in zip(pair, numbers, strict=True)):
                names = " and ".join(path.name for path in paths)
                raise ValueError(f"{where} is not a new pair of ids of {names}: {', '.join(pair)}")
            pairs.add(pair)
            yield {"part": "gold"} | row

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
