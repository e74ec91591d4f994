"""Sentences with their ids from files of any size, or from standard input: a stream in bounded memory."""

import hashlib
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from lsar_jax.corpora.row_files import has_columns, is_parquet, rows_in
from lsar_jax.corpora.text_files import LONGEST, decoded_lines, unpacked
from lsar_jax.files import check_file, sha256
from lsar_jax.languages import language_code

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
        # A column of text is read of those files that have columns; a column of ids, of all.
        column = self.ids or (None if any(map(has_columns, self.paths)) else self.text)
        for path in self.paths:
            if path != STANDARD_INPUT:
                check_file(path, streams=True)
            if path.suffix.lower() in VECTORS:
                why = "is named as vectors, which are not text; give the text, or rename it"
            elif column is not None and not has_columns(path):
                why = f"is text, which has no column {column!r}; leave out {'--ids' if self.ids else '--text'}"
            elif not is_file(path) and (is_parquet(path) or self.paths.count(path) > 1):
                why = "can be read only once; write it to a file"
            else:
                continue
            raise ValueError(f"{_name(path)} {why}")

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

    def by_language(self) -> Iterator[tuple[str, str]]:
        """Yields the language that the column of ids names, and the sentence; ValueError where it names none."""
        for row, record in enumerate(self, start=1):
            try:
                yield language_code(record.id), record.text
            except ValueError as error:
                raise ValueError(f"{self.paths[record.source]}: row {row}: {error}") from error

    def _read(self, path: Path, name: str, digest: Any) -> Iterator[tuple[str, str | None]]:
        text = "text" if self.text is None else self.text
        columns = [text] if self.ids is None else [text, self.ids]
        if is_parquet(path):
            before = self.position
            with path.open("rb") as file:
                for number, (where, row) in enumerate(rows_in(file, path, columns, name), start=1):
                    if number % _ROWS == 0:
                        self.position = before + min(file.tell(), path.stat().st_size)
                    yield self._of_row(row, text, where)
            self.position = before + path.stat().st_size
            return
        with _opened(path) as raw, io.BufferedReader(_Counted(raw, digest, self), _AT_ONCE) as counted:
            if has_columns(path):
                yield from (self._of_row(row, text, where) for where, row in rows_in(counted, path, columns, name))
            else:
                yield from ((line, None) for line in decoded_lines(unpacked(counted, path), name))

    def _of_row(self, row: dict[str, Any], text: str, where: str) -> tuple[str, str | None]:
        for column, value in row.items():
            if not isinstance(value, str) and (column == text or type(value) is not int):
                why = f"is {value!r:.80}, which is not text{'' if column == text else ' or a whole number'}"
            elif _SURROGATE.search(str(value)):
                why = "holds a lone surrogate, which is not text"
            elif len(str(value)) > LONGEST:
                why = f"is longer than {LONGEST >> 20} MiB; write a sentence a row"
            else:
                continue
            raise ValueError(f"{where}: {column} {why}")
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


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _opened(path: Path) -> IO[bytes]:
    if path != STANDARD_INPUT:
        return path.open("rb")
    if sys.stdin is None:
        raise ValueError("standard input is closed; give a file")
    # Not closed with its reader, because it belongs to the process.
    return open(sys.stdin.fileno(), "rb", closefd=False)
