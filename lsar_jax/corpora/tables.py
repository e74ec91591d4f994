"""Datasets given by name instead of by folder: prepared TensorFlow datasets and datasets on the Hugging Face Hub.

- ``tfds:tatoeba/tatoeba_{}`` stands for one prepared dataset per language, with the language in place of ``{}``.
- ``tfds:xquad_r`` is a dataset that ``lsar_jax.corpora.builders.prepare`` wrote.
- ``hub:mteb/tatoeba-bitext-mining`` is a dataset on the Hub, optionally followed by ``@`` and a revision. ``hub:`` also
  accepts a folder that has the layout of the Hub.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsar_jax.corpora.hub_datasets import HubFiles, hub_files
from lsar_jax.corpora.tfds import find, places, prepared_languages, rows, splits
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

# Names of the two columns of a sentence pair. Those in the last entry say which column is English. In the others, the
# columns are in the order of the languages in the configuration's name, which is xx-en if it names only one language.
_COLUMNS = (
    ("sentence1", "sentence2"), ("source_sentence", "target_sentence"), ("source", "target"), ("english", "non_english")
)  # fmt: skip


@dataclass(frozen=True)
class Prepared:
    """Prepared TensorFlow datasets, with the members of ``HubFiles`` that their readers use.

    Attributes:
      name: name of the dataset, used in error messages.
      folders: folder of each configuration, named after its languages.
    """

    name: str
    folders: dict[str, str]

    @property
    def configs(self) -> list[str]:
        """The configurations."""
        return list(self.folders)

    def splits(self, config: str) -> list[str]:
        """The splits of a configuration."""
        return splits(find(self.folders[config]))

    def rows(self, config: str, split: str) -> Iterator[dict[str, Any]]:
        """Yields the rows of a split in order."""
        return rows(find(self.folders[config]), split)


# Rows by configuration and split.
Tables = HubFiles | Prepared


def named_tables(data: Data) -> Tables | None:
    """Returns the tables of ``tfds:NAME{}`` or ``hub:ID``; None for anything else.

    The configurations of prepared datasets are named by language code, or by both codes if the name contains
    another language, as in ``tfds:parallel/en-{}``.

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
        return Prepared(place, named)
    return _hub(place) if kind == "hub" else None


def plain_folder(data: Data) -> Path:
    """Returns ``data`` as the path of a folder of files.

    Raises:
      ValueError: ``data`` is ``tfds:NAME`` without ``{}`` for the language.
    """
    if _parts(data)[0] == "tfds":
        raise ValueError(f"{data} has no {{}} in place of the language")
    return Path(data)


def folder_of(data: Data, not_on_hub: str) -> Path:
    """Returns a folder of files, or a folder that ``lsar_jax.corpora.builders.prepare`` wrote.

    Args:
      data: a folder, or ``tfds:NAME`` for one in ``TFDS_DATA_DIR`` or ``~/tensorflow_datasets``.
      not_on_hub: reason why the data cannot be on the Hub, used in the error message.

    Raises:
      FileNotFoundError: there is no such prepared dataset.
      ValueError: ``data`` is ``hub:ID``.
    """
    kind, place = _parts(data)
    if kind == "hub":
        raise ValueError(f"--data {data}: {not_on_hub}")
    if kind != "tfds":
        return Path(data)
    tried = places(place)
    found = next((folder for folder in tried if folder.is_dir()), None)
    if found is None:
        raise FileNotFoundError(
            f"there is no prepared dataset at {' nor at '.join(map(str, tried))}; write it with "
            "lsar_jax.corpora.builders.prepare"
        )
    return found


def pin(data: Data) -> Data:
    """Returns ``hub:ID`` with the commit that it currently resolves to; other data unchanged.

    Raises:
      FileNotFoundError: the Hub has no such dataset, or cannot be reached.
      ValueError: no revision is given or pinned.
    """
    kind, place = _parts(data)
    name = place.partition("@")[0]
    if kind != "hub" or Path(name).is_dir():
        return data
    return f"hub:{name}@{_hub(place).commit}"


def check_split(data: Data, split: str) -> None:
    """Raises ValueError if a split is given for a folder, which has no splits."""
    if split and not _parts(data)[0]:
        raise ValueError(f"--split {split} applies only to hub:ID and tfds:NAME, but {data} is a folder; omit --split")


def one_split(tables: Tables, config: str, split: str) -> str:
    """Returns ``split``; if it is empty, the only split of the configuration, or else ``test``.

    Raises:
      ValueError: no split is given, and the configuration has several splits without a ``test``.
    """
    there = tables.splits(config)
    if split or len(there) == 1 or "test" in there:
        return split or (there[0] if len(there) == 1 else "test")
    raise ValueError(f"{config} of {tables.name} has the splits {', '.join(there) or 'none'}; choose one with --split")


def named_pairs(tables: Tables, languages: Sequence[str], split: str = "") -> dict[str, tuple[list[str], list[str]]]:
    """Returns the English side and the other side of each language, without trailing line breaks.

    Args:
      tables: tables whose configurations are named after one language, or after English and another, such as
        ``deu-eng``.
      languages: codes of the languages to read; by default, all available.
      split: split to read; by default, the only split, or else ``test``.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: there are no pairs with English, a language is unknown or ambiguous, the split is unknown, or
        there are no columns with sentence pairs.
    """
    there: dict[str, tuple[str, bool]] = {}
    twice = {}
    for config in tables.configs:
        # A configuration is named after one language, which is first, or after English and another.
        parts = config.split("-") if "-" in config else [config, "en"]
        codes = [code_or_none(part) for part in parts]
        if len(codes) == 2 and None not in codes and codes.count("en") == 1:
            name = parts[codes[0] == "en"]
            if there.setdefault(name, (config, codes[0] == "en"))[0] != config:
                twice[name] = config
    names = [own_name(code, there, tables.name) for code in languages] or list(there)
    if not names:
        raise ValueError(f"{tables.name} has no pairs with English; it has {', '.join(tables.configs) or 'nothing'}")
    chosen: dict[str, str] = {}
    for name in names:
        if chosen.setdefault(code := language_code(name), name) != name:
            raise ValueError(f"{chosen[code]!r} and {name!r} of {tables.name} are both {code!r}; name one of them")
        if name in twice:
            raise ValueError(f"{there[name][0]} and {twice[name]} of {tables.name} are the same pair of languages")
    result: dict[str, tuple[list[str], list[str]]] = {}
    for code, name in chosen.items():
        config, english_first = there[name]
        part = one_split(tables, config, split)
        where = f"{part} of {config} of {tables.name}"
        pairs = [
            _sentences(row, code, english_first, f"{where}, row {number}")
            for number, row in enumerate(tables.rows(config, part), 1)
        ]
        if not pairs:
            raise ValueError(f"{where} has no rows")
        result[code] = ([english for english, _ in pairs], [other for _, other in pairs])
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


def _sentences(row: dict[str, Any], code: str, english_first: bool, where: str) -> tuple[str, str]:
    """Returns the English sentence of a row and its translation."""
    inside = row.get("translation", row)
    row = inside if isinstance(inside, dict) else row
    texts = {column: code_or_none(column) for column, value in row.items() if _is_text(value)}
    by_language = [[column for column, name in texts.items() if name == wanted] for wanted in ("en", code)]
    if all(len(columns) == 1 for columns in by_language):
        columns = [columns[0] for columns in by_language]
    else:
        columns = list(next((pair for pair in _COLUMNS if set(pair) <= set(row)), ()))
        if not columns:
            known = "; ".join(", ".join(pair) for pair in _COLUMNS)
            raise ValueError(f"{where} has the columns {', '.join(row)}; expected a pair: {known}; en, {code}")
        if columns[0] != "english" and not english_first:
            columns.reverse()
    for column in columns:
        if not _is_text(row[column]):
            raise ValueError(f"{where}: {column} is {row[column]!r}, which is not a sentence")
    english, other = ((row[column] or "").rstrip("\r\n") for column in columns)
    return english, other


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)
