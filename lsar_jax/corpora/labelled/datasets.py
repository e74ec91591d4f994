"""Labelled text of prepared TensorFlow datasets and of the Hugging Face Hub.

``hub:unimelb-nlp/wikiann#de`` is the configuration ``de`` of a dataset on the Hub, and ``tfds:wikiann/{}#de`` a
prepared TensorFlow dataset. Columns are found by their names, and labels that are numbers are named in the order of
these datasets.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lsar_jax.corpora.labelled.conllu import ParsedSentence
from lsar_jax.corpora.labelled.inference import LABELS, SentencePair
from lsar_jax.corpora.labelled.tagged import TaggedSentence
from lsar_jax.corpora.tables import named_tables
from lsar_jax.languages import code_or_none

__all__ = ["dataset_language", "inference_rows", "is_dataset", "parsed_rows", "tagged_rows"]

# The order of the labels' numbers: in WikiAnn, and in the Hub's Universal Dependencies.
_ENTITIES = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
_UPOS = (
    "NOUN", "PUNCT", "ADP", "NUM", "SYM", "SCONJ", "ADJ", "PART", "DET", "CCONJ", "PROPN", "PRON", "X", "_", "ADV",
    "INTJ", "VERB", "AUX",
)  # fmt: skip
# What a split may be called.
_SPLITS = {"train": ("train",), "dev": ("validation", "dev"), "test": ("test", "validation")}


def is_dataset(data: object) -> bool:
    """Returns whether data are named as ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG`` rather than by a path."""
    return str(data).startswith(("hub:", "tfds:"))


def dataset_language(data: str) -> str:
    """Returns the language that a configuration is named after: de for ``de`` and for ``de_pud``.

    Raises:
      ValueError: it is not named after a language.
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
      FileNotFoundError: there is no such dataset.
      ValueError: the configuration, the split or a column does not exist, or a label is unknown.
    """
    result = []
    for row in _rows(data, part):
        tags = _named(_column(row, data, "ner_tags", "tags"), _ENTITIES, data)
        result.append(TaggedSentence(tuple(_column(row, data, "tokens")), tags))
    return result


def parsed_rows(data: str, part: str) -> list[ParsedSentence]:
    """Returns the parsed sentences of a dataset, as ``read_conllu`` does those of a file.

    Words without a number as their head, which stand for several words or for none, are left out.

    Args:
      data: ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.
      part: train, dev or test.

    Raises:
      FileNotFoundError: there is no such dataset.
      ValueError: as for ``tagged_rows``.
    """
    result = []
    for row in _rows(data, part):
        words, heads = _column(row, data, "tokens"), [str(head) for head in _column(row, data, "head")]
        tags, relations = _named(_column(row, data, "upos"), _UPOS, data), _column(row, data, "deprel")
        kept = [word for word, head in enumerate(heads) if head.isdecimal()]
        result.append(
            ParsedSentence(
                tuple(words[word] for word in kept),
                tuple(tags[word] for word in kept),
                tuple(int(heads[word]) for word in kept),
                tuple(str(relations[word]).partition(":")[0] for word in kept),
            )
        )
    return result


def inference_rows(data: str, part: str) -> list[SentencePair]:
    """Returns the labelled pairs of a dataset, as ``read_inference`` does those of a file.

    Args:
      data: ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.
      part: train, dev or test.

    Raises:
      FileNotFoundError: there is no such dataset.
      ValueError: as for ``tagged_rows``.
    """
    return [
        SentencePair(
            _column(row, data, "premise"), _column(row, data, "hypothesis"), _named([row.get("label")], LABELS, data)[0]
        )
        for row in _rows(data, part)
    ]


def _parts(data: str) -> tuple[str, str]:
    place, mark, config = data.partition("#")
    if not mark or not config:
        raise ValueError(f"{data} names no configuration; write {place}#CONFIG, such as {place}#de")
    return place, config


def _rows(data: str, part: str) -> Iterator[Mapping[str, Any]]:
    place, config = _parts(data)
    tables = named_tables(place)
    if tables is None:
        raise ValueError(f"{data} is not hub:ID#CONFIG or tfds:NAME/{{}}#CONFIG")
    if config not in tables.configs:
        raise ValueError(f"{place} has no configuration {config!r}; it has {', '.join(tables.configs) or 'none'}")
    there = tables.splits(config)
    split = next((name for name in _SPLITS[part] if name in there), None)
    if split is None:
        raise ValueError(f"{data} has no split {' or '.join(_SPLITS[part])}; it has {', '.join(there) or 'none'}")
    return iter(tables.rows(config, split))


def _column(row: Mapping[str, Any], data: str, *names: str) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise ValueError(f"{data} has no column {' or '.join(names)}; it has {', '.join(row)}")


def _named(labels: Sequence[Any], names: Sequence[str], data: str) -> tuple[str, ...]:
    result = []
    for label in labels:
        known = label in names if isinstance(label, str) else isinstance(label, int) and 0 <= label < len(names)
        if not known:
            raise ValueError(f"{data} has the label {label!r}; it must be one of {', '.join(names)}, or their number")
        result.append(label if isinstance(label, str) else names[label])
    return tuple(result)
