"""Tagged sentences: a word, a tab and its tag in each line, and an empty line after each sentence.

It is the form of WikiAnn (Pan et al., "Cross-lingual Name Tagging and Linking for 282 Languages", ACL 2017), of its
split in XTREME, and of Universal NER. A prefix of the language before each word (``en:``), as in WikiAnn's own files,
is removed.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lsar_jax.corpora.text_files import stream_lines

__all__ = ["TaggedSentence", "read_tagged"]

_PREFIX = re.compile(r"[a-z]{2,3}(-[a-z-]+)?:(?=.)")
_TAG = re.compile(r"O|[BI]-.+")


class TaggedSentence(NamedTuple):
    """A sentence with a tag for each word.

    Attributes:
      words: the words.
      tags: ``O``, or ``B-`` or ``I-`` and the type of a named entity.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(path: str | Path) -> list[TaggedSentence]:
    r"""Returns the sentences of a file.

    Args:
      path: the file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not a word, a tab and a tag, or the file has no sentences; the error names the file and the
        line.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder, "de.tsv")
      ...     _ = path.write_text("de:Bern\tB-LOC\nde:liegt\tO\n\n", encoding="utf-8")
      ...     labelled.read_tagged(path)
      [TaggedSentence(words=('Bern', 'liegt'), tags=('B-LOC', 'O'))]
    """
    sentences = list(_sentences(Path(path)))
    if not sentences:
        raise ValueError(f"{path} has no sentences")
    prefixes = {match[0] if (match := _PREFIX.match(word)) else "" for one in sentences for word in one.words}
    if len(prefixes) > 1 or "" in prefixes:
        return sentences
    length = len(prefixes.pop())
    return [one._replace(words=tuple(word[length:] for word in one.words)) for one in sentences]


def _sentences(path: Path) -> Iterator[TaggedSentence]:
    rows: list[tuple[str, str]] = []
    for number, line in enumerate(stream_lines(path), start=1):
        if not line.strip():
            if rows:
                yield _sentence(rows)
                rows = []
            continue
        word, tab, tag = line.rpartition("\t")
        if not tab or not word or "\t" in word or not _TAG.fullmatch(tag):
            raise ValueError(f"{path}, line {number} is not a word, a tab and a tag such as O or B-PER: {line!r}")
        rows.append((word, tag))
    if rows:
        yield _sentence(rows)


def _sentence(rows: list[tuple[str, str]]) -> TaggedSentence:
    words, tags = zip(*rows, strict=True)
    return TaggedSentence(words, tags)
