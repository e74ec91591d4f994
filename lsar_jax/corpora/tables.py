"""Data by name in place of a folder: prepared TensorFlow datasets, and datasets of the Hugging Face Hub.

``tfds:tatoeba/tatoeba_{}`` is a prepared dataset of each language, with the language in place of ``{}``;
``tfds:xquad_r`` a dataset that ``lsar_jax.corpora.builders.prepare`` wrote; ``hub:mteb/tatoeba-bitext-mining`` a
dataset of the Hub, with ``@`` and a revision if need be, or ``hub:`` and a folder that is laid out as on the Hub.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lsar_jax.corpora.hub_datasets import HubFiles, hub_files
from lsar_jax.corpora.tfds import DATA_DIR, find, prepared_languages, rows, splits
from lsar_jax.languages import code_or_none, language_code, own_name

__all__ = [
    "Data",
    "Tables",
    "check_split",
    "folder_of",
    "named_pairs",
    "named_tables",
    "one_split",
    "pin",
    "plain_folder",
]

# A folder, tfds:NAME or hub:ID.
Data = str | Path

# Columns of two sentences; but for the last the order is that of the configuration's name, xx-en where it has none.
_COLUMNS = (
    ("sentence1", "sentence2"), ("source_sentence", "target_sentence"), ("source", "target"), ("english", "non_english")
)  # fmt: skip


@runtime_checkable
class Tables(Protocol):
    """Rows by configuration and split."""

    @property
    def name(self) -> str:
        """Of the dataset, for errors."""

    @property
    def configs(self) -> Sequence[str]:
        """The configurations, named by languages."""

    def splits(self, config: str) -> Sequence[str]:
        """The splits of a configuration."""

    def rows(self, config: str, split: str) -> Iterator[dict[str, Any]]:
        """Yields the rows of a split in their order."""


@dataclass(frozen=True)
class _Prepared:
    name: str
    folders: dict[str, str]

    @property
    def configs(self) -> Sequence[str]:
        return list(self.folders)

    def splits(self, config: str) -> Sequence[str]:
        return splits(find(self.folders[config]))

    def rows(self, config: str, split: str) -> Iterator[dict[str, Any]]:
        return rows(find(self.folders[config]), split)


def named_tables(data: Data) -> Tables | None:
    """Returns the tables of ``tfds:NAME{}`` or ``hub:ID``; None of anything else.

    Of prepared datasets a configuration is the code of its language, or with another language in the name,
    as in ``tfds:parallel/en-{}``, both.

    Raises:
      FileNotFoundError: there is no such dataset, or the Hub cannot be reached.
    """
    kind, place = _parts(data)
    if kind == "tfds" and "{}" in place:
        last = place.rpartition("/")[2]
        before, after = last.split("{}")
        beside = before[:-1] if before.endswith("-") else after[1:] if after.startswith("-") else ""
        named = {
            last.replace("{}", code) if code_or_none(beside) else code: path
            for code, path in prepared_languages(place).items()
        }
        return _Prepared(place, named)
    return _hub(place) if kind == "hub" else None


def plain_folder(data: Data) -> Path:
    """Returns the folder of files.

    Raises:
      ValueError: it is ``tfds:NAME`` without the place of the language.
    """
    if _parts(data)[0] == "tfds":
        raise ValueError(f"{data} has no {{}} where the language stands")
    return Path(data)


def folder_of(data: Data, not_on_hub: str) -> Path:
    """Returns the folder of files, or of what ``lsar_jax.corpora.builders.prepare`` wrote.

    Args:
      data: a folder or ``tfds:NAME``, below ``TFDS_DATA_DIR`` or ``~/tensorflow_datasets``.
      not_on_hub: why the Hub has no such data, for the error.

    Raises:
      FileNotFoundError: there is no such prepared dataset.
      ValueError: it is of the Hub.
    """
    kind, place = _parts(data)
    if kind == "hub":
        raise ValueError(f"--data {data}: {not_on_hub}")
    if kind != "tfds":
        return Path(data)
    places = [Path(place), Path(os.environ.get("TFDS_DATA_DIR") or DATA_DIR).expanduser() / place]
    found = next((folder for folder in places if folder.is_dir()), None)
    if found is None:
        where = " nor at ".join(map(str, dict.fromkeys(places)))
        raise FileNotFoundError(
            f"there is no prepared dataset at {where}; lsar_jax.corpora.builders.prepare writes one"
        )
    return found


def pin(data: Data) -> Data:
    """Returns ``hub:ID`` with the commit that is read now, and other data as they are.

    Raises:
      FileNotFoundError: the Hub has no such dataset, or cannot be reached.
      ValueError: no revision is given, and none is pinned.
    """
    kind, place = _parts(data)
    name = place.partition("@")[0]
    if kind != "hub" or Path(name).is_dir():
        return data
    return f"hub:{name}@{_hub(place).commit}"


def check_split(data: Data, split: str) -> None:
    """Raises ValueError where a split is asked for of data that has none."""
    if split and not _parts(data)[0]:
        raise ValueError(f"--split {split} is of data with a name, hub:ID or tfds:NAME; {data} is a folder")


def one_split(tables: Tables, config: str, split: str) -> str:
    """Returns the split that is asked for, by default the only one or ``test``.

    Raises:
      ValueError: there are several, of which none is ``test``.
    """
    there = tables.splits(config)
    if split or len(there) == 1 or "test" in there:
        return split or (there[0] if len(there) == 1 else "test")
    raise ValueError(f"{config} of {tables.name} has the splits {', '.join(there) or 'none'}; say --split")


def named_pairs(tables: Tables, languages: Sequence[str], split: str = "") -> dict[str, tuple[list[str], list[str]]]:
    """Returns the English side and the other side of each language, line breaks at their ends left out.

    Args:
      tables: configurations named by a language, or by two, one of them English, such as ``deu-eng``.
      languages: codes; by default all that there are.
      split: by default the only one or ``test``.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: no language, none of one or several, an unknown split, or no columns of two sentences.
    """
    there: dict[str, tuple[str, bool]] = {}
    twice = []
    for config in tables.configs:
        for own, english_first in _other(config):
            if there.setdefault(own, (config, english_first))[0] != config:
                twice.append((own, config))
    wanted = [own_name(code, there, tables.name) for code in languages] or list(there)
    if not wanted:
        raise ValueError(f"{tables.name} has no pairs of English; it has {', '.join(tables.configs) or 'nothing'}")
    own_of: dict[str, str] = {}
    for own in wanted:
        if own_of.setdefault(code := language_code(own), own) != own:
            raise ValueError(f"{own_of[code]!r} and {own!r} of {tables.name} are {code!r}; name one of them")
    for own, config in twice:
        if own in own_of.values():
            raise ValueError(f"{there[own][0]} and {config} of {tables.name} are the same languages")
    result: dict[str, tuple[list[str], list[str]]] = {}
    for code, own in own_of.items():
        config, english_first = there[own]
        chosen = one_split(tables, config, split)
        where = f"{chosen} of {config} of {tables.name}"
        every = [
            _sentences(row, code, english_first, f"{where}, row {number}")
            for number, row in enumerate(tables.rows(config, chosen), 1)
        ]
        if not every:
            raise ValueError(f"{where} has no rows")
        result[code] = ([english for english, _ in every], [other for _, other in every])
    return result


def _hub(place: str) -> HubFiles:
    name, _, revision = place.partition("@")
    try:
        return hub_files(name, revision or None)
    except ValueError as error:
        raise ValueError(f"{error}; on the command line, write hub:{name}@REVISION") from error


def _parts(data: Data) -> tuple[str, str]:
    kind, _, place = str(data).partition(":")
    return (kind, place) if place else ("", str(data))


def _other(config: str) -> list[tuple[str, bool]]:
    """The language beside English of a configuration, and whether English comes first; [] where there is none."""
    parts = config.split("-") if "-" in config else [config, "en"]
    codes = [code_or_none(part) for part in parts]
    if len(codes) != 2 or None in codes or codes.count("en") != 1:
        return []
    english_first = codes[0] == "en"
    return [(parts[1] if english_first else parts[0], english_first)]


def _sentences(row: dict[str, Any], code: str, english_first: bool, where: str) -> tuple[str, str]:
    """The English sentence of a row and the other."""
    inside = row.get("translation", row)
    row = inside if isinstance(inside, dict) else row
    texts = {column: code_or_none(column) for column, value in row.items() if _is_text(value)}
    by_language = [[column for column, own in texts.items() if own == wanted] for wanted in ("en", code)]
    if all(len(columns) == 1 for columns in by_language):
        columns = [columns[0] for columns in by_language]
    else:
        columns = list(next((pair for pair in _COLUMNS if set(pair) <= set(row)), ()))
        if not columns:
            known = "; ".join(", ".join(pair) for pair in _COLUMNS)
            raise ValueError(f"{where} has the columns {', '.join(row)}; two sentences are in {known}; en, {code}")
        if columns[0] != "english" and not english_first:
            columns.reverse()
    for column in columns:
        if not _is_text(row[column]):
            raise ValueError(f"{where}: {column} is {row[column]!r}, which is no sentence")
    english, other = ((row[column] or "").rstrip("\r\n") for column in columns)
    return english, other


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)
