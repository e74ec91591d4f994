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
from pathlib import Path
from typing import Any, NamedTuple

from lsar_jax.corpora.tables import named_tables
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.corpora.tfds import find, label_names, rows, splits
from lsar_jax.languages import code_or_none

__all__ = [
    "LABELS",
    "ParsedSentence",
    "SentencePair",
    "TaggedSentence",
    "dataset_language",
    "inference_rows",
    "is_dataset",
    "language_of_file",
    "parsed_rows",
    "read_conllu",
    "read_inference",
    "read_tagged",
    "tagged_rows",
]

# The labels of a pair of sentences, in the order of their ids.
LABELS = ("entailment", "neutral", "contradiction")

# The columns of XNLI's tables and of its training tables, which name one label otherwise.
_TABLES = (("sentence1", "sentence2", "gold_label"), ("premise", "hypo", "label"))
_NAMES = {"contradictory": "contradiction"} | {label: label for label in LABELS}

_PREFIX = re.compile(r"[a-z]{2,3}(-[a-z-]+)?:(?=.)")
_TAG = re.compile(r"O|[BI]-.+")

_CODE = r"([a-z]{2,3}(?:-[A-Z][a-z]{3})?)"
# What files of labelled text are called that is also the ISO 639-3 code of a language.
_WORDS = ("all", "bio", "dev", "gum", "kdt", "ner", "pos", "pud", "raw", "set", "tag", "txt")

# What a split may be called.
_SPLITS = {"train": ("train",), "dev": ("validation", "dev"), "test": ("test",)}


class _Column(NamedTuple):
    """A column of a dataset: what it may be called, and its labels in the order of their numbers on the Hub."""

    names: tuple[str, ...]
    labels: tuple[str, ...] = ()


_TOKENS, _HEAD, _RELATION = _Column(("tokens",)), _Column(("head",)), _Column(("deprel",))
_ENTITIES = _Column(("ner_tags", "tags"), ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"))
_UPOS = _Column(("upos",), (
    "NOUN", "PUNCT", "ADP", "NUM", "SYM", "SCONJ", "ADJ", "PART", "DET", "CCONJ", "PROPN", "PRON", "X", "_", "ADV",
    "INTJ", "VERB", "AUX",
))  # fmt: skip


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
    """A sentence with a tag for each word.

    Attributes:
      words: the words.
      tags: ``O``, or ``B-`` or ``I-`` and the type of a named entity.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]


class SentencePair(NamedTuple):
    """A premise, a hypothesis, and one of ``LABELS``.

    Attributes:
      premise: the first sentence.
      hypothesis: the second sentence.
      label: entailment, neutral or contradiction.
    """

    premise: str
    hypothesis: str
    label: str


def read_conllu(path: str | Path) -> list[ParsedSentence]:
    r"""Returns the sentences of a file.

    Args:
      path: a file in CoNLL-U; its columns ID, FORM, UPOS, HEAD and DEPREL are read.

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
    sentences = []
    for block in _blocks(path):
        words: list[list[str]] = []
        for number, line in block:
            columns = line.split("\t")
            if line.startswith("#"):
                continue
            if len(columns) != 10:
                raise ValueError(f"{path}, line {number} has {len(columns)} columns, not the 10 of CoNLL-U")
            if "-" in columns[0] or "." in columns[0]:
                continue
            if columns[0] != str(len(words) + 1):
                raise ValueError(f"{path}, line {number} has the ID {columns[0]!r}, expected {len(words) + 1}")
            if not columns[6].isdecimal():
                raise ValueError(f"{path}, line {number} has the HEAD {columns[6]!r}, which is not a number")
            words.append(columns)
        if words:
            forms, tags, heads, relations = zip(*((w[1], w[3], w[6], w[7]) for w in words), strict=True)
            sentences.append(
                _parsed(forms, tags, heads, relations, f"{path}: in the sentence that ends at line {number}")
            )
    return _some(sentences, f"{path} has no sentences")


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
    sentences = []
    for block in _blocks(path):
        for number, line in block:
            word, tab, tag = line.rpartition("\t")
            if not tab or not word or "\t" in word or not _TAG.fullmatch(tag):
                raise ValueError(f"{path}, line {number} is not a word, a tab and a tag such as O or B-PER: {line!r}")
        words, _, tags = zip(*(line.rpartition("\t") for _, line in block), strict=True)
        sentences.append(TaggedSentence(words, tags))
    prefixes = {match[0] if (match := _PREFIX.match(word)) else "" for one in sentences for word in one.words}
    if len(prefixes) == 1 and "" not in prefixes:
        length = len(prefixes.pop())
        sentences = [one._replace(words=tuple(word[length:] for word in one.words)) for one in sentences]
    return _some(sentences, f"{path} has no sentences")


def read_inference(path: str | Path) -> dict[str, list[SentencePair]]:
    r"""Returns the pairs of each language.

    Args:
      path: a table with a header. A table without a column ``language`` is in the language that the file is named
        after (``language_of_file``), as ``multinli.train.en.tsv`` is.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a column is missing, a line has too few or too many columns, a language or a label is unknown, or
        the file is not named after its language; the error names the file and the line.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> table = "premise\thypo\tlabel\nA dog barks.\tIt is quiet.\tcontradictory\n"
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder, "multinli.train.en.tsv")
      ...     _ = path.write_text(table, encoding="utf-8")
      ...     labelled.read_inference(path)
      {'en': [SentencePair(premise='A dog barks.', hypothesis='It is quiet.', label='contradiction')]}
    """
    lines = stream_lines(path)
    header = next(lines).split("\t")
    names = next((names for names in _TABLES if set(names) <= set(header)), None)
    if names is None:
        known = " or ".join(", ".join(names) for names in _TABLES)
        raise ValueError(f"{path} has no columns {known}; it has {', '.join(header)}")
    named = None if "language" in header else language_of_file(path)
    if "language" not in header and named is None:
        raise ValueError(
            f"{path} has no column language, and is not named after its language, as in multinli.train.de.tsv; "
            "rename it"
        )
    pairs: dict[str, list[SentencePair]] = {}
    for number, line in enumerate(lines, start=2):
        columns = line.split("\t")
        if len(columns) != len(header):
            raise ValueError(f"{path}, line {number} has {len(columns)} columns, but the header has {len(header)}")
        row = dict(zip(header, columns, strict=True))
        premise, hypothesis, label = (row[name] for name in names)
        if label not in _NAMES:
            raise ValueError(f"{path}, line {number} has the label {label!r}; it must be one of {', '.join(_NAMES)}")
        language = named or code_or_none(row["language"])
        if language is None:
            raise ValueError(
                f"{path}, line {number} has the language {row['language']!r}, which is not a language code"
            )
        pairs.setdefault(language, []).append(SentencePair(premise, hypothesis, _NAMES[label]))
    if not pairs:
        raise ValueError(f"{path} has no pairs")
    return pairs


def language_of_file(path: str | Path) -> str | None:
    """Returns the language that a file is named after, or None.

    The code is the first or the last part of the name: de in ``de_pud-ud-test.conllu``, ``de.tsv``, ``dev-de.tsv`` and
    ``multinli.train.de.tsv``. A code of three letters counts only if there is none of two. Words that files of labelled
    text are called, such as ``dev`` and ``pos``, are not taken for codes.

    Args:
      path: a path; only its name counts.

    Raises:
      ValueError: the file is named after two languages.

    Example:
      >>> from lsar_jax.corpora import labelled
      >>> [labelled.language_of_file(name) for name in ("de_pud-ud-test.conllu", "dev-de.tsv", "xnli.dev.tsv")]
      ['de', 'de', None]
    """
    stem = Path(path).stem
    found = re.findall(rf"^{_CODE}(?=[-_.]|$)", stem) + re.findall(rf"(?:^|[-_.]){_CODE}$", stem)
    codes = [code for code in found if code not in _WORDS and code_or_none(code) is not None]
    short = [code for code in codes if len(code.partition("-")[0]) == 2] or codes
    languages = list(dict.fromkeys(code_or_none(code) for code in short))
    if len(languages) > 1:
        raise ValueError(f"{path} is named after the languages {' and '.join(short)}; rename it")
    return languages[0] if languages else None


def is_dataset(data: object) -> bool:
    """Returns whether data are named as ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG`` rather than by a path.

    Example:
      >>> from lsar_jax.corpora import labelled
      >>> labelled.is_dataset("hub:unimelb-nlp/wikiann#de"), labelled.is_dataset("data/de.tsv")
      (True, False)
    """
    return str(data).startswith(("hub:", "tfds:"))


def dataset_language(data: str) -> str:
    """Returns the language that a configuration is named after: de for ``de`` and for ``de_pud``.

    Args:
      data: ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.

    Raises:
      ValueError: it is not named after a language, or ``data`` names no configuration.

    Example:
      >>> from lsar_jax.corpora import labelled
      >>> labelled.dataset_language("hub:commul/universal_dependencies#de_pud")
      'de'
    """
    config = _parts(data)[1]
    code = code_or_none(config) or code_or_none(config.partition("_")[0])
    if code is None:
        raise ValueError(f"the configuration {config!r} of {data} is not named after a language")
    return code


def tagged_rows(data: str, part: str) -> list[TaggedSentence]:
    """Returns the tagged sentences of a dataset, as ``read_tagged`` does those of a file.

    Args:
      data: ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.
      part: train, dev or test.

    Raises:
      FileNotFoundError: there is no such dataset, or the Hub does not answer.
      ImportError: tensorflow-datasets, or pyarrow for parquet, is not installed.
      ValueError: the configuration, the split or a column does not exist, the split is empty, columns of a sentence
        differ in length, or a label is unknown.

    Example:
      >>> import json
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> row = {"tokens": ["Bern", "liegt"], "ner_tags": [5, 0]}
      >>> with tempfile.TemporaryDirectory() as folder:  # in place of the id of a dataset on the Hub
      ...     Path(folder, "de").mkdir()
      ...     _ = Path(folder, "de", "validation.jsonl").write_text(json.dumps(row))
      ...     labelled.tagged_rows(f"hub:{folder}#de", "dev")
      [TaggedSentence(words=('Bern', 'liegt'), tags=('B-LOC', 'O'))]
    """
    columns = (_TOKENS, _ENTITIES)
    return [TaggedSentence(*map(tuple, _of_words(row, columns, data, n))) for n, row in _values(data, part, columns)]


def parsed_rows(data: str, part: str) -> list[ParsedSentence]:
    """Returns the parsed sentences of a dataset, as ``read_conllu`` does those of a file.

    Words without a number as their head, which stand for several words or for none, are left out.

    Args:
      data: ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.
      part: train, dev or test.

    Raises:
      FileNotFoundError: as for ``tagged_rows``.
      ImportError: as for ``tagged_rows``.
      ValueError: as for ``tagged_rows``, or a head does not exist.

    Example:
      >>> import json
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> row = {"tokens": ["Hunde", "bellen"], "upos": [0, 16], "head": ["2", "0"], "deprel": ["nsubj", "root"]}
      >>> with tempfile.TemporaryDirectory() as folder:  # in place of the id of a dataset on the Hub
      ...     Path(folder, "de").mkdir()
      ...     _ = Path(folder, "de", "test.jsonl").write_text(json.dumps(row))
      ...     labelled.parsed_rows(f"hub:{folder}#de", "test")
      [ParsedSentence(words=('Hunde', 'bellen'), tags=('NOUN', 'VERB'), heads=(2, 0), relations=('nsubj', 'root'))]
    """
    columns = (_TOKENS, _HEAD, _UPOS, _RELATION)
    sentences = []
    for number, row in _values(data, part, columns):
        words = [word for word in zip(*_of_words(row, columns, data, number), strict=True) if str(word[1]).isdecimal()]
        forms, heads, tags, relations = zip(*words, strict=True) if words else ((), (), (), ())
        sentences.append(_parsed(forms, tags, heads, map(str, relations), f"{data}: in row {number}"))
    return sentences


def inference_rows(data: str, part: str) -> list[SentencePair]:
    """Returns the labelled pairs of a dataset, as ``read_inference`` does those of a file.

    Args:
      data: ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.
      part: train, dev or test.

    Raises:
      FileNotFoundError: as for ``tagged_rows``.
      ImportError: as for ``tagged_rows``.
      ValueError: as for ``tagged_rows``.

    Example:
      >>> import json
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> row = {"premise": "A dog barks.", "hypothesis": "It is quiet.", "label": 2}
      >>> with tempfile.TemporaryDirectory() as folder:  # in place of the id of a dataset on the Hub
      ...     Path(folder, "en").mkdir()
      ...     _ = Path(folder, "en", "train.jsonl").write_text(json.dumps(row))
      ...     labelled.inference_rows(f"hub:{folder}#en", "train")
      [SentencePair(premise='A dog barks.', hypothesis='It is quiet.', label='contradiction')]
    """
    columns = (_Column(("premise",)), _Column(("hypothesis",)), _Column(("label",), LABELS))
    return [
        SentencePair(_text(premise, data), _text(hypothesis, data), label)
        for _, (premise, hypothesis, (label,)) in _values(data, part, columns)
    ]


def _blocks(path: str | Path) -> Iterator[list[tuple[int, str]]]:
    """Yields the lines between empty lines, with their numbers."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(stream_lines(path), start=1):
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _parsed(words: Any, tags: Any, heads: Any, relations: Any, place: str) -> ParsedSentence:
    """Returns a sentence, after checking that the head of each word is 0 or another word."""
    numbers = tuple(map(int, heads))
    for word, head in enumerate(numbers, start=1):
        if head > len(numbers) or head == word:
            raise ValueError(
                f"{place}, word {word} has the HEAD {head}, but a head is 0 or another word, from 1 to {len(numbers)}"
            )
    return ParsedSentence(tuple(words), tuple(tags), numbers, tuple(name.partition(":")[0] for name in relations))


def _some(items: list[Any], message: str) -> list[Any]:
    if not items:
        raise ValueError(message)
    return items


def _parts(data: str) -> tuple[str, str]:
    place, mark, config = data.partition("#")
    if not mark or not config:
        raise ValueError(f"{data} names no configuration; write {place}#CONFIG, such as {place}#de")
    return place, config


def _values(data: str, part: str, columns: Sequence[_Column]) -> list[tuple[int, list[Any]]]:
    """Returns the number of each row, and the values of its columns, of labels their names in a list."""
    found, numbers = _open(data, part)
    result = []
    for number, row in enumerate(found):
        values = []
        for column in columns:
            name = next((name for name in column.names if name in row), None)
            if name is None:
                raise ValueError(f"{data} has no column {' or '.join(column.names)}; it has {', '.join(row)}")
            value = row[name]
            if column.labels:
                order = numbers.get(name, column.labels)
                given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
                value = [order[x] if isinstance(x, int) and 0 <= x < len(order) else x for x in given]
                for label, named in zip(given, value, strict=True):
                    if named not in column.labels:
                        raise ValueError(
                            f"{data} has the label {label!r}; it must be one of {', '.join(column.labels)}, or their "
                            "number"
                        )
            values.append(value)
        result.append((number, values))
    return _some(result, f"{data} has no rows in the split {part}")


def _of_words(values: Sequence[Any], columns: Sequence[_Column], data: str, row: int) -> Sequence[Any]:
    """Returns the values after checking that they have one entry for each word, and at least one."""
    counts = [len(value) for value in values]
    if len(set(counts)) > 1 or 0 in counts:
        listed = ", ".join(f"{count} {column.names[-1]}" for count, column in zip(counts, columns, strict=True))
        raise ValueError(f"{data}: row {row} has {listed}; each word needs one of each")
    return values


def _text(value: Any, data: str) -> str:
    """Returns a text, in the language of the configuration if the row has it in several."""
    if not isinstance(value, Mapping):
        return str(value)
    if "translation" in value:  # of TranslationVariableLanguages
        value = dict(zip(value["language"], value["translation"], strict=True))
    config = _parts(data)[1]
    if config not in value:
        raise ValueError(f"{data} has no language {config!r}; it has {', '.join(value)}")
    return str(value[config])


def _open(data: str, part: str) -> tuple[Iterator[Mapping[str, Any]], Mapping[str, Sequence[str]]]:
    """Opens the first split that ``part`` may be called; returns its rows, and the names of labels if it has them."""
    place, config = _parts(data)

    def split_of(there: Sequence[str]) -> str:
        split = next((name for name in _SPLITS[part] if name in there), None)
        if split is None:
            raise ValueError(f"{data} has no split {' or '.join(_SPLITS[part])}; it has {', '.join(there) or 'none'}")
        return split

    if place.startswith("tfds:"):
        name = place.removeprefix("tfds:")
        try:
            folder = find(f"{name}/{config}")
        except FileNotFoundError:
            folder = find(name)
            first: Mapping[str, Any] = next(rows(folder, split_of(splits(folder))), {})
            if not any(isinstance(value, Mapping) for value in first.values()):
                raise
        return rows(folder, split_of(splits(folder))), label_names(folder)
    tables = named_tables(place)
    if tables is None:
        raise ValueError(f"{data} is not hub:ID#CONFIG or tfds:NAME#CONFIG")
    if config not in tables.configs:
        raise ValueError(f"{place} has no configuration {config!r}; it has {', '.join(tables.configs) or 'none'}")
    return tables.rows(config, split_of(tables.splits(config))), {}
