"""Rows of files with columns: JSON lines, CSV, TSV and parquet."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from operator import itemgetter
from pathlib import Path
from typing import Any

from lsar_jax.corpora.text_files import LONGEST, numbered_lines, tab_fields, unpacked
from lsar_jax.extras import import_extra
from lsar_jax.files import check_file

__all__ = ["BUFFER", "JSON_LINES", "Rows", "file_rows", "has_columns", "is_parquet", "rows_in"]

# Suffixes of JSON lines.
JSON_LINES = (".jsonl", ".jsonlines", ".jl", ".ndjson", ".json")
# Number of bytes of a column or a file to read at a time.
BUFFER = 1 << 20
# Rows of parquet at a time: few, because a long value may be small on the disk however often it occurs.
_ROWS = 64

# The place of each row, such as ``de.jsonl, line 3``, and its values by column.
Rows = Iterator[tuple[str, dict[str, Any]]]


def has_columns(path: Path) -> bool:
    """Whether a file has columns, judging by its suffix; all others are text."""
    return _suffix(path) in _READERS


def is_parquet(path: Path) -> bool:
    """Whether a file is parquet, judging by its suffix."""
    return _READERS.get(_suffix(path)) is _parquet_rows


def file_rows(path: Path, columns: Sequence[str] | None = None) -> Rows:
    """Yields the place, such as ``de.jsonl, line 3``, and the values of each row of a file with columns.

    Args:
      path: a file whose suffix says its format, else JSON lines; perhaps compressed (``.gz``).
      columns: the columns to read, each of which every row must have; None for all.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is not in its format, or a row lacks a column; the error names the file and the line.
    """
    check_file(path)
    with path.open("rb") as file:
        yield from rows_in(file, path, columns, str(path))


def rows_in(file: Any, path: Path, columns: Sequence[str] | None, where: str) -> Rows:
    """Yields the rows of an open file as ``file_rows`` does; ``path`` says its format, and errors call it ``where``."""
    read = _READERS.get(_suffix(path), _json_rows)
    return read(file if read is _parquet_rows else unpacked(file, path), columns, where)


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _parquet_rows(file: Any, columns: Sequence[str] | None, where: str) -> Rows:
    """Yields the rows of an open parquet file, which errors call ``where``, with some columns or all (None)."""
    pyarrow = import_extra("pyarrow", "hub", "reading parquet")
    parquet = import_extra("pyarrow.parquet", "hub", "reading parquet", "pyarrow")
    part, number = where, count(1)
    try:
        table = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False, page_checksum_verification=True)
        names = _checked(table.schema_arrow.names, columns, where)
        for group in range(table.num_row_groups):
            part = f"{where}, row group {group}"
            for batch in table.iter_batches(_ROWS, row_groups=[group], columns=names, use_threads=False):
                for row in batch.to_pylist():
                    yield f"{where}, row {next(number)}", row
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        # Errors of the system, or of the Hub, are not of pyarrow.
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        raise ValueError(f"{part} cannot be read as parquet: {error}") from error


def _json_rows(file: Any, columns: Sequence[str] | None, where: str) -> Rows:
    """Yields the rows of an open file of JSON lines, without its blank lines, as ``_parquet_rows`` does."""
    for number, line in numbered_lines(file, where):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            row = error
        if not isinstance(row, dict):
            why = row if isinstance(row, Exception) else "it is not an object"
            raise ValueError(f"{where} cannot be read as JSON lines, line {number}: {why}; write an object a line")
        names = _checked(list(row), columns, f"{where}, line {number}")
        yield f"{where}, line {number}", {name: row[name] for name in names}


def _csv_rows(file: Any, columns: Sequence[str] | None, where: str) -> Rows:
    """Yields the rows of an open CSV file (RFC 4180), whose first line names the columns, as ``_json_rows`` does."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    lines = (line for _, line in numbered_lines(file, where))
    first = next(lines, "")
    # Where numbers have decimal commas, Excel separates the fields by semicolons; others write tabs.
    separator = max(",;\t", key=re.sub('"[^"]*"', "", first).count)
    return _table(_of_csv(csv.reader(chain([first], lines), delimiter=separator, strict=True), where), columns, where)


def _tsv_rows(file: Any, columns: Sequence[str] | None, where: str) -> Rows:
    """Yields the rows of an open file of fields between tabs, as ``tab_fields`` and ``_csv_rows`` do."""
    lines = tab_fields(iter(numbered_lines(file, where)))
    return _table(((number, [] if fields == [""] else fields) for number, fields in lines), columns, where)


def _of_csv(lines: Any, where: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the fields of each row, and the number of its first line."""
    number = 1
    try:
        for fields in lines:
            yield number, fields
            number = lines.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{where} cannot be read as CSV, line {number}: {error}") from error


def _table(lines: Iterator[tuple[int, list[str]]], columns: Sequence[str] | None, where: str) -> Rows:
    """Yields the rows of fields below a line of names; blank lines have no fields, or the empty field of one column."""
    _, header = next(filter(itemgetter(1), lines), (0, []))
    names = _checked(header, columns, where) if header else []
    places = [header.index(name) for name in names]
    for number, fields in lines:
        if not fields and len(header) > 1:
            continue
        fields = fields or [""]
        if len(fields) != len(header):
            raise ValueError(f"{where}, line {number} has {len(fields)} fields, but the header has {len(header)}")
        yield f"{where}, line {number}", {name: fields[place] for name, place in zip(names, places, strict=True)}


def _checked(there: Sequence[str], columns: Sequence[str] | None, where: str) -> list[str]:
    """Returns the columns to read, each of which must be there once."""
    names = list(there) if columns is None else list(columns)
    for name in names:
        if there.count(name) != 1:
            again = "is twice" if name in there else "is not"
            raise ValueError(f"field {name!r} {again} in {where}; it has {', '.join(there)}")
    return names


_READERS: dict[str, Callable[..., Rows]] = {
    **dict.fromkeys(JSON_LINES, _json_rows),
    **dict.fromkeys((".parquet", ".pq"), _parquet_rows),
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
}
