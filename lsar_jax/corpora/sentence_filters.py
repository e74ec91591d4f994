"""Filters that turn documents into sentences as the papers do for OSCAR and Wiki-40B.

Both follow the published code of LSAR (Xie et al., EMNLP 2022), ``download_oscar.py`` and
``download_wiki.py`` (which is based on LIR's, Yang et al., EMNLP 2021), with three differences. They
yield exactly the requested number of sentences, whereas the published code finishes the last document;
they leave out blank lines; and they read files in order, whereas the code also shuffles OSCAR's files.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat

import numpy as np

__all__ = ["COUNT", "Filter", "check_count", "document_lines", "not_blank", "oscar_lines", "take", "wiki40b_pieces"]

# Sentences per language in the papers.
COUNT = 10_000

_MIN_CHARACTERS = 10
# Documents of OSCAR that are held to draw from, as in LSAR's code.
_BUFFER = 100_000

Filter = Callable[[Iterable[str], int | None], Iterator[str]]


def document_lines(documents: Iterable[str], count: int | None = COUNT) -> Iterator[str]:
    """Yields the first non-blank lines of documents, after stripping white space around each document."""
    return islice((line for text in documents for line in text.strip().split("\n") if line.strip()), count)


def oscar_lines(documents: Iterable[str], count: int | None = COUNT, seed: int = 42) -> Iterator[str]:
    r"""Yields the non-blank lines of documents in a random order, after stripping white space around each document.

    The order is that of the ``shuffle`` of Hugging Face's streamed datasets, with a buffer of 100,000 documents, which
    are read first.

    Args:
      documents: texts with any number of lines.
      count: maximum number of lines; None for all.
      seed: seed of the order; LSAR's code has 42.

    Example:
      >>> list(lj.corpora.oscar_lines(["a\nb", "c", "d\n\ne"], 3))
      ['d', 'e', 'c']
    """
    return document_lines(_shuffled(iter(documents), np.random.default_rng(seed)), count)


def wiki40b_pieces(documents: Iterable[str], count: int | None = COUNT) -> Iterator[str]:
    r"""Yields the first pieces of paragraphs in Wiki-40B articles.

    An article is split at ``_START_PARAGRAPH_``. Parts that contain the title of the article or of the
    next section are left out, along with the paragraph before that title. The other parts are split at
    ``_NEWLINE_``; pieces of at least ten characters, counting line breaks, are kept, and their line breaks
    are removed.

    Args:
      documents: articles with their markers.
      count: maximum number of pieces; None for all.

    Example:
      >>> article = "_START_ARTICLE_\nBern\n_START_PARAGRAPH_\nBern liegt an der Aare._NEWLINE_Kurz."
      >>> list(lj.corpora.wiki40b_pieces([article]))
      ['Bern liegt an der Aare.']
    """
    return islice((piece for text in documents for piece in _pieces(text)), count)


def not_blank(documents: Iterable[str], count: int | None = COUNT) -> Iterator[str]:
    """Yields the first ``count`` non-blank texts unchanged, of data that is already split into sentences."""
    return islice((text for text in documents if text.strip()), count)


def check_count(count: int | None) -> None:
    """Raises ValueError unless ``count`` is None or at least 1."""
    if count is not None and count < 1:
        raise ValueError(f"count is {count}; it must be at least 1, or None for all sentences")


def take(documents: Iterable[str], filter: Filter, count: int | None, where: object) -> list[str]:
    """Returns the first sentences of documents, reading only as many documents as needed; there must be some."""
    check_count(count)
    sentences = list(filter(documents, count))
    if not sentences:
        raise ValueError(f"{where} has no sentence that {getattr(filter, '__name__', 'the filter')} keeps")
    return sentences


def _shuffled(documents: Iterator[str], rng: np.random.Generator) -> Iterator[str]:
    held = list(islice(documents, _BUFFER))
    # Drawn by thousands, as there, so that the last documents are shuffled from the same state.
    places = (place for _ in repeat(None) for place in rng.integers(0, _BUFFER, 1000).tolist())
    for text, place in zip(documents, places, strict=False):
        yield held[place]
        held[place] = text
    rng.shuffle(held)
    yield from held


def _pieces(text: str) -> Iterator[str]:
    for part in text.split("_START_PARAGRAPH_"):
        if "_START_" in part:
            continue
        for piece in part.split("_NEWLINE_"):
            if len(piece) >= _MIN_CHARACTERS and piece.strip():
                yield piece.replace("\n", "")
