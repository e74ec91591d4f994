"""Rows of parquet and JSON lines files that are already open."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from lsar_jax.extras import import_extra

__all__ = ["BUFFER", "json_rows", "parquet_rows"]

# Number of bytes of a column or a file to read at a time.
BUFFER = 1 << 20


def parquet_rows(file: Any, columns: Sequence[str] | None, where: str, at_once: int = 64) -> Iterator[dict[str, Any]]:
    """Yields the rows of an open parquet file, which errors call ``where``, with some columns or all (None)."""
    pyarrow = import_extra("pyarrow", "hub", "reading parquet")
    parquet = import_extra("pyarrow.parquet", "hub", "reading parquet", "pyarrow")
    try:
        table = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
        _check_columns(table.schema_arrow.names, columns, where)
        for batch in table.iter_batches(batch_size=at_once, columns=columns and list(columns), use_threads=False):
            yield from batch.to_pylist()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise ValueError(f"{where} cannot be read as parquet: {error}") from error


def json_rows(file: Any, columns: Sequence[str] | None, where: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of an open JSON lines file (``gzip.GzipFile`` if it is compressed), as ``parquet_rows`` does."""
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("the line is not a JSON object")
            _check_columns(list(row), columns, f"{where}, line {number}")
            yield row if columns is None else {column: row[column] for column in columns}
    except (ValueError, EOFError, RecursionError, gzip.BadGzipFile, zlib.error) as error:
        if where in str(error):
            raise
        raise ValueError(f"{where} cannot be read as JSON lines, line {number}: {error}") from error


def _check_columns(there: Sequence[str], columns: Sequence[str] | None, where: str) -> None:
    for column in columns or ():
        if column not in there:
            raise ValueError(f"field {column!r} is not in {where}; it has {', '.join(there)}")
