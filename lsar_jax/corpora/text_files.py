"""Text files with one sentence per line, and folders with one file per language."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from lsar_jax.corpora.by_language import language_files
from lsar_jax.corpora.sentence_filters import COUNT, not_blank, take
from lsar_jax.files import check_file

__all__ = [
    "LONGEST",
    "decoded_lines",
    "fields_of",
    "line_pairs",
    "lines",
    "numbered_lines",
    "stream_lines",
    "tab_fields",
    "text_folder",
    "unpacked",
]

# A field in quotation marks, in which others are doubled, and the lines that say whether a spreadsheet put them.
_QUOTED, _AHEAD = re.compile(r'(?<![^\t\n])"((?:[^"\t\n]|"")*)"(?=[\t\r\n]|\Z)'), 200

# Bytes of a line at most. What has no line feeds, such as a gigabyte of NULs in a small .gz, would fill the memory.
LONGEST = 1 << 22

# What files that are not text have at a place near their beginning, and what they are.
_TABLE = "write the table as .parquet, .csv or .jsonl"
_FORMS = (
    (0, b"\x1f\x8b", "compressed; let its name end in .gz"),
    (4, b"1AY&SY", "compressed by bzip2; decompress it"),
    (0, b"\xfd7zXZ", "compressed by xz; decompress it"),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd; decompress it"),
    (0, b"PK\x03\x04", "a ZIP archive, as are those of Excel, numpy and torch; unpack it, or write the text itself"),
    (257, (b"ustar\0", b"ustar  \0"), "a tar archive; unpack it"),
    (0, b"PAR1\x15", "parquet; let its name end in .parquet"),
    (0, b"ARROW1\0\0", f"of Arrow; {_TABLE}"),
    (0, b"\xd0\xcf\x11\xe0", f"of Excel; {_TABLE}"),
    (0, b"\x93NUMPY", "vectors, as numpy.save writes them"),
    (0, (b"\xff\xfe", b"\xfe\xff"), "UTF-16; write it as UTF-8"),
)


def lines(path: str | Path) -> list[str]:
    r"""Returns the lines of a UTF-8 text file, perhaps compressed (``.gz``), one sentence each.

    Lines end with ``\n`` or ``\r\n``, or with ``\r`` if the file has no ``\n`` at all, so that other
    line separators inside a sentence (U+2028, a form feed) do not shift the alignment of two
    files. A byte-order mark is dropped; empty lines are kept, because line i may translate line i
    of another file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8 or longer than 4 MiB, or the file is damaged or empty.
    """
    return list(stream_lines(path))


def stream_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines that ``lines`` returns, with only one line at a time in memory.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: as for ``lines``, raised when the line is reached.
    """
    path = Path(path)
    check_file(path, streams=True)
    with path.open("rb") as file:
        yield from decoded_lines(unpacked(file, path), str(path))


def tab_fields(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yields the fields between the tabs of numbered lines, without the quotation marks that a spreadsheet puts.

    They are a spreadsheet's if all, from the first on for some lines, are around fields that need them: those with
    quotation marks, which are doubled, or all with a comma; or around all fields with letters. Otherwise they are text.
    """
    quoted: bool | None = None
    while numbered := next(lines, None):
        number, line = numbered
        if quoted is None and '"' in line:
            ahead = list(islice(lines, _AHEAD))
            text = "\n".join(line for _, line in [(0, line), *ahead])
            fields, rest = "\n".join(_QUOTED.findall(text)), _QUOTED.sub("", text)
            needed = '""' in fields or ("," in fields and "," not in rest) or not re.search(r"[^\W\d_]", rest)
            quoted = '"' not in rest and needed
            lines = chain(ahead, lines)
        line = _QUOTED.sub(lambda field: field[1].replace('""', '"'), line) if quoted else line
        yield number, line.rstrip("\r\n").split("\t")


def fields_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the place and the tab-separated fields of each line of a file without a line of column names.

    Raises:
      ValueError: a line does not have as many fields as there are ``columns``.
    """
    for number, line in enumerate(stream_lines(path), start=1):
        fields, where = line.split("\t"), f"{path}, line {number}"
        if len(fields) != len(columns):
            raise ValueError(f"{where} has {len(fields)} tab-separated fields; expected {len(columns)}")
        yield where, dict(zip(columns, fields, strict=True))


def line_pairs(first: Path, second: Path) -> Iterator[tuple[str, str]]:
    """Yields line i of two files; raises ValueError where one ends before the other."""
    for number, (left, right) in enumerate(zip_longest(stream_lines(first), stream_lines(second)), start=1):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            raise ValueError(f"{short} has {number - 1} lines and {long} has more; line i belongs to line i")
        yield left, right


def unpacked(file: Any, path: Path) -> Any:
    """Returns an open file, or what is compressed in it if the path ends in ``.gz``."""
    return gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file


def decoded_lines(file: Any, name: str) -> Iterator[str]:
    """Yields the lines of a file that is open for bytes, which errors call ``name``, as ``stream_lines`` does."""
    line = None
    for _, line in numbered_lines(file, name):
        yield line.removesuffix("\n").removesuffix("\r")
    if line is None:
        raise ValueError(f"{name} is empty")


def numbered_lines(file: Any, name: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file that is open for bytes, with their ends, and their numbers from 1.

    A byte-order mark is dropped. Lines end as in ``lines``.

    Raises:
      ValueError: a line is not UTF-8 or longer than ``LONGEST`` bytes, the file is of another form, or what is
        compressed is damaged; errors call the file ``name``.
    """
    number = 0
    try:
        read = _lines(partial(file.readline, LONGEST + 1))
        head = list(islice(read, 2))
        forms = [form for place, magic, form in _FORMS if head and head[0].startswith(magic, place)]
        # In UTF-16, there is one before or after the end of the first line, if not between its letters.
        if b"\0" in b"".join(head) and max(map(len, head)) <= LONGEST:
            forms.append("UTF-16 without its mark, or has NUL bytes; write it as UTF-8")
        if forms:
            raise ValueError(f"{name}, line 1 is not UTF-8: the file is {forms[0]}")
        for number, line in enumerate(chain(head, read), start=1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if len(line) > LONGEST:
                ends = " that ends with \\n" if b"\r" in line else ""
                why = f"is longer than {LONGEST >> 20} MiB; write a sentence a line{ends}"
                raise ValueError(f"{name}, line {number} {why}")
            yield number, line.decode("utf-8")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        why = f" is damaged after line {number}: {error}"
        if isinstance(error, UnicodeDecodeError):
            why = f", line {number} is not UTF-8: {error.reason}"
        raise ValueError(f"{name}{why}") from error


def _lines(read: Callable[[], bytes]) -> Iterator[bytes]:
    first = read()
    # A file without \n is old Mac text.
    yield from (
        re.findall(rb"[^\r]*\r|[^\r]+", first) if not first.endswith(b"\n") and len(first) <= LONGEST else [first]
    )
    yield from iter(read, b"")


def text_folder(
    folder: str | Path, languages: Iterable[str] | None = None, count: int | None = COUNT
) -> dict[str, list[str]]:
    """Returns the first sentences of each file ``{language}.txt`` in a folder, one sentence per line.

    Blank lines are left out. Each file is read only as far as needed.

    Args:
      folder: folder of UTF-8 text files, each named with any code of its language.
      languages: codes of the languages to read; by default, all available, in alphabetical order of their BCP 47 codes.
      count: maximum number of sentences per language; None for all.

    Raises:
      FileNotFoundError: the folder does not exist, or a language has no file.
      ValueError: two files are for the same language, a file is not named after a language, is not UTF-8 or
        has no sentences, or ``count`` is below 1.
    """
    paths = language_files(folder, ".txt", languages)
    return {code: take(stream_lines(path), not_blank, count, path) for code, path in paths.items()}
