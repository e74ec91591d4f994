"""Text files with one sentence per line, and folders with one file per language."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from lsar_jax.corpora.sentence_filters import COUNT, not_blank, take
from lsar_jax.files import check_file
from lsar_jax.languages import language_code

__all__ = [
    "LONGEST",
    "decoded_lines",
    "language_files",
    "lines",
    "numbered_lines",
    "stream_lines",
    "text_folder",
    "unpacked",
]

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
    (257, b"ustar\0", "a tar archive; unpack it"),
    (257, b"ustar  \0", "a tar archive; unpack it"),
    (0, b"PAR1\x15", "parquet; let its name end in .parquet"),
    (0, b"ARROW1\0\0", f"of Arrow; {_TABLE}"),
    (0, b"\xd0\xcf\x11\xe0", f"of Excel; {_TABLE}"),
    (0, b"\x93NUMPY", "vectors, as numpy.save writes them"),
    (0, b"\xff\xfe", "UTF-16; write it as UTF-8"),
    (0, b"\xfe\xff", "UTF-16; write it as UTF-8"),
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
    if not path.exists():
        raise FileNotFoundError(f"there is no text file at {path}")
    check_file(path, streams=True)
    with path.open("rb") as file:
        yield from decoded_lines(unpacked(file, path), str(path))


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
        for number, line in enumerate(_lines(partial(file.readline, LONGEST + 1)), start=1):
            if number == 1:
                for place, magic, form in _FORMS:
                    if line.startswith(magic, place):
                        raise ValueError(f"{name}, line 1 is not UTF-8: the file is {form}")
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(line) > LONGEST:
                ends = " that ends with \\n" if b"\r" in line else ""
                raise ValueError(
                    f"{name}, line {number} is longer than {LONGEST >> 20} MiB; write a sentence a line{ends}"
                )
            yield number, line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}, line {number} is not UTF-8: {error.reason}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{name} is damaged after line {number}: {error}") from error


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


def language_files(folder: str | Path, suffix: str, languages: Iterable[str] | None = None) -> dict[str, Path]:
    """Returns the files ``{language}{suffix}`` in a folder by language, in alphabetical order of the codes.

    Args:
      folder: folder of files, each named with any code of its language.
      suffix: suffix of the file names, including its dot.
      languages: codes of the languages to read; by default, all available.

    Raises:
      FileNotFoundError: the folder does not exist, or a language has no file.
      ValueError: two files are for the same language, or ``languages`` is not given and a file is not named
        after a language.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    if isinstance(languages, str):
        raise ValueError(f"languages is {languages!r}; give a list of codes")
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob(f"*{suffix}")):
        try:
            found.setdefault(language_code(path.name.removesuffix(suffix)), []).append(path)
        except ValueError as error:
            if languages is None:
                raise ValueError(
                    f"{path} is not named after a language: {error}; rename it, or choose the languages to read"
                ) from error
    codes = sorted(found) if languages is None else sorted({language_code(code) for code in languages})
    missing = [code for code in codes if code not in found]
    if missing or not codes:
        lacks = f"files {', '.join(code + suffix for code in missing)}" if missing else f"file LANGUAGE{suffix}"
        raise FileNotFoundError(f"{folder} has no {lacks}; it has {', '.join(sorted(found)) or 'none'}")
    for code in codes:
        if len(found[code]) > 1:
            raise ValueError(
                f"{' and '.join(map(str, found[code]))} are for the same language, {code!r}; keep only one of them"
            )
    return {code: found[code][0] for code in codes}
