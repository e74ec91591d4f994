"""Bitext as a TensorFlow dataset: tables of two sentences and perhaps a domain, or pairs of Moses files.

A table such as ``en-de.tsv`` has lines of ``domain<TAB>English<TAB>German`` or of ``English<TAB>German``. Tables whose
names add where they come from, such as ``en-de.tatoeba.tsv`` and ``en-de.news.tsv``, are read one after another; their
name is the domain of lines that give none. Moses files, the format of OPUS, come in pairs, such as ``NAME.en-de.en``
and ``NAME.en-de.de``, where line i of one translates line i of the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from lsar_jax.corpora.builders.base import DatasetFiles, Row, fields_of
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.languages import language_code

__all__ = ["Parallel", "ParallelText"]


@dataclass(frozen=True)
class ParallelText:
    """Bitext of two languages; item i of every list belongs to pair i.

    Attributes:
      first: sentences of the language that is named first.
      second: their translations.
      domain: domain of each pair; empty if neither the files nor their names give it.
    """

    first: list[str]
    second: list[str]
    domain: list[str]


class Parallel(DatasetFiles):
    r"""The bitext in a folder; every line is a row, even if blank.

    Args:
      folder: folder of tables or Moses files.
      pairs: pairs of language codes to read, such as ``[("en", "de")]``; by default, all available.

    Raises:
      FileNotFoundError: the folder does not exist, or a pair has no file (when the files are first needed).
      ValueError: two files are for the same pair, a line has another number of fields, or Moses files differ in length.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import builders
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = Path(folder, "en-de.tsv").write_text("one\teins\ntwo\tzwei\n", encoding="utf-8")
      ...     builders.Parallel.load(folder, "en-de", "train")
      ParallelText(first=['one', 'two'], second=['eins', 'zwei'], domain=['', ''])
    """

    name: ClassVar = "parallel"
    fields: ClassVar = {"source": "text", "target": "text", "domain": "text"}

    def __init__(self, folder: str | Path, pairs: Sequence[tuple[str, str]] | None = None) -> None:
        super().__init__(folder)
        self.pairs = pairs

    @cached_property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The tables or the two Moses files of each pair."""
        if not self.folder.is_dir():
            raise FileNotFoundError(f"there is no folder {self.folder}")
        found: dict[str, tuple[Path, ...]] = {}
        for path in sorted(self.folder.iterdir()):
            if entry := _pair_of(path):
                pair, paths, origin = entry
                if pair in found and not (origin and all(map(self._origin, found[pair]))):
                    raise ValueError(f"{found[pair][0]} and {path} are for the same pair, {pair!r}; remove one of them")
                found[pair] = found.get(pair, ()) + paths
        names = sorted(found) if self.pairs is None else [_name(*pair) for pair in self.pairs]
        missing = [pair for pair in names if pair not in found]
        if missing or not names:
            raise FileNotFoundError(
                f"{self.folder} has no bitext {', '.join(missing)}: neither SOURCE-TARGET.tsv nor "
                "SOURCE-TARGET.NAME.tsv nor NAME.SOURCE-TARGET.SOURCE and NAME.SOURCE-TARGET.TARGET; "
                f"it has {', '.join(sorted(found)) or 'none'}"
            )
        return {pair: found[pair] for pair in names}

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the sentence pairs."""
        paths = self.files[config]
        if paths[0].suffix == ".tsv":
            for path in paths:
                columns = next(stream_lines(path)).count("\t") + 1
                if columns not in (2, 3):
                    raise ValueError(f"{path}, line 1 has {columns} tab-separated fields; expected 2 or 3")
                for _, (*domain, first, second) in fields_of(path, columns):
                    yield {"source": first, "target": second, "domain": domain[0] if domain else self._origin(path)}
            return
        sides = [stream_lines(path) for path in paths]
        for number, (first, second) in enumerate(zip_longest(*sides), start=1):
            if first is None or second is None:
                short, long = paths if first is None else paths[::-1]
                more = number + sum(1 for _ in sides[paths.index(long)])
                raise ValueError(f"{short} has {number - 1} lines and {long} has {more}; line i must translate line i")
            yield {"source": first, "target": second, "domain": ""}

    @staticmethod
    def _origin(path: Path) -> str:
        """Returns the name that a table such as ``en-de.news.tsv`` adds to its pair; empty for other files."""
        entry = _pair_of(path)
        return entry[2] if entry else ""

    @staticmethod
    def gather(rows: Iterable[Row]) -> ParallelText:
        """Returns the sentence pairs."""
        pairs = list(rows)
        return ParallelText(*([row[field] for row in pairs] for field in Parallel.fields))


def _pair_of(path: Path) -> tuple[str, tuple[Path, ...], str] | None:
    """Returns the language pair of a file, the files that belong together, and the name that a table adds to its pair.

    Returns None if the file is not bitext, or is the second of two Moses files.
    """
    stem, dot, last = path.name.rpartition(".")
    before, _, after = stem.rpartition(".")
    for codes, origin in ((after, ""), (before, after)):
        first, dash, second = codes.partition("-")
        if not dash or (last != "tsv" and (last != first or origin)):
            continue
        try:
            pair = _name(first, second)
        except ValueError:
            continue
        return pair, (path,) if last == "tsv" else (path, path.with_name(f"{stem}{dot}{second}")), origin
    return None


def _name(first: str, second: str) -> str:
    return f"{language_code(first)}-{language_code(second)}"
