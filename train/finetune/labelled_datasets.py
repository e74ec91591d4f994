"""Rows of labelled text in datasets, which are named with a configuration.

``hub:unimelb-nlp/wikiann#de`` is the configuration ``de`` of a dataset on the Hub, and ``tfds:wikiann#de`` that of a
prepared TensorFlow dataset. In ``tfds:xnli/plain_text#de``, whose rows hold all languages, it is the language. Columns
are found by their names. Labels that are numbers are named as a prepared dataset says, and on the Hub in the order of
WikiAnn, Universal Dependencies and XNLI there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lsar_jax.corpora.tables import Data, Prepared, named_tables, numbered_rows

__all__ = [
    "COLUMN_LABELS", "LABELS", "dataset_parts", "dataset_rows", "dataset_text", "dataset_words", "is_dataset",
]  # fmt: skip

# The labels of a pair of sentences, in the order of their ids.
LABELS = ("entailment", "neutral", "contradiction")

# The names of the splits.
_SPLITS = {"train": ("train",), "dev": ("validation", "dev"), "test": ("test",)}

# The labels of each column that has some, in the order of their numbers on the Hub.
COLUMN_LABELS = {
    **dict.fromkeys(("ner_tags", "tags"), ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")),
    "upos": (
        "NOUN", "PUNCT", "ADP", "NUM", "SYM", "SCONJ", "ADJ", "PART", "DET", "CCONJ", "PROPN", "PRON", "X", "_", "ADV",
        "INTJ", "VERB", "AUX",
    ),
    "label": LABELS,
}  # fmt: skip


def is_dataset(data: object) -> bool:
    """Returns whether data are named as ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG`` rather than by a path."""
    return str(data).startswith(("hub:", "tfds:"))


def dataset_parts(data: Data) -> tuple[str, str]:
    """Returns the place and the configuration that data are named by."""
    place, _, config = str(data).partition("#")
    if not config:
        raise ValueError(f"{data} names no configuration; write {place}#CONFIG, such as {place}#de")
    return place, config


def dataset_rows(data: Data, part: str, *columns: str) -> Iterator[tuple[str, list[Any]]]:
    """Yields the place of each row, and its values in the columns, of labels their names; ``a|b`` is a or b."""
    place, config = dataset_parts(data)
    tables = named_tables(place)
    assert tables is not None
    # The only configuration may have all languages in each row.
    name = config if config in tables.configs else tables.configs[0] if len(tables.configs) == 1 else ""
    unknown = ValueError(f"{place} has no configuration {config!r}; it has {', '.join(tables.configs) or 'none'}")
    if not name:
        raise unknown
    there = tables.splits(name)
    split = next((split for split in _SPLITS[part] if split in there), "")
    if not split:
        raise ValueError(f"{data} has no split {' or '.join(_SPLITS[part])}; it has {', '.join(there) or 'none'}")
    order = COLUMN_LABELS | (tables.labels(name) if isinstance(tables, Prepared) else {})
    for where, row in numbered_rows(tables, name, split):
        fields = [next((field for field in column.split("|") if field in row), column) for column in columns]
        if name != config and not any(isinstance(row.get(field), Mapping) for field in fields):
            raise unknown
        if lacking := [field for field in fields if field not in row]:
            raise ValueError(f"{data} has no column {lacking[0].replace('|', ' or ')}; it has {', '.join(row)}")
        yield where, [_named(row[field], order[field], where) if field in order else row[field] for field in fields]


def _named(value: Any, labels: Sequence[str], where: str) -> list[str]:
    """Returns the names of labels, which may be numbers."""
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    names = [labels[x] if isinstance(x, int) and 0 <= x < len(labels) else x for x in given]
    if wrong := [name for name in names if name not in labels]:
        raise ValueError(f"{where} has the label {wrong[0]!r}; it must be one of {', '.join(labels)}, or their number")
    return names


def dataset_words(values: Sequence[Any], where: str) -> list[tuple[Any, ...]]:
    """Returns the values of each word; raises ValueError unless each word is text and has them all."""
    counts = list(map(len, values))
    if len(set(counts)) > 1 or 0 in counts or not all(isinstance(word, str) for word in values[0]):
        raise ValueError(
            f"{where} has {counts[0]} words and {counts[1:]} labels, or a word that is no text: {values[0]!r:.200}"
        )
    return list(zip(*values, strict=True))


def dataset_text(value: Any, data: Data, where: str) -> str:
    """Returns a text, in the language of the configuration if the row has it in several."""
    config = dataset_parts(data)[1]
    if isinstance(value, Mapping) and "translation" in value:  # of TranslationVariableLanguages
        value = dict(zip(value["language"], value["translation"], strict=True))
    text = value.get(config) if isinstance(value, Mapping) else value
    if not isinstance(text, str):
        raise ValueError(f"{where} has {value!r:.80}, which is not text in {config!r}")
    return text
