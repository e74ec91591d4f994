"""Bitext as a TensorFlow dataset: tables of two sentences and perhaps a domain, or pairs of Moses files.

A table such as ``en-de.tsv`` has lines of ``domain<TAB>English<TAB>German`` or of ``English<TAB>German``. Tables whose
names add where they come from, such as ``en-de.tatoeba.tsv`` and ``en-de.news.tsv``, are read one after another; their
name is the domain of lines that give none. Moses files, the format of OPUS, come in pairs, such as ``NAME.en-de.en``
and ``NAME.en-de.de``, where line i of one translates line i of the other.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, NamedTuple

from lsar_jax.corpora.builders.base import DatasetFiles, Row, fields_of
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.languages import code_or_none

__all__ = ["Parallel", "ParallelText"]


class ParallelText(NamedTuple):
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
    r"""The bitext in a folder of tables or Moses files; every line is a row, even if blank.

    Raises:
      FileNotFoundError: there is no folder or file (when the files are first needed).
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

    @cached_property
    def files(self) -> dict[str, list[tuple[list[Path], str]]]:
        """The tables of each pair, each with the name that it adds to its pair, or the two Moses files."""
        if not self.folder.is_dir():
            raise FileNotFoundError(f"there is no folder {self.folder}")
        found: dict[str, list[tuple[list[Path], str]]] = {}
        for path in sorted(self.folder.iterdir()):
            stem, _, last = path.name.rpartition(".")
            before, _, after = stem.rpartition(".")
            for codes, origin in ((after, ""), (before, after)):
                first, _, second = codes.partition("-")
                pair = code_or_none(first), code_or_none(second)
                # Of Moses files, the first brings the second.
                if None in pair or (last != "tsv" and (last != first or origin)):
                    continue
                config = "-".join(map(str, pair))
                known = found.setdefault(config, [])
                if known and not (origin and all(name for _, name in known)):
                    [other, *_], _ = known[0]
                    raise ValueError(f"{other} and {path} are for the same pair, {config!r}; remove one of them")
                paths = [path] if last == "tsv" else [path, path.with_name(f"{stem}.{second}")]
                known.append((paths, origin))
                break
        if not found:
            raise FileNotFoundError(
                f"{self.folder} has no bitext: neither SOURCE-TARGET.tsv nor SOURCE-TARGET.NAME.tsv nor "
                "NAME.SOURCE-TARGET.SOURCE and NAME.SOURCE-TARGET.TARGET"
            )
        return dict(sorted(found.items()))

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the sentence pairs."""
        for paths, origin in self.files[config]:
            if len(paths) == 1:
                columns = next(stream_lines(paths[0])).count("\t") + 1
                if columns not in (2, 3):
                    raise ValueError(f"{paths[0]}, line 1 has {columns} tab-separated fields; expected 2 or 3")
                for _, (*domain, first, second) in fields_of(paths[0], columns):
                    yield {"source": first, "target": second, "domain": domain[0] if domain else origin}
                continue
            sides = [stream_lines(path) for path in paths]
            for number, (first, second) in enumerate(zip_longest(*sides), start=1):
                if first is None or second is None:
                    short, long = paths if first is None else paths[::-1]
                    more = number + sum(1 for _ in sides[paths.index(long)])
                    raise ValueError(
                        f"{short} has {number - 1} lines and {long} has {more}; line i must translate line i"
                    )
                yield {"source": first, "target": second, "domain": ""}

    @staticmethod
    def gather(rows: Iterable[Row]) -> ParallelText:
        """Returns the sentence pairs."""
        pairs = list(rows)
        return ParallelText(*([row[field] for row in pairs] for field in Parallel.fields))
