"""Belebele: passages of FLORES-200, and questions on them, in 122 languages, six of them also romanised.

The files are those of github.com/facebookresearch/belebele (CC BY-SA 4.0): ``acm_Arab.jsonl`` and so on in one folder,
each with 900 questions on 488 passages, in the fields ``link``, ``question_number``, ``flores_passage`` and
``question``. ``hub:mteb/belebele`` and ``hub:facebook/belebele`` have the same fields, in a configuration for each
language or in one whose splits are the languages. As in MTEB, a passage is known by its link; the choices of answers
are not read.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lsar_jax.corpora.row_files import json_rows
from lsar_jax.corpora.tables import Data, named_tables, one_split
from lsar_jax.corpora.by_language import language_files
from lsar_jax.files import check_file
from lsar_jax.languages import code_or_none, language_code, own_name

__all__ = ["Belebele", "read_belebele"]

_FIELDS = ("link", "question_number", "flores_passage", "question")

# The rows of each language as a dataset names it, and where they are.
_Rows = dict[str, tuple[str, Callable[[], Iterator[dict[str, Any]]]]]


class Belebele(NamedTuple):
    """Parallel questions and passages.

    Attributes:
      questions: language -> its questions; question i is the same in all.
      passages: language -> its passages; passage i is the same in all.
      answers: index of the passage that each question is about.
    """

    questions: dict[str, list[str]]
    passages: dict[str, list[str]]
    answers: list[int]


def read_belebele(data: Data, languages: Sequence[str] = ()) -> Belebele:
    """Reads the questions and passages of each language, by default of all, in the order of their links.

    Raises:
      FileNotFoundError: the folder or a file does not exist.
      ValueError: a language is unknown, a row lacks a field, or two languages do not have the same questions.
    """
    sources, name = _sources(data, languages)
    questions: dict[str, list[str]] = {}
    passages: dict[str, list[str]] = {}
    keys: list[tuple[str, str]] = []
    links: list[str] = []
    for language in list(languages) or sources:
        where, read = sources[own_name(language, sources, name)]
        code, texts, asked = language_code(language), dict[str, str](), dict[tuple[str, str], str]()
        for number, row in enumerate(read(), 1):
            for field in _FIELDS:
                if not str(row.get(field) or "").strip():
                    raise ValueError(f"{where}, row {number} has no {field}; it has {', '.join(row)}")
            link, order, passage, question = (str(row[field]).strip() for field in _FIELDS)
            texts.setdefault(link, passage)
            if asked.setdefault((link, order), question) != question:
                raise ValueError(f"{where}, row {number} has another question {order} of {link}")
        if code in questions:
            raise ValueError(f"{name} has {code} twice; name each language once")
        keys, links = keys or sorted(asked), links or sorted(texts)
        if differing := sorted(set(keys) ^ asked.keys()):
            first = next(iter(questions), code)
            raise ValueError(f"{where} and {first} differ in {len(differing)} questions, such as {differing[0]}")
        questions[code], passages[code] = [asked[key] for key in keys], [texts[link] for link in links]
    places = {link: place for place, link in enumerate(links)}
    return Belebele(questions, passages, [places[link] for link, _ in keys])


def _sources(data: Data, languages: Sequence[str]) -> tuple[_Rows, str]:
    if (tables := named_tables(data)) is not None:
        found: _Rows = {}
        for config in tables.configs:
            if code_or_none(config):
                split = one_split(tables, config, "")
                found[config] = f"{tables.name}, {config}", partial(tables.rows, config, split)
                continue
            for split in filter(code_or_none, tables.splits(config)):
                found[split] = f"{tables.name}, {split}", partial(tables.rows, config, split)
        if not found:
            raise ValueError(f"{tables.name} names no language; it has {', '.join(tables.configs) or 'nothing'}")
        return found, tables.name
    if not Path(data).is_dir():
        raise FileNotFoundError(
            f"there is no folder {data}; unpack Belebele.zip of github.com/facebookresearch/belebele there, or set "
            "--data, for example to hub:mteb/belebele"
        )
    paths = language_files(data, ".jsonl", languages or None)
    return {code: (str(path), partial(_of_file, path)) for code, path in paths.items()}, str(data)


def _of_file(path: Path) -> Iterator[dict[str, Any]]:
    check_file(path)
    with path.open("rb") as file:
        for _, row in json_rows(file, _FIELDS, str(path)):
            yield row
