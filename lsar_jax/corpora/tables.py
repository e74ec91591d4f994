"""Datasets given by name instead of by folder: prepared TensorFlow datasets and datasets on the Hugging Face Hub.

- ``tfds:tatoeba/tatoeba_{}`` stands for one prepared dataset per language, with the language in place of ``{}``.
- ``tfds:parallel`` is one whose configurations are languages or pairs, as ``lsar_jax.corpora.builders.prepare`` writes.
- ``hub:mteb/tatoeba-bitext-mining`` is a dataset on the Hub, optionally followed by ``@`` and a revision. ``hub:`` also
  accepts a folder that has the layout of the Hub.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lsar_jax.corpora.by_language import chosen
from lsar_jax.corpora.hub_datasets import HubFiles, hub_files
from lsar_jax.corpora.pair_tables import COLUMNS, named_pair
from lsar_jax.corpora.tfds import find, import_tfds, places, prepared_languages, rows, splits
from lsar_jax.languages import code_or_none

__all__ = [
    "Data",
    "Prepared",
    "Tables",
    "folder_of",
    "named_pairs",
    "named_tables",
    "numbered_rows",
    "one_split",
    "pin",
    "text_in",
]

# A folder, tfds:NAME or hub:ID.
Data = str | Path


@dataclass(frozen=True)
class Prepared:
    """Prepared TensorFlow datasets: the folder of each configuration, and the members of ``HubFiles`` that are used."""

    name: str
    folders: dict[str, Path]

    @property
    def configs(self) -> list[str]:
        """The configurations."""
        return list(self.folders)

    def splits(self, config: str) -> list[str]:
        """The splits of a configuration."""
        return splits(self.folders[config])

    def rows(self, config: str, split: str) -> Iterator[dict[str, Any]]:
        """Yields the rows of a split in order."""
        return rows(self.folders[config], split)

    def labels(self, config: str) -> dict[str, tuple[str, ...]]:
        """The names of the labels of each field of labels, or of lists of them, in the order of their numbers."""
        tfds = import_tfds()
        features = tfds.builder_from_directory(str(find(self.folders[config]))).info.features
        kinds = {name: getattr(feature, "feature", feature) for name, feature in features.items()}
        return {name: tuple(kind.names) for name, kind in kinds.items() if isinstance(kind, tfds.features.ClassLabel)}


# Rows by configuration and split.
Tables = HubFiles | Prepared


def named_tables(data: Data) -> Tables | None:
    """Returns the tables of ``tfds:NAME`` or ``hub:ID``; None for a folder.

    In place of ``{}``, configurations are named by language code. A dataset without configurations is its own.
    """
    kind, place = _parts(data)
    if kind == "hub":
        return hub_files(*place.split("@", 1))
    if kind != "tfds":
        return None
    if "{}" not in place:
        folder = folder_of(data, "")
        found = sorted({path.parents[1] for path in folder.glob("*/*/dataset_info.json")}) or [folder]
        return Prepared(place, {config.name: config for config in found})
    return Prepared(place, prepared_languages(place))


def folder_of(data: Data, not_on_hub: str) -> Path:
    """Returns a folder of files, or a folder that ``lsar_jax.corpora.builders.prepare`` wrote.

    Args:
      data: a folder, or ``tfds:NAME`` for one in ``TFDS_DATA_DIR`` or ``~/tensorflow_datasets``.
      not_on_hub: reason why the data cannot be on the Hub, for the error.
    """
    kind, place = _parts(data)
    if kind == "hub":
        raise ValueError(f"--data {data}: {not_on_hub}")
    if kind != "tfds":
        return Path(data)
    return next((folder for folder in places(place) if folder.is_dir()), None) or find(place)


def pin(data: Data) -> Data:
    """Returns ``hub:ID``, or ``hub:ID#CONFIG``, with the commit that it currently resolves to; other data unchanged."""
    kind, place = _parts(data)
    place, mark, config = place.partition("#")
    name = place.partition("@")[0]
    if kind != "hub" or Path(name).is_dir():
        return data
    return f"hub:{name}@{hub_files(*place.split('@', 1)).commit}{mark}{config}"


def one_split(tables: Tables, config: str, split: str = "") -> str:
    """Returns ``split``; if it is empty, the only split of the configuration, or else ``test``, which must be there."""
    there = tables.splits(config)
    if split or len(there) == 1 or "test" in there:
        return split or (there[0] if len(there) == 1 else "test")
    raise ValueError(f"{config} of {tables.name} has the splits {', '.join(there) or 'none'}; choose one with --split")


def numbered_rows(tables: Tables, config: str, split: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place of each row of a split (by default ``one_split``), for errors, and the row.

    Raises:
      ValueError: the split is unknown, or has no rows.
    """
    split, number = one_split(tables, config, split), 0
    where = f"{split} of {config} of {tables.name}"
    for number, row in enumerate(tables.rows(config, split), start=1):
        yield f"{where}, row {number}", row
    if not number:
        raise ValueError(f"{where} has no rows")


def text_in(row: Mapping[str, Any], column: str, where: str) -> str:
    """Returns the text or number in a column of a row; raises ValueError if there is none, or a blank one."""
    value = row.get(column)
    if not isinstance(value, str | int | float) or value != value or not str(value).strip():  # NaN, or blank
        raise ValueError(f"{where} has no text in the column {column}; it has {row!r:.160}")
    return str(value)


def named_pairs(tables: Tables, languages: Sequence[str], split: str = "") -> dict[str, Iterator[tuple[str, str]]]:
    """Returns the pairs of an English sentence and its translation of each language, without trailing line breaks.

    Args:
      tables: tables whose configurations are named after one language, or after English and another, such as
        ``deu-eng``; others are ignored.
      languages: codes of the languages to read; by default, all available.
      split: split to read; by default, the only split, or else ``test``.

    Raises:
      FileNotFoundError: a file is missing, or a language has no pairs with English.
      ValueError: two configurations are the same pair of languages; or, when pairs are read, the split is unknown, or
        there are no columns with sentence pairs.
    """
    # The configurations of each language, and whether English is first.
    there: dict[str, dict[str, bool]] = {}
    for config in tables.configs:
        codes = [code_or_none(part) for part in (config.split("-") if "-" in config else (config, "en"))]
        if len(codes) == 2 and None not in codes and codes.count("en") == 1:
            there.setdefault(str(codes[codes[0] == "en"]), {})[config] = codes[0] == "en"
    result: dict[str, Iterator[tuple[str, str]]] = {}
    for code, configs in chosen(there, languages or None, tables.name, "pairs of English and {}").items():
        if len(configs) > 1:
            raise ValueError(f"{' and '.join(configs)} of {tables.name} are the same pair of languages; omit one")
        [(config, english_first)] = configs.items()
        result[code] = map(partial(_sentences, code, english_first), numbered_rows(tables, config, split))
    return result


def _parts(data: Data) -> tuple[str, str]:
    kind, _, place = str(data).partition(":")
    return (kind, place) if place else ("", str(data))


def _sentences(code: str, english_first: bool, numbered: tuple[str, dict[str, Any]]) -> tuple[str, str]:
    """Returns the English sentence of a row and its translation."""
    where, row = numbered
    inside = row.get("translation")
    row = inside if isinstance(inside, dict) else row
    # An id may be a number in a column that is named like Indonesian.
    texts = [column for column, value in row.items() if isinstance(value, str | None)]
    languages = ("en", code) if english_first else (code, "en")
    if (pair := named_pair(tuple(texts), languages)) is None:
        known = "; ".join(map(", ".join, (*COLUMNS, languages)))
        raise ValueError(f"{where} has text in {', '.join(texts) or 'no column'}; expected a pair of columns: {known}")
    source, target = ((row[texts[column]] or "").rstrip("\r\n") for column in pair)
    return (source, target) if english_first else (target, source)
