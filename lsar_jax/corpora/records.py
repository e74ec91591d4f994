"""Sentences with their ids from files of any size, or from standard input: a stream in bounded memory."""

import gzip
import hashlib
import io
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from lsar_jax.corpora.row_files import json_rows, parquet_rows
from lsar_jax.corpora.text_files import decoded_lines
from lsar_jax.files import sha256

__all__ = ["STANDARD_INPUT", "Record", "Records", "Source"]

# The path that stands for standard input.
STANDARD_INPUT = Path("-")

_SURROGATE = re.compile("[\ud800-\udfff]")
_AT_ONCE = 1 << 16
_ROWS = 4096


class Record(NamedTuple):
    """A sentence (an empty line is an empty one), its id if a column of ids is read, and the number of its file."""

    text: str
    id: str | None
    source: int


class Source(NamedTuple):
    """A file that was read to its end: its path or ``-``, the digest of its bytes, and the number of its sentences."""

    name: str
    sha256: str
    records: int


@dataclass
class Records:
    """The sentences of files, one after another; iterate over it once.

    Attributes:
      paths: text files with one sentence per line, JSON lines (``.jsonl``) or parquet (``.parquet``); the first two
        may be compressed (``.gz``); ``-`` stands for standard input, which is text.
      text: the column of JSON lines and parquet that holds the sentence.
      ids: the column that holds its id; None for none.
      sources: the files that were read to their end so far.
      position: number of bytes read so far.
    """

    paths: Sequence[Path]
    text: str = "text"
    ids: str | None = None
    sources: list[Source] = field(default_factory=list)
    position: int = 0

    def __post_init__(self) -> None:
        for path in self.paths:
            if path != STANDARD_INPUT and not path.is_file():
                raise FileNotFoundError(f"there is no file {path}")
            if self.ids is not None and not _has_columns(path):
                raise ValueError(f"{path} is text, which has no column of ids ({self.ids!r}); leave out the ids")

    @property
    def total(self) -> int | None:
        """The number of bytes of all files; None if one of them is standard input."""
        if STANDARD_INPUT in self.paths:
            return None
        return sum(path.stat().st_size for path in self.paths)

    def __iter__(self) -> Iterator[Record]:
        for number, path in enumerate(self.paths):
            count, digest = 0, hashlib.sha256()
            name = "standard input" if path == STANDARD_INPUT else str(path)
            for text, id in self._read(path, name, digest):
                count += 1
                yield Record(text, id, number)
            if not count:
                raise ValueError(f"{name} is empty")
            checksum = sha256([path]) if path.suffix.lower() == ".parquet" else f"sha256:{digest.hexdigest()}"
            self.sources.append(Source(str(path), checksum, count))

    def _read(self, path: Path, name: str, digest: Any) -> Iterator[tuple[str, str | None]]:
        columns = [self.text] if self.ids is None else [self.text, self.ids]
        if path.suffix.lower() == ".parquet":
            before = self.position
            with path.open("rb") as file:
                for number, row in enumerate(parquet_rows(file, columns, name, at_once=_ROWS), start=1):
                    if number % _ROWS == 0:
                        self.position = before + min(file.tell(), path.stat().st_size)
                    yield self._of_row(row, f"{name}, row {number}")
            self.position = before + path.stat().st_size
            return
        with _opened(path) as raw, io.BufferedReader(_Counted(raw, digest, self), _AT_ONCE) as counted:
            lines: Any = gzip.GzipFile(fileobj=counted) if path.suffix.lower() == ".gz" else counted
            try:
                if _has_columns(path):
                    for number, row in enumerate(json_rows(lines, columns, name), start=1):
                        yield self._of_row(row, f"{name}, row {number}")
                else:
                    yield from ((line, None) for line in decoded_lines(lines, name))
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise ValueError(f"{name} is damaged: {error}") from error

    def _of_row(self, row: dict[str, Any], where: str) -> tuple[str, str | None]:
        for column, value in row.items():
            if not isinstance(value, str) and (column == self.text or type(value) is not int):
                number = "" if column == self.text else " or a whole number"
                raise ValueError(f"{where}: {column} is {value!r:.80}, which is not text{number}")
            if _SURROGATE.search(str(value)):
                raise ValueError(f"{where}: {column} holds a lone surrogate, which is not text")
        return row[self.text], None if self.ids is None else str(row[self.ids])


class _Counted(io.RawIOBase):
    """Reads a file, and adds what it read to a digest and to the position of the records."""

    def __init__(self, file: IO[bytes], digest: Any, records: Records) -> None:
        self._file, self._digest, self._records = file, digest, records

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read(len(buffer))
        buffer[: len(part)] = part
        self._digest.update(part)
        self._records.position += len(part)
        return len(part)


def _opened(path: Path) -> IO[bytes]:
    # Not closed with its reader, because it belongs to the process.
    return open(sys.stdin.fileno(), "rb", closefd=False) if path == STANDARD_INPUT else path.open("rb")


def _has_columns(path: Path) -> bool:
    name = path.name.lower()
    return name.endswith((".parquet", ".jsonl", ".jsonl.gz"))
