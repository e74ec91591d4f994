"""Files of pairs of sentences: those to read, and the lines that mining writes."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lsar_jax.corpora.pair_tables import table_pairs
from lsar_jax.corpora.row_files import file_rows, has_columns
from lsar_jax.corpora.text_files import line_pairs
from lsar_jax.languages import code_or_none

__all__ = ["check_form", "flat", "pair_line", "read_pairs"]


# Suffixes that promise something else than what is written.
_OTHER_FORMS = (".csv", ".gz", ".bz2", ".xz", ".zst", ".parquet", ".pq")


def check_form(out: Path) -> None:
    """Raises ValueError if the name of a file promises something else than what is written."""
    if out.suffix.lower() in _OTHER_FORMS:
        raise ValueError(f"{out} would hold text between tabs, or JSON lines; let its name end in .tsv or .jsonl")


def read_pairs(path: Path, *, ids: bool = True, columns: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yields the pairs of a file: as ``pair_line`` writes them, with or without a score; or of two Moses files.

    Of a file with texts and ids, the ids are read, or without ``ids`` the texts. A table of tabs is read as
    ``table_pairs`` does, with ``columns``, and with the languages of a name such as ``de-en.tsv``. Other files with
    columns have ``source_id`` and ``target_id``, or ``source`` and ``target``. A name such as ``NAME.de-en.de`` stands
    for this file and ``NAME.de-en.en``.

    Raises:
      OSError: there is no such file.
      ValueError: a line has other columns, the file is of another form, or Moses files differ in length.
    """
    sides = path.stem.rpartition(".")[2].split("-")
    if len(sides) == 2 and path.suffix[1:] in sides:
        yield from line_pairs(*(path.with_suffix(f".{side}") for side in sides))
    elif has_columns(path) and Path(path.name.lower().removesuffix(".gz")).suffix != ".tsv":
        for place, row in file_rows(path):
            numbers = [row.get(name) for name in ("source_id", "target_id")] if ids else [None]
            texts = [row.get(name) for name in ("source", "target")]
            source, target = texts if None in numbers else numbers
            if not (isinstance(source, str) and isinstance(target, str)):
                raise ValueError(f"{place}: expected source and target, or source_id and target_id, as mine has them")
            yield source, target
    else:
        languages = tuple(map(code_or_none, sides)) if len(sides) == 2 else (None, None)
        yield from (pair[:2] for pair in table_pairs(path, languages, columns))


def pair_line(as_json: bool, score: float, source: str, target: str, **more: Any) -> str:
    """Returns a line of a pair: a JSON object with ``more`` in it, or score, source and target between tabs."""
    if as_json:
        row = {"score": round(score, 6), "source": source, "target": target, **more}
        return json.dumps(row, ensure_ascii=False) + "\n"
    return f"{score:.6f}\t{flat(source)}\t{flat(target)}\n"


def flat(text: str) -> str:
    """Returns a sentence as it is written between tabs."""
    return re.sub(r"[\t\r\n]", " ", text)
