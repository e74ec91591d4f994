"""Sentences with their ids from files of any size, or from standard input: a stream in bounded memory."""

import hashlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from lsar_jax.corpora.row_files import JSON_LINES, Rows, csv_rows, json_rows, parquet_rows, tsv_rows
from lsar_jax.corpora.text_files import LONGEST, decoded_lines, unpacked
from lsar_jax.files import check_file, sha256
from lsar_jax.processes import share

__all__ = [
    "STANDARD_INPUT",
    "VECTORS",
    "Record",
    "Records",
    "Source",
    "has_columns",
    "input_path",
    "is_file",
    "is_parquet",
]

# The path that stands for standard input.
STANDARD_INPUT = Path("-")

# Suffixes of files of vectors, which are not text even where their bytes are UTF-8, as zeros are.
VECTORS = (".npy", ".npz", ".emb", ".pt", ".safetensors")

_SURROGATE = re.compile("[\ud800-\udfff]")
_AT_ONCE = 1 << 16
_ROWS = 4096

# How the rows of files with columns are read; all others are text.
_ROWS_OF: dict[str, Callable[..., Rows]] = {
    **dict.fromkeys(JSON_LINES, json_rows),
    **dict.fromkeys((".parquet", ".pq"), parquet_rows),
    ".csv": csv_rows,
    ".tsv": tsv_rows,
}


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
      paths: text files with one sentence per line, or files with columns: JSON lines (``.jsonl``, ``.jsonlines``,
        ``.jl``, ``.ndjson`` or ``.json``), ``.csv``, ``.tsv`` or parquet (``.parquet`` or ``.pq``). All but parquet may
        be compressed (``.gz``). Pipes are read once, and ``-`` stands for standard input, which is text.
      text: the column that holds the sentence; by default, ``text``.
      ids: the column that holds its id; None for none.
      sources: the files that were read to their end so far.
      position: number of bytes read so far.
    """

    paths: Sequence[Path]
    text: str | None = None
    ids: str | None = None
    sources: list[Source] = field(default_factory=list)
    position: int = 0

    def __post_init__(self) -> None:
        for path in self.paths:
            if path == STANDARD_INPUT:
                continue
            if not path.exists():
                raise FileNotFoundError(f"there is no file {path}")
            check_file(path, streams=True)
            if path.suffix.lower() in VECTORS:
                raise ValueError(f"{path} is named as vectors, which are not text; give the text, or rename it")
            if is_parquet(path) and path.suffix.lower() == ".gz":
                raise ValueError(f"{path} is parquet, which is compressed in itself; decompress it with gunzip")
            if self.ids is not None and not has_columns(path):
                raise ValueError(f"{path} is text, which has no column of ids ({self.ids!r}); leave out the ids")
        if self.text is not None and not any(map(has_columns, self.paths)):
            raise ValueError(f"{_name(self.paths[0])} is text, which has no column {self.text!r}; leave out --text")
        streams = [path for path in self.paths if not is_file(path)]
        if streams and share()[1] > 1:
            raise ValueError(
                f"{_name(streams[0])} cannot be shared by processes; write the text to a file that all of them see"
            )
        if again := [path for path in streams if streams.count(path) > 1 or is_parquet(path)]:
            raise ValueError(f"{_name(again[0])} can be read only once; write it to a file")

    @property
    def total(self) -> int | None:
        """The number of bytes of all files; None if one of them is standard input or a pipe."""
        if not all(map(is_file, self.paths)):
            return None
        return sum(path.stat().st_size for path in self.paths)

    def __iter__(self) -> Iterator[Record]:
        for number, path in enumerate(self.paths):
            count, digest, name = 0, hashlib.sha256(), _name(path)
            for text, id in self._read(path, name, digest):
                count += 1
                yield Record(text, id, number)
            if not count:
                raise ValueError(f"{name} is empty")
            checksum = sha256([path]) if is_parquet(path) else f"sha256:{digest.hexdigest()}"
            self.sources.append(Source(str(path), checksum, count))

    def _read(self, path: Path, name: str, digest: Any) -> Iterator[tuple[str, str | None]]:
        text = "text" if self.text is None else self.text
        columns = [text] if self.ids is None else [text, self.ids]
        if is_parquet(path):
            before = self.position
            with path.open("rb") as file:
                for number, (place, row) in enumerate(parquet_rows(file, columns, name), start=1):
                    if number % _ROWS == 0:
                        self.position = before + min(file.tell(), path.stat().st_size)
                    yield self._of_row(row, text, f"{name}, {place}")
            self.position = before + path.stat().st_size
            return
        with _opened(path) as raw, io.BufferedReader(_Counted(raw, digest, self), _AT_ONCE) as counted:
            lines = unpacked(counted, path)
            if rows_of := _ROWS_OF.get(_suffix(path)):
                yield from (self._of_row(row, text, f"{name}, {place}") for place, row in rows_of(lines, columns, name))
            else:
                yield from ((line, None) for line in decoded_lines(lines, name))

    def _of_row(self, row: dict[str, Any], text: str, where: str) -> tuple[str, str | None]:
        for column, value in row.items():
            if not isinstance(value, str) and (column == text or type(value) is not int):
                number = "" if column == text else " or a whole number"
                raise ValueError(f"{where}: {column} is {value!r:.80}, which is not text{number}")
            if _SURROGATE.search(str(value)):
                raise ValueError(f"{where}: {column} holds a lone surrogate, which is not text")
            if len(str(value)) > LONGEST:
                raise ValueError(f"{where}: {column} is longer than {LONGEST >> 20} MiB; write a sentence a row")
        return row[text], None if self.ids is None else str(row[self.ids])


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


def input_path(name: str | Path) -> Path:
    """The path of an input: ``-`` is standard input, and ``./-`` a file of this name."""
    path = Path(name)
    return path.absolute() if path == STANDARD_INPUT and str(name) != "-" else path


def is_file(path: Path) -> bool:
    """Whether an input is a file, and not a pipe, a device or standard input."""
    return path != STANDARD_INPUT and path.is_file()


def has_columns(path: Path) -> bool:
    """Whether an input is a file with columns, judging by its suffix."""
    return _suffix(path) in _ROWS_OF


def is_parquet(path: Path) -> bool:
    """Whether an input is parquet, judging by its suffix."""
    return _ROWS_OF.get(_suffix(path)) is parquet_rows


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _opened(path: Path) -> IO[bytes]:
    if path != STANDARD_INPUT:
        return path.open("rb")
    if sys.stdin is None:
        raise ValueError("standard input is closed; give a file")
    # Not closed with its reader, because it belongs to the process.
    return open(sys.stdin.fileno(), "rb", closefd=False)
