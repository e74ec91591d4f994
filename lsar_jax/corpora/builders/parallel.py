"""Bitext as a TensorFlow dataset: tables of two sentences and perhaps a domain, or pairs of Moses files.

A table such as ``en-de.tsv`` has lines of ``domain<TAB>English<TAB>German`` or of ``English<TAB>German``; other columns
are left out, and a line of names is one (``lsar_jax.corpora.pair_tables``). Tables whose
names add where they come from, such as ``en-de.tatoeba.tsv`` and ``en-de.news.tsv``, are read one after another; their
name is the domain of lines that give none. Moses files, the format of OPUS, come in pairs, such as ``NAME.en-de.en``
and ``NAME.en-de.de``, where line i of one translates line i of the other.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from lsar_jax.corpora.builders.base import DatasetFiles, Row
from lsar_jax.corpora.by_language import chosen, folder_at
from lsar_jax.corpora.pair_tables import table_pairs
from lsar_jax.corpora.text_files import line_pairs
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

    def __init__(self, folder: str | Path = "", columns: Sequence[str] = ()) -> None:
        """The names of the columns of tables are as for ``table_pairs``."""
        super().__init__(folder)
        self.columns = columns

    @cached_property
    def files(self) -> dict[str, list[tuple[str, list[Path]]]]:
        """The tables of each pair, each with the name that it adds to its pair, or the two Moses files."""
        found: dict[str, list[tuple[str, list[Path]]]] = {}
        for path in sorted(folder_at(self.folder).iterdir()):
            stem, _, last = path.name.rpartition(".")
            before, _, after = stem.rpartition(".")
            for codes, origin in ((after, ""), (before, after)):
                first, _, second = codes.partition("-")
                pair = code_or_none(first), code_or_none(second)
                # The first of two Moses files brings the second.
                if None in pair or (last != "tsv" and (last != first or origin)):
                    continue
                known = found.setdefault("-".join(map(str, pair)), [])
                if known and not (origin and known[0][0]):
                    raise ValueError(f"{known[0][1][0]} and {path} are both for {codes}; keep only one of them")
                known.append((origin, [path] if last == "tsv" else [path, path.with_name(f"{stem}.{second}")]))
                break
        form = "bitext: neither SOURCE-TARGET.tsv nor SOURCE-TARGET.NAME.tsv nor NAME.SOURCE-TARGET.SOURCE and .TARGET"
        return chosen(dict(sorted(found.items())), None, self.folder, form)

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the sentence pairs."""
        for origin, (path, *other) in self.files[config]:
            if other:
                yield from ({"source": x, "target": y, "domain": ""} for x, y in line_pairs(path, *other))
                continue
            # Codes end in a script, as in zh-Hant-en.
            languages = re.split("-(?=[a-z])", config, maxsplit=1)
            for source, target, domain in table_pairs(path, languages, self.columns):
                yield {"source": source, "target": target, "domain": origin if domain is None else domain}

    @staticmethod
    def gather(rows: Iterable[Row]) -> ParallelText:
        """Returns the sentence pairs."""
        pairs = list(rows)
        return ParallelText(*([row[field] for row in pairs] for field in Parallel.fields))
