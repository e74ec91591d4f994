"""Labelled text: parsed sentences, tagged sentences, and sentence pairs with a label, from files or named datasets.

- CoNLL-U, the format of Universal Dependencies (https://universaldependencies.org/format.html). Words are the syntactic
  words: the lines of multiword tokens (``4-5``) and of empty nodes (``8.1``) are skipped.
- Tagged sentences: a word, a tab and its tag in each line, and an empty line after each sentence, as in WikiAnn (Pan et
  al., ACL 2017), its split in XTREME, and Universal NER. A prefix of the language before each word (``en:``), as in
  WikiAnn's own files, is removed.
- XNLI (Conneau et al., EMNLP 2018): the release's development and test files have all languages in one table
  (``xnli.dev.tsv``); its training files have one table a language (``multinli.train.en.tsv``).
- ``hub:unimelb-nlp/wikiann#de`` is the configuration ``de`` of a dataset on the Hub, and ``tfds:wikiann#de`` that of a
  prepared TensorFlow dataset. In ``tfds:xnli/plain_text#de``, whose rows hold all languages, it is the language.
  Columns are found by their names. Labels that are numbers are named as a prepared dataset says, and on the Hub in the
  order of WikiAnn, Universal Dependencies and XNLI there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from lsar_jax.corpora.tables import Data, Prepared, named_tables
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.languages import code_or_none

__all__ = [
    "LABELS",
    "ParsedSentence",
    "SentencePair",
    "TaggedSentence",
    "is_dataset",
    "language_of",
    "read_inference",
    "read_parsed",
    "read_tagged",
]

# The labels of a pair of sentences, in the order of their ids.
LABELS = ("entailment", "neutral", "contradiction")

# The columns of XNLI's tables and of its training tables, which name one label otherwise.
_TABLES = (("sentence1", "sentence2", "gold_label"), ("premise", "hypo", "label"))
_NAMES = {"contradictory": "contradiction"} | {label: label for label in LABELS}

_PREFIX = re.compile(r"[a-z]{2,3}(-[a-z-]+)?:(?=.)")
_TAG = re.compile(r"O|[BI]-\S+")

_CODE = r"([a-z]{2,3}(?:-[A-Z][a-z]{3})?)"
# What files of labelled text are called that is also the ISO 639-3 code of a language.
_WORDS = ("all", "bio", "dev", "gum", "kdt", "ner", "pos", "pud", "raw", "set", "tag", "txt")

# What a split may be called.
_SPLITS = {"train": ("train",), "dev": ("validation", "dev"), "test": ("test",)}

# The labels of each column that has some, in the order of their numbers on the Hub.
_LABELS = {
    **dict.fromkeys(("ner_tags", "tags"), ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")),
    "upos": (
        "NOUN", "PUNCT", "ADP", "NUM", "SYM", "SCONJ", "ADJ", "PART", "DET", "CCONJ", "PROPN", "PRON", "X", "_", "ADV",
        "INTJ", "VERB", "AUX",
    ),
    "label": LABELS,
}  # fmt: skip


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
    r"""Returns sentences with parts of speech and dependencies, from CoNLL-U or a dataset, by language.

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

    TaskExample:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> rows = ["1 Hunde Hund NOUN _ _ 2 nsubj _ _", "2 bellen bellen VERB _ _ 0 root _ _"]
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder, "de.conllu")
      ...     _ = path.write_text("\n".join(rows).replace(" ", "\t"), encoding="utf-8")
      ...     labelled.read_parsed(path)["de"]
      [ParsedSentence(words=('Hunde', 'bellen'), tags=('NOUN', 'VERB'), heads=(2, 0), relations=('nsubj', 'root'))]
    """
    sentences = []
    if is_dataset(data):
        for number, row in enumerate(_columns(data, part, "tokens", "upos", "head", "deprel")):
            if words := [
                word
                for word in _of_words(row, data, number, ("tokens", "tags", "heads", "relations"))
                if str(word[2]).isdecimal()
            ]:
                sentences.append(_parsed(words, f"{data}: in row {number}"))
    else:
        for block in _blocks(data):
            if words := _words_of(block, data):
                sentences.append(_parsed(words, f"{data}: in the sentence that ends at line {block[-1][0]}"))
    if not sentences:
        raise ValueError(f"{data} has no sentences")
    if all(tag == "_" for sentence in sentences for tag in sentence.tags):
        raise ValueError(f"{data} has no parts of speech (of a file, the fourth column is _ for all words)")
    return {language_of(data): sentences}


def read_tagged(data: Data, part: str = "train") -> dict[str, list[TaggedSentence]]:
    """Returns sentences with tags of named entities by language; the arguments are those of ``read_parsed``.

    Raises:
      FileNotFoundError, ImportError: as for ``read_parsed``.
      ValueError: as for ``read_parsed``, a line is not a word, a tab and a tag, or there are no named entities.
    """
    sentences = []
    for number, row in enumerate(_columns(data, part, "tokens", "ner_tags|tags") if is_dataset(data) else ()):
        sentences.append(TaggedSentence(*zip(*_of_words(row, data, number, ("tokens", "tags")), strict=True)))
    for block in () if is_dataset(data) else _blocks(data):
        for number, line in block:
            word, _, tag = line.rpartition("\t")
            if not word or "\t" in word or not _TAG.fullmatch(tag):
                raise ValueError(f"{data}, line {number} is not a word, a tab and a tag such as O or B-PER: {line!r}")
        words, _, tags = zip(*(line.rpartition("\t") for _, line in block), strict=True)
        sentences.append(TaggedSentence(words, tags))
    if not sentences:
        raise ValueError(f"{data} has no sentences")
    if all(tag == "O" for sentence in sentences for tag in sentence.tags):
        raise ValueError(f"{data} has no named entities: the tags of all words are O")
    prefixes = {match[0] if (match := _PREFIX.match(word)) else "" for words, _ in sentences for word in words}
    if len(prefixes) == 1 and not is_dataset(data):
        length = len(prefixes.pop())
        sentences = [TaggedSentence(tuple(word[length:] for word in words), tags) for words, tags in sentences]
    return {language_of(data): sentences}


def read_inference(data: Data, part: str = "train") -> dict[str, list[SentencePair]]:
    """Returns labelled pairs of sentences by language; the arguments are those of ``read_parsed``.

    A table without a column ``language`` must be named after its language.

    Raises:
      FileNotFoundError, ImportError: as for ``read_parsed``.
      ValueError: as for ``read_parsed``, or a language or a label is unknown.
    """
    if is_dataset(data):
        return {
            language_of(data): [
                SentencePair(_text(premise, data, number), _text(hypothesis, data, number), label)
                for number, (premise, hypothesis, (label,)) in enumerate(
                    _columns(data, part, "premise", "hypothesis", "label")
                )
            ]
        }
    lines = stream_lines(data)
    header = next(lines).split("\t")
    names = next((names for names in _TABLES if set(names) <= set(header)), None)
    if names is None:
        known = " or ".join(", ".join(names) for names in _TABLES)
        raise ValueError(f"{data} has no columns {known}; it has {', '.join(header)}")
    if "language" not in header and not language_of(data):
        raise ValueError(
            f"{data} has no column language, and is not named after its language, as in multinli.train.de.tsv; "
            "rename it"
        )
    pairs: dict[str, list[SentencePair]] = {}
    named = "" if "language" in header else language_of(data)
    for number, line in enumerate(lines, start=2):
        columns = line.split("\t")
        if len(columns) != len(header):
            raise ValueError(f"{data}, line {number} has {len(columns)} columns, but the header has {len(header)}")
        row = dict(zip(header, columns, strict=True))
        premise, hypothesis, label = (row[name] for name in names)
        if label not in _NAMES:
            raise ValueError(f"{data}, line {number} has the label {label!r}; it must be one of {', '.join(_NAMES)}")
        language = code_or_none(row["language"]) if "language" in row else named
        if language is None:
            raise ValueError(f"{data}, line {number} has the language {row['language']!r}, which is not a code")
        pairs.setdefault(language, []).append(SentencePair(premise, hypothesis, _NAMES[label]))
    if not pairs:
        raise ValueError(f"{data} has no pairs")
    return pairs


def is_dataset(data: object) -> bool:
    """Returns whether data are named as ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG`` rather than by a path."""
    return str(data).startswith(("hub:", "tfds:"))


def language_of(data: Data) -> str:
    """Returns the language that a file, or the configuration of a dataset, is named after; empty if a file is not.

    The code is the first or the last part of a file's name: de in ``de_pud-ud-test.conllu``, ``de.tsv``, ``dev-de.tsv``
    and ``multinli.train.de.tsv``. A code of three letters counts only if there is none of two. Words that files of
    labelled text are called, such as ``dev`` and ``pos``, are not taken for codes.

    Raises:
      ValueError: a file is named after two languages, or a configuration after none.

    TaskExample:
      >>> from lsar_jax.corpora import labelled
      >>> names = "hub:commul/universal_dependencies#de_pud", "de_pud-ud-test.conllu", "dev-de.tsv", "xnli.dev.tsv"
      >>> [labelled.language_of(name) for name in names]
      ['de', 'de', 'de', '']
    """
    if is_dataset(data):
        config = _parts(data)[1]
        code = code_or_none(config) or code_or_none(config.partition("_")[0])
        if code is None:
            raise ValueError(f"the configuration {config!r} of {data} is not named after a language")
        return code
    stem = Path(data).stem
    found = re.findall(rf"^{_CODE}(?=[-_.]|$)", stem) + re.findall(rf"(?:^|[-_.]){_CODE}$", stem)
    languages = {name: code for name in found if name not in _WORDS and (code := code_or_none(name))}
    languages = {name: code for name, code in languages.items() if len(name.partition("-")[0]) == 2} or languages
    if len(set(languages.values())) > 1:
        raise ValueError(f"{data} is named after the languages {' and '.join(languages)}; rename it")
    return next(iter(languages.values()), "")


def _blocks(path: Data) -> Iterator[list[tuple[int, str]]]:
    """Yields the lines between empty lines, with their numbers."""
    lines = enumerate(stream_lines(path), start=1)
    return (list(block) for filled, block in groupby(lines, key=lambda line: bool(line[1].strip())) if filled)


def _words_of(block: list[tuple[int, str]], path: Data) -> list[tuple[str, ...]]:
    """Returns the form, part of speech, head and relation of each word in lines of CoNLL-U."""
    words: list[tuple[str, ...]] = []
    for number, line in block:
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != 10:
            raise ValueError(f"{path}, line {number} has {len(columns)} columns, not the 10 of CoNLL-U")
        id, form, _, tag, _, _, head, relation, _, _ = columns
        if "-" in id or "." in id:
            continue
        if id != str(len(words) + 1):
            raise ValueError(f"{path}, line {number} has the ID {id!r}, expected {len(words) + 1}")
        if tag not in _LABELS["upos"]:
            known = ", ".join(_LABELS["upos"])
            raise ValueError(f"{path}, line {number} has the UPOS {tag!r}; it must be one of {known}")
        if not head.isdecimal():
            raise ValueError(f"{path}, line {number} has the HEAD {head!r}, which is not a number")
        words.append((form, tag, head, relation))
    return words


def _parsed(words: Sequence[Sequence[str]], place: str) -> ParsedSentence:
    """Returns a sentence, after checking that its words have names, and that their heads are a tree with one root."""
    forms, tags, heads, relations = zip(*words, strict=True)
    numbers = tuple(map(int, heads))
    for word, head in enumerate(numbers, start=1):
        if head > len(numbers) or head == word:
            raise ValueError(
                f"{place}, word {word} has the HEAD {head}, but a head is 0 or another word, from 1 to {len(numbers)}"
            )
        if not forms[word - 1] or relations[word - 1] in ("", "_"):
            raise ValueError(f"{place}, word {word} has no FORM or no DEPREL")
    if (roots := numbers.count(0)) != 1:
        raise ValueError(f"{place}, {roots} words have the HEAD 0, but a sentence has one root")
    # The word that is twice as far above each word, as often as reaches the root from any word of a tree.
    above: Sequence[int] = (0, *numbers)
    for _ in range(len(numbers).bit_length()):
        above = [above[head] for head in above]
    if any(above):
        raise ValueError(f"{place}, word {max(above)} is in a circle of heads, which must be a tree")
    return ParsedSentence(forms, tags, numbers, tuple(str(name).partition(":")[0] for name in relations))


def _parts(data: Data) -> tuple[str, str]:
    place, _, config = str(data).partition("#")
    if not config:
        raise ValueError(f"{data} names no configuration; write {place}#CONFIG, such as {place}#de")
    return place, config


def _columns(data: Data, part: str, *columns: str) -> list[list[Any]]:
    """Returns the values of the columns in each row, of labels a list of names; ``a|b`` is a or b."""
    place, config = _parts(data)
    if (tables := named_tables(place)) is None:
        raise ValueError(f"{data} is not hub:ID#CONFIG or tfds:NAME#CONFIG")
    unknown = ValueError(f"{place} has no configuration {config!r}; it has {', '.join(tables.configs) or 'none'}")
    # The only configuration may have all languages in each row.
    name = config if config in tables.configs else tables.configs[0] if len(tables.configs) == 1 else ""
    if not name:
        raise unknown
    there = tables.splits(name)
    split = next((split for split in _SPLITS[part] if split in there), None)
    if split is None:
        raise ValueError(f"{data} has no split {' or '.join(_SPLITS[part])}; it has {', '.join(there) or 'none'}")
    numbers = tables.labels(name) if isinstance(tables, Prepared) else {}
    result = []
    for number, row in enumerate(tables.rows(name, split)):
        values, by_language = [], False
        for column in columns:
            field = next((field for field in column.split("|") if field in row), None)
            if field is None:
                raise ValueError(f"{data} has no column {column.replace('|', ' or ')}; it has {', '.join(row)}")
            value = row[field]
            by_language = by_language or isinstance(value, Mapping)
            if labels := _LABELS.get(field):
                order = numbers.get(field, labels)
                given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
                value = [order[x] if isinstance(x, int) and 0 <= x < len(order) else x for x in given]
                if wrong := [x for x, label in zip(given, value, strict=True) if label not in labels]:
                    raise ValueError(
                        f"{data}: row {number} has the label {wrong[0]!r}; it must be one of {', '.join(labels)}, or "
                        "their number"
                    )
            values.append(value)
        if name != config and not by_language:
            raise unknown
        result.append(values)
    if not result:
        raise ValueError(f"{data} has no rows in the split {part}")
    return result


def _of_words(values: Sequence[Any], data: Data, row: int, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Returns the values of each word, after checking that each has them all, and that there are words."""
    counts = list(map(len, values))
    if len(set(counts)) > 1 or 0 in counts:
        found = ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))
        raise ValueError(f"{data}: row {row} has {found}; each word needs one of each")
    if wrong := [word for word in values[0] if not isinstance(word, str)]:
        raise ValueError(f"{data}: row {row} has the word {wrong[0]!r}, which is not text")
    return list(zip(*values, strict=True))


def _text(value: Any, data: Data, row: int) -> str:
    """Returns a text, in the language of the configuration if the row has it in several."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{data}: row {row} has {value!r:.80}, which is not text")
    if "translation" in value:  # of TranslationVariableLanguages
        value = dict(zip(value["language"], value["translation"], strict=True))
    config = _parts(data)[1]
    if config not in value:
        raise ValueError(f"{data} has no language {config!r}; it has {', '.join(value)}")
    return _text(value[config], data, row)
