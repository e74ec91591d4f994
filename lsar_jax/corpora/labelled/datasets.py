"""Labelled text of prepared TensorFlow datasets and of the Hugging Face Hub.

``hub:unimelb-nlp/wikiann#de`` is the configuration ``de`` of a dataset on the Hub, and ``tfds:wikiann#de`` that of a
prepared TensorFlow dataset. In ``tfds:xnli/plain_text#de``, whose rows hold all languages, it is the language. Columns
are found by their names. Labels that are numbers are named as a prepared dataset says, and on the Hub in the order of
WikiAnn, Universal Dependencies and XNLI there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from lsar_jax.corpora.labelled.conllu import ParsedSentence, check_heads
from lsar_jax.corpora.labelled.inference import LABELS, SentencePair
from lsar_jax.corpora.labelled.tagged import TaggedSentence
from lsar_jax.corpora.tables import named_tables
from lsar_jax.corpora.tfds import find, label_names, rows, splits
from lsar_jax.languages import code_or_none

__all__ = ["dataset_language", "inference_rows", "is_dataset", "parsed_rows", "tagged_rows"]

_R = TypeVar("_R")

# The order of the labels' numbers on the Hub; TensorFlow Datasets has another one of the parts of speech.
_ENTITIES = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
_UPOS = (
    "NOUN", "PUNCT", "ADP", "NUM", "SYM", "SCONJ", "ADJ", "PART", "DET", "CCONJ", "PROPN", "PRON", "X", "_", "ADV",
    "INTJ", "VERB", "AUX",
)  # fmt: skip
# What a split may be called.
_SPLITS = {"train": ("train",), "dev": ("validation", "dev"), "test": ("test",)}


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
    table = _table(data, part)
    result = []
    for number, row in enumerate(table.rows):
        words, tags = tuple(table.column(row, "tokens")), table.labels(row, _ENTITIES, "ner_tags", "tags")
        _check_lengths(data, number, tokens=words, tags=tags)
        result.append(TaggedSentence(words, tags))
    return _some(result, data, part)


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
    table = _table(data, part)
    result = []
    for number, row in enumerate(table.rows):
        words, heads = table.column(row, "tokens"), [str(head) for head in table.column(row, "head")]
        tags, relations = table.labels(row, _UPOS, "upos"), table.column(row, "deprel")
        _check_lengths(data, number, tokens=words, head=heads, upos=tags, deprel=relations)
        kept = [word for word, head in enumerate(heads) if head.isdecimal()]
        check_heads([int(heads[word]) for word in kept], f"{data}: in row {number}")
        result.append(
            ParsedSentence(
                tuple(words[word] for word in kept),
                tuple(tags[word] for word in kept),
                tuple(int(heads[word]) for word in kept),
                tuple(str(relations[word]).partition(":")[0] for word in kept),
            )
        )
    return _some(result, data, part)


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
    table = _table(data, part)
    pairs = [
        SentencePair(table.text(row, "premise"), table.text(row, "hypothesis"), table.labels(row, LABELS, "label")[0])
        for row in table.rows
    ]
    return _some(pairs, data, part)


def _check_lengths(data: str, row: int, **columns: Sequence[Any]) -> None:
    """Raises ValueError if the columns of a sentence do not have one entry for each word, and at least one."""
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"{data}: row {row} has {told}; each word needs one of each")


def _some(rows: list[_R], data: str, part: str) -> list[_R]:
    if not rows:
        raise ValueError(f"{data} has no rows in the split {part}")
    return rows


def _parts(data: str) -> tuple[str, str]:
    place, mark, config = data.partition("#")
    if not mark or not config:
        raise ValueError(f"{data} names no configuration; write {place}#CONFIG, such as {place}#de")
    return place, config


class _Table(NamedTuple):
    """Rows of a dataset.

    Attributes:
      data: the dataset, quoted in errors.
      config: the configuration, which is a language if the rows hold several.
      rows: the rows.
      names: names of the labels of a column, by number, where the dataset has them.
    """

    data: str
    config: str
    rows: Iterator[Mapping[str, Any]]
    names: Mapping[str, Sequence[str]]

    def column(self, row: Mapping[str, Any], *names: str) -> Any:
        """Returns the value of the first of these columns that exists."""
        return row[self._name(row, *names)]

    def text(self, row: Mapping[str, Any], name: str) -> str:
        """Returns a text, in the language of the configuration if the row has it in several."""
        value = self.column(row, name)
        if not isinstance(value, Mapping):
            return str(value)
        if "translation" in value:  # of TranslationVariableLanguages
            value = dict(zip(value["language"], value["translation"], strict=True))
        if self.config not in value:
            raise ValueError(f"{self.data} has no language {self.config!r}; it has {', '.join(value)}")
        return str(value[self.config])

    def labels(self, row: Mapping[str, Any], usual: Sequence[str], *names: str) -> tuple[str, ...]:
        """Returns the names of the labels of a column; ``usual`` are the known ones, in their order on the Hub."""
        column = self._name(row, *names)
        order = self.names.get(column, usual)
        found = row[column] if isinstance(row[column], Sequence) and not isinstance(row[column], str) else [row[column]]
        result = [order[label] if isinstance(label, int) and 0 <= label < len(order) else label for label in found]
        for label, name in zip(found, result, strict=True):
            if name not in usual:
                raise ValueError(
                    f"{self.data} has the label {label!r}; it must be one of {', '.join(usual)}, or their number"
                )
        return tuple(result)

    def _name(self, row: Mapping[str, Any], *names: str) -> str:
        for name in names:
            if name in row:
                return name
        raise ValueError(f"{self.data} has no column {' or '.join(names)}; it has {', '.join(row)}")


def _table(data: str, part: str) -> _Table:
    """Opens the first split that ``part`` may be called."""
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
            one: Mapping[str, Any] = next(rows(folder, split_of(splits(folder))), {})
            if not any(isinstance(value, Mapping) for value in one.values()):
                raise
        return _Table(data, config, rows(folder, split_of(splits(folder))), label_names(folder))
    tables = named_tables(place)
    if tables is None:
        raise ValueError(f"{data} is not hub:ID#CONFIG or tfds:NAME#CONFIG")
    if config not in tables.configs:
        raise ValueError(f"{place} has no configuration {config!r}; it has {', '.join(tables.configs) or 'none'}")
    return _Table(data, config, tables.rows(config, split_of(tables.splits(config))), {})
