"""Parsed sentences in CoNLL-U, the format of Universal Dependencies (https://universaldependencies.org/format.html).

Words are the syntactic words: the lines of multiword tokens (``4-5``) and of empty nodes (``8.1``) are skipped.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lsar_jax.corpora.text_files import stream_lines

__all__ = ["ParsedSentence", "check_heads", "read_conllu"]


class ParsedSentence(NamedTuple):
    """A sentence with the part of speech, head and relation of each word.

    Attributes:
      words: the words.
      tags: universal part of speech of each word; ``_`` if it has none.
      heads: number of the head of each word, from 1; 0 for the root.
      relations: relation of each word to its head, without the subtype after the colon.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_conllu(path: str | Path) -> list[ParsedSentence]:
    r"""Returns the sentences of a file.

    Args:
      path: a file in CoNLL-U, of which the columns ID, FORM, UPOS, HEAD and DEPREL are read.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line cannot be read, a head does not exist, or the file has no sentences; the error names the file
        and the line.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> rows = ["1 Hunde Hund NOUN _ _ 2 nsubj _ _", "2 bellen bellen VERB _ _ 0 root _ _"]
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder, "de.conllu")
      ...     _ = path.write_text("\n".join(rows).replace(" ", "\t"), encoding="utf-8")
      ...     labelled.read_conllu(path)
      [ParsedSentence(words=('Hunde', 'bellen'), tags=('NOUN', 'VERB'), heads=(2, 0), relations=('nsubj', 'root'))]
    """
    sentences = list(_sentences(Path(path)))
    if not sentences:
        raise ValueError(f"{path} has no sentences")
    return sentences


def _sentences(path: Path) -> Iterator[ParsedSentence]:
    rows: list[tuple[str, str, int, str]] = []
    number = 0
    for number, line in enumerate(stream_lines(path), start=1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if rows:
                yield _sentence(rows, path, number - 1)
                rows = []
            continue
        columns = line.split("\t")
        if len(columns) != 10:
            raise ValueError(f"{path}, line {number} has {len(columns)} columns, not the 10 of CoNLL-U")
        if "-" in columns[0] or "." in columns[0]:
            continue
        if columns[0] != str(len(rows) + 1):
            raise ValueError(f"{path}, line {number} has the ID {columns[0]!r}, expected {len(rows) + 1}")
        if not columns[6].isdecimal():
            raise ValueError(f"{path}, line {number} has the HEAD {columns[6]!r}, which is not a number")
        rows.append((columns[1], columns[3], int(columns[6]), columns[7].partition(":")[0]))
    if rows:
        yield _sentence(rows, path, number)


def _sentence(rows: list[tuple[str, str, int, str]], path: Path, last: int) -> ParsedSentence:
    words, tags, heads, relations = zip(*rows, strict=True)
    check_heads(heads, f"{path}: in the sentence that ends at line {last}")
    return ParsedSentence(words, tags, heads, relations)


def check_heads(heads: Sequence[int], place: str) -> None:
    """Raises ValueError if the head of a word, counted from 1, is neither 0 nor another word; ``place`` is quoted."""
    for word, head in enumerate(heads, start=1):
        if head > len(heads) or head == word:
            raise ValueError(
                f"{place}, word {word} has the HEAD {head}, but a head is 0 or another word, from 1 to {len(heads)}"
            )
