"""Labelled text: parsed sentences, tagged sentences, and sentence pairs with a label.

It is read from files, or from datasets as ``train.finetune.labelled_datasets`` names them.

- CoNLL-U, the format of Universal Dependencies (https://universaldependencies.org/format.html). Words are the syntactic
  words: the lines of multiword tokens (``4-5``) and of empty nodes (``8.1``) are skipped.
- Tagged sentences: a word, a tab and its tag in each line, and an empty line after each sentence, as in WikiAnn (Pan et
  al., ACL 2017) and its split in XTREME. A prefix of the language before each word (``en:``), as in WikiAnn's own
  files, is removed. In the files of Universal NER (``.iob2``), the number of each word comes before it, and perhaps an
  annotator after it; ``#`` begins a comment; and the tags ``B-O`` and OTH are no entities, as in its own reader.
- XNLI (Conneau et al., EMNLP 2018): the release's development and test files have all languages in one table
  (``xnli.dev.tsv``); its training files have one table a language (``multinli.train.en.tsv``).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from lsar_jax.corpora.row_files import file_rows
from lsar_jax.corpora.tables import Data
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.languages import code_or_none
from train.finetune.labelled_datasets import (
    COLUMN_LABELS,
    LABELS,
    dataset_rows,
    dataset_text,
    dataset_words,
    is_dataset,
    language_of,
)

__all__ = [
    "LABELS", "ParsedSentence", "SentencePair", "TaggedSentence", "is_dataset", "language_of", "read_inference",
    "read_parsed", "read_tagged",
]  # fmt: skip

# The columns of XNLI's training tables, and of its others; the former name one label otherwise.
_TRAINING_TABLE, _TABLE = ("premise", "hypo", "label"), ("sentence1", "sentence2", "gold_label")
_NAMES = {"contradictory": "contradiction"} | {label: label for label in LABELS}

_PREFIX = re.compile(r"(simple|[a-z]{2,3}(-[a-z-]+)?):(?=.)")
_TAG = re.compile(r"O|[BI]-\S+")
# A comment of Universal NER, unlike the word # and its tag.
_COMMENT = re.compile(r"#[^\t]*$|# [\w ]+ = ")


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


class TaggedSentence(NamedTuple):
    """A sentence with a tag for each word: ``O``, or ``B-`` or ``I-`` and the type of a named entity."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class SentencePair(NamedTuple):
    """A premise, a hypothesis, and one of ``LABELS``."""

    premise: str
    hypothesis: str
    label: str


def read_parsed(data: Data, part: str = "train") -> dict[str, list[ParsedSentence]]:
    """Returns sentences with parts of speech and dependencies, from CoNLL-U or a dataset, by language.

    Words of a dataset without a number as their head, which stand for several words or for none, are left out.

    Args:
      data: a file, ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.
      part: train, dev or test of a dataset.

    Returns:
      The sentences by ``language_of(data)``.

    Raises:
      FileNotFoundError: there is no such file or dataset, or the Hub does not answer.
      ImportError: tensorflow-datasets, or pyarrow for parquet, is not installed.
      ValueError: a line or row is malformed, a part of speech is not universal, heads are not a tree, the split or a
        column does not exist, or there are no sentences or no parts of speech; errors name the line or row.
    """
    sentences = []
    if is_dataset(data):
        for where, row in dataset_rows(data, part, "tokens", "upos", "head", "deprel"):
            if words := [word for word in dataset_words(row, where) if str(word[2]).isdecimal()]:
                sentences.append(_parsed(words, where))
    else:
        for block in _blocks(data):
            if words := _conllu_words(block, data):
                sentences.append(_parsed(words, f"{data}, the sentence that ends at line {block[-1][0]}"))
    _check_any(sentences, "_", data, "parts of speech")
    return {language_of(data): sentences}


def read_tagged(data: Data, part: str = "train") -> dict[str, list[TaggedSentence]]:
    """Returns sentences with tags of named entities by language; the arguments are as in ``read_parsed``.

    Raises:
      FileNotFoundError, ImportError: as for ``read_parsed``.
      ValueError: as for ``read_parsed``, a line is not a word, a tab and a tag, or there are no named entities.
    """
    if is_dataset(data):
        rows = dataset_rows(data, part, "tokens", "ner_tags|tags")
        sentences = [TaggedSentence(*zip(*dataset_words(row, where), strict=True)) for where, row in rows]
    else:
        sentences = list(filter(None, (_tagged(block, data) for block in _blocks(data))))
    _check_any(sentences, "O", data, "named entities")
    prefixes = {match[0] if (match := _PREFIX.match(word)) else "" for words, _ in sentences for word in words}
    if len(prefixes) == 1 and not is_dataset(data):
        length = len(prefixes.pop())
        sentences = [TaggedSentence(tuple(word[length:] for word in words), tags) for words, tags in sentences]
    return {language_of(data): sentences}


def read_inference(data: Data, part: str = "train") -> dict[str, list[SentencePair]]:
    """Returns labelled pairs of sentences by language; the arguments are as in ``read_parsed``.

    A table without a column ``language`` must be named after its language.

    Raises:
      FileNotFoundError, ImportError: as for ``read_parsed``.
      ValueError: as for ``read_parsed``, or a language or a label is unknown.
    """
    if is_dataset(data):
        rows = dataset_rows(data, part, "premise", "hypothesis", "label")
        sides = ([*(dataset_text(side, data, where) for side in row[:2]), row[2][0]] for where, row in rows)
        return {language_of(data): [SentencePair(*side) for side in sides]}
    named = language_of(data)
    pairs: dict[str, list[SentencePair]] = {}
    for where, row in file_rows(Path(data)):
        names = _TRAINING_TABLE if "hypo" in row else _TABLE
        code = code_or_none(row.get("language", named))
        if not {*names} <= {*row} or code is None or row[names[2]] not in _NAMES:
            raise ValueError(
                f"{where} has {row!r:.200}; expected columns {', '.join(names)}, a label of {', '.join(_NAMES)}, and a "
                "column language, or a file that is named after its language, as in multinli.train.de.tsv"
            )
        pairs.setdefault(code, []).append(SentencePair(row[names[0]], row[names[1]], _NAMES[row[names[2]]]))
    if not pairs:
        raise ValueError(f"{data} has no pairs")
    return pairs


def _check_any(sentences: Sequence[ParsedSentence | TaggedSentence], none: str, data: Data, what: str) -> None:
    """Raises ValueError if all tags say that there is none, as in a file without sentences, or words are missing."""
    if all(tag == none for sentence in sentences for tag in sentence.tags):
        raise ValueError(f"{data} has no {what}, but only {none} for each word, or no sentences")
    # As released where the text has a licence of its own.
    bare = [count for words, *_ in sentences if (count := words.count("_")) * 2 > len(words)]
    if len(bare) == len(sentences) or max(bare, default=0) > 1:
        those = f"{len(bare)} of {len(sentences)} sentences"
        raise ValueError(f"{data} lacks the words of {those}, most of which are _; merge them from the text's release")


def _blocks(path: Data) -> Iterator[list[tuple[int, str]]]:
    """Yields the lines between empty lines, with their numbers."""
    lines = enumerate(stream_lines(path), start=1)
    return (list(block) for filled, block in groupby(lines, key=lambda line: bool(line[1].strip())) if filled)


def _conllu_words(block: list[tuple[int, str]], path: Data) -> list[tuple[str, ...]]:
    """Returns the form, part of speech, head and relation of each word in lines of CoNLL-U."""
    words: list[tuple[str, ...]] = []
    for number, line in block:
        columns = line.split("\t")
        if line.startswith("#") or (len(columns) == 10 and re.fullmatch(r"\d+[-.]\d+", columns[0])):
            continue
        tags = COLUMN_LABELS["upos"]
        right = len(columns) == 10 and columns[0] == str(len(words) + 1) and columns[3] in tags
        if not (right and columns[6].isdecimal()):
            raise ValueError(
                f"{path}, line {number} is not a word of CoNLL-U, with 10 columns, the ID {len(words) + 1}, a UPOS of "
                f"{', '.join(tags)}, and a number as HEAD: {line!r:.200}"
            )
        words.append((columns[1], columns[3], columns[6], columns[7]))
    return words


def _parsed(words: Sequence[Sequence[str]], where: str) -> ParsedSentence:
    """Returns a sentence; raises ValueError for a word without form or relation, or heads that are not a tree."""
    forms, tags, heads, relations = zip(*words, strict=True)
    numbers = tuple(map(int, heads))
    if not all(forms) or {"", "_"} & {*relations}:
        raise ValueError(f"{where} has a word without FORM or DEPREL: {' '.join(forms)}")
    # The word that is twice as far above each word, as often as reaches the root from any word of a tree.
    above: Sequence[int] = (0, *numbers)
    for _ in range(len(numbers).bit_length() if max(numbers) <= len(numbers) else 0):
        above = [above[head] for head in above]
    if any(above) or numbers.count(0) != 1:
        raise ValueError(f"{where} has the HEADs {' '.join(heads)}, which are not a tree with one root")
    return ParsedSentence(forms, tags, numbers, tuple(str(name).partition(":")[0] for name in relations))


def _tagged(block: list[tuple[int, str]], path: Data) -> TaggedSentence | None:
    """Returns a sentence; None for lines of comments alone."""
    words: list[tuple[str, str]] = []
    for number, line in block:
        fields = line.split("\t")
        if _COMMENT.match(line) or (len(fields) > 2 and re.fullmatch(r"\d+[-.]\d+", fields[0])):
            continue
        if len(fields) > 2 and fields[0] == str(len(words) + 1):  # of Universal NER
            fields = [fields[1], "O" if fields[2][1:] in ("-O", "-OTH") else fields[2]]
        if len(fields) != 2 or not fields[0] or not _TAG.fullmatch(fields[1]):
            raise ValueError(f"{path}, line {number} is not a word, a tab and a tag such as O or B-PER: {line!r}")
        words.append((fields[0], fields[1]))
    return TaggedSentence(*zip(*words, strict=True)) if words else None
