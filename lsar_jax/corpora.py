"""Where sentences come from: the bundled declaration of human rights, and text files."""

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from lsar_jax.languages import check_known

__all__ = ["UDHR_PARTS", "lines", "stream_lines", "udhr"]

UDHR_PARTS = {"all": slice(None), "fit": slice(0, None, 2), "test": slice(1, None, 2)}


def udhr(part: str = "all", languages: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Returns the Universal Declaration of Human Rights in up to 40 languages.

    The paragraphs of articles 1 to 30 are aligned: number i is the same in every language.

    Args:
      part: ``all`` 50 paragraphs, or the 25 at even positions (0, 2, ...) to ``fit`` on, or
        the 25 at odd positions to ``test`` on.
      languages: codes of the languages wanted; all 40 by default.

    Returns:
      From language code to paragraphs, in alphabetical order of the codes.

    Raises:
      ValueError: unknown part or language.
    """
    if part not in UDHR_PARTS:
        raise ValueError(f"part {part!r} is not one of {', '.join(UDHR_PARTS)}")
    if isinstance(languages, str):
        raise ValueError(f"languages is {languages!r}; give a list of codes")
    data = json.loads(files("lsar_jax").joinpath("data/udhr.json").read_text(encoding="utf-8"))
    known = sorted(data["languages"])
    wanted = known if languages is None else sorted({check_known(x, known, "the UDHR") for x in languages})
    return {code: data["languages"][code]["paragraphs"][UDHR_PARTS[part]] for code in wanted}


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
