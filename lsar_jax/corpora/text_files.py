"""Text files: a sentence a line, and folders with one file a language."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from lsar_jax.corpora.sentence_filters import COUNT, check_count, not_blank, take
from lsar_jax.languages import language_code

__all__ = ["language_files", "lines", "stream_lines", "text_folder"]


def lines(path: str | Path) -> list[str]:
    r"""Returns the lines of a UTF-8 text file, one sentence each.

    Lines end with ``\n`` or ``\r\n`` only, so that a line separator inside a sentence
    (U+2028, a form feed) does not shift the alignment of two files. A byte-order mark is
    dropped; empty lines are kept, because line i may translate line i of another file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8, or the file is empty.
    """
    return list(stream_lines(path))


def stream_lines(path: str | Path) -> Iterator[str]:
    r"""Yields what ``lines`` returns, and holds one line at a time.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8, when it is reached; or the file is empty.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no text file at {path}")
    with path.open("rb") as file:
        number = 0
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}, line {number} is not UTF-8: {error.reason}") from error
        if number == 0:
            raise ValueError(f"{path} is empty")


def text_folder(
    folder: str | Path, languages: Iterable[str] | None = None, count: int | None = COUNT
) -> dict[str, list[str]]:
    """Returns the first sentences of a folder's files ``{language}.txt``, a sentence a line.

    Blank lines are left out. Of a file no more is read than is needed.

    Args:
      folder: of UTF-8 text files, each named by any code of its language.
      languages: codes of the languages wanted; by default all that there are.
      count: sentences at most of each language; None for all.

    Returns:
      From language code to sentences, in alphabetical order of the codes.

    Raises:
      FileNotFoundError: no such folder, or no file of a language.
      ValueError: two files of one language, a file name that is no language, a file that is not UTF-8
        or holds no sentence, or a count below 1.
    """
    check_count(count)
    paths = language_files(folder, ".txt", languages)
    return {code: take(stream_lines(path), not_blank, count, path) for code, path in paths.items()}


def language_files(folder: str | Path, suffix: str, languages: Iterable[str] | None = None) -> dict[str, Path]:
    """Returns a folder's files ``{language}{suffix}`` by language, in alphabetical order of the codes.

    Args:
      folder: of files, each named by any code of its language.
      suffix: of the files' names, with its dot.
      languages: codes of the languages wanted; by default all that there are.

    Raises:
      FileNotFoundError: no such folder, or no file of a language.
      ValueError: two files of one language; or, where no languages are given, a name that is none.
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
                raise ValueError(f"{path} is not named by a language: {error}; or say which languages") from error
    wanted = sorted(found) if languages is None else sorted({language_code(code) for code in languages})
    missing = [code for code in wanted if code not in found]
    if missing or not wanted:
        lacks = f"files {', '.join(code + suffix for code in missing)}" if missing else f"file LANGUAGE{suffix}"
        raise FileNotFoundError(f"{folder} has no {lacks}; it has {', '.join(sorted(found)) or 'none'}")
    for code in wanted:
        if len(found[code]) > 1:
            raise ValueError(f"{' and '.join(map(str, found[code]))} are the same language, {code!r}")
    return {code: found[code][0] for code in wanted}
