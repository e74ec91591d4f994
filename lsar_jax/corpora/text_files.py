"""Text files with one sentence per line, and folders with one file per language."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from lsar_jax.corpora.sentence_filters import COUNT, not_blank, take
from lsar_jax.languages import language_code

__all__ = ["language_files", "lines", "stream_lines", "text_folder"]


def lines(path: str | Path) -> list[str]:
    r"""Returns the lines of a UTF-8 text file, one sentence each.

    Lines end with ``\n`` or ``\r\n``, or with ``\r`` if the file has no ``\n`` at all, so that other
    line separators inside a sentence (U+2028, a form feed) do not shift the alignment of two
    files. A byte-order mark is dropped; empty lines are kept, because line i may translate line i
    of another file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8, or the file is empty.
    """
    return list(stream_lines(path))


def stream_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines that ``lines`` returns, with only one line at a time in memory.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8 (raised when it is reached), or the file is empty.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no text file at {path}")
    with path.open("rb") as file:
        yield from decoded_lines(file, str(path))


def decoded_lines(raw_lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yields the lines of an open file, which errors call ``name``, as ``stream_lines`` does."""
    number = 0
    for number, raw in enumerate(raw_lines, start=1):
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        maybe_mac = number == 1 and not raw.endswith(b"\n")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        # A file without \n is old Mac text, if it has \r.
        for place, part in enumerate(line.split(b"\r") if maybe_mac else [line], start=number):
            try:
                yield part.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{name}, line {place} is not UTF-8: {error.reason}") from error
    if number == 0:
        raise ValueError(f"{name} is empty")


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
