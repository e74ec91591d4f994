"""Rows of labelled text in datasets, which are named with a configuration, and the language of a file or of them.

``hub:unimelb-nlp/wikiann#de`` is the configuration ``de`` of a dataset on the Hub, and ``tfds:wikiann#de`` of a
prepared TensorFlow dataset. In ``tfds:xnli/plain_text#de``, whose rows hold all languages, it is the language. Columns
are found by their names. Labels that are numbers are named as a prepared dataset says, and on the Hub in the order of
WikiAnn, Universal Dependencies and XNLI there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsar_jax.corpora.tables import Data, Prepared, named_tables, numbered_rows
from lsar_jax.languages import code_or_none

__all__ = [
    "COLUMN_LABELS", "LABELS", "dataset_parts", "dataset_rows", "dataset_text", "dataset_words", "is_dataset",
    "language_of",
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

_CODE = r"(simple|[a-z]{2,3}(?:-[A-Z][a-z]{3})?)"
# Words in names of files of labelled text that are also the ISO 639-3 code of a language.
_WORDS = ("all", "bio", "dev", "gum", "kdt", "ner", "pos", "pud", "raw", "set", "tag", "txt")


def is_dataset(data: object) -> bool:
    """Returns whether data are named as ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG`` rather than by a path."""
    return str(data).startswith(("hub:", "tfds:"))


def dataset_parts(data: Data) -> tuple[str, str]:
    """Returns the place and the configuration that data are named by."""
    place, _, config = str(data).partition("#")
    if not config:
        raise ValueError(f"{data} names no configuration; write {place}#CONFIG, such as {place}#de")
    return place, config


def language_of(data: Data) -> str:
    """Returns the language that a file, or the configuration of a dataset, is named after; empty if a file is not.

    The code is the first or the last part of a file's name: de in ``de_pud-ud-test.conllu``, ``de.tsv``, ``dev-de.tsv``
    and ``multinli.train.de.tsv``. A code of three letters counts only if there is none of two. Words that files of
    labelled text are called, such as ``dev`` and ``pos``, are not taken for codes.

    Raises:
      ValueError: a file is named after two languages, or a configuration after none.

    Example:
      >>> from train.finetune.conllu_ner_xnli import language_of
      >>> names = "hub:commul/universal_dependencies#de_pud", "de_pud-ud-test.conllu", "dev-de.tsv", "xnli.dev.tsv"
      >>> [language_of(name) for name in names]
      ['de', 'de', 'de', '']
    """
    if is_dataset(data):
        config = dataset_parts(data)[1]
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
