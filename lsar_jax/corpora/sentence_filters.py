"""Documents to sentences, as the papers take them from OSCAR and Wiki-40B.

Both are the published code of LSAR (Xie et al., EMNLP 2022), ``download_oscar.py`` and
``download_wiki.py``, the latter after LIR (Yang et al., EMNLP 2021), with two differences: where that
code stops after the document that reaches the number, these give exactly the number; and a blank
line, which is no sentence, is left out. The order is that of the documents.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

__all__ = ["COUNT", "Filter", "check_count", "not_blank", "oscar_lines", "take", "wiki40b_pieces"]

# The papers' sentences a language.
COUNT = 10_000

_MIN_CHARACTERS = 10

Filter = Callable[[Iterable[str], int | None], Iterator[str]]


def oscar_lines(documents: Iterable[str], count: int | None = COUNT) -> Iterator[str]:
    """Yields the first lines of documents, each document stripped of white space at its ends.

    Args:
      documents: texts of any number of lines.
      count: lines at most; None for all.
    """
    return islice((line for text in documents for line in text.strip().split("\n") if line.strip()), count)


def wiki40b_pieces(documents: Iterable[str], count: int | None = COUNT) -> Iterator[str]:
    """Yields the first pieces of paragraphs of Wiki-40B.

    An article is split at ``_START_PARAGRAPH_``; a part that holds a title, of the article or of the
    next section, is left out with the paragraph before that title; the others are split at
    ``_NEWLINE_``, and the pieces of at least ten characters, line breaks included, are taken
    without their line breaks.

    Args:
      documents: the articles, with their markers.
      count: pieces at most; None for all.
    """
    return islice((piece for text in documents for piece in _pieces(text)), count)


def not_blank(documents: Iterable[str], count: int | None = COUNT) -> Iterator[str]:
    """Yields the first texts that are not blank, as they are: for text that is sentences already."""
    return islice((text for text in documents if text.strip()), count)


def check_count(count: int | None) -> None:
    """Raises ValueError unless ``count`` is None or at least 1."""
    if count is not None and count < 1:
        raise ValueError(f"count is {count}; take at least 1 sentence, or None for all")


def take(documents: Iterable[str], filter: Filter, count: int | None, where: object) -> list[str]:
    """Returns the first sentences of documents; reads no document more than it needs.

    Raises:
      ValueError: there is none; the error says ``where``.
    """
    sentences = list(filter(documents, count))
    if not sentences:
        raise ValueError(f"{where} has no sentence that {getattr(filter, '__name__', 'the filter')} takes")
    return sentences


def _pieces(text: str) -> Iterator[str]:
    for part in text.split("_START_PARAGRAPH_"):
        if "_START_" in part:
            continue
        for piece in part.split("_NEWLINE_"):
            if len(piece) >= _MIN_CHARACTERS and piece.strip():
                yield piece.replace("\n", "")
