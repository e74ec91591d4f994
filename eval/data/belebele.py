"""Belebele: passages of FLORES-200, and questions on them, in 122 languages, six of them also romanised.

The files are from github.com/facebookresearch/belebele (CC BY-SA 4.0): ``acm_Arab.jsonl`` and so on in one folder,
each with 900 questions on 488 passages, in the fields ``link``, ``question_number``, ``flores_passage`` and
``question``. ``hub:mteb/belebele`` and ``hub:facebook/belebele`` have the same fields, in a configuration for each
language or in one whose splits are the languages. As in MTEB, a passage is known by its link; the choices of answers
are not read.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lsar_jax.corpora.by_language import add_once, chosen, named_files
from lsar_jax.corpora.row_files import file_rows
from lsar_jax.corpora.tables import Data, named_tables, numbered_rows, text_in
from lsar_jax.languages import code_or_none

__all__ = ["Belebele", "read_belebele"]

_SOURCE = "unpack Belebele.zip of github.com/facebookresearch/belebele there, or set --data hub:mteb/belebele"
_FIELDS = ("link", "question_number", "flores_passage", "question")


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
    questions: dict[str, list[str]] = {}
    passages: dict[str, list[str]] = {}
    keys: list[tuple[str, str]] = []
    links: list[str] = []
    for code, rows in _rows(data, languages):
        texts, asked = dict[str, str](), dict[tuple[str, str], str]()
        for where, row in rows:
            link, order, passage, question = (text_in(row, field, where).strip() for field in _FIELDS)
            texts.setdefault(link, passage)
            asked.setdefault((link, order), question)
        keys, links = keys or sorted(asked), links or sorted(texts)
        if differing := sorted(set(keys) ^ asked.keys()):
            raise ValueError(f"{code} and {next(iter(questions))} of {data} differ in questions: {differing[0]}")
        questions[code], passages[code] = [asked[key] for key in keys], [texts[link] for link in links]
    places = {link: place for place, link in enumerate(links)}
    return Belebele(questions, passages, [places[link] for link, _ in keys])


def _rows(data: Data, languages: Sequence[str]) -> Iterator[tuple[str, Iterable[tuple[str, dict[str, Any]]]]]:
    """Yields each language, and its rows with their places."""
    wanted = languages or None
    if (tables := named_tables(data)) is None:
        for code, path in named_files(data, [r"(.*)\.jsonl"], wanted, "{}.jsonl", _SOURCE).items():
            yield code, file_rows(path, _FIELDS)
        return
    # A configuration for each language, or one whose splits are the languages.
    found: dict[str, tuple[str, str]] = {}
    for config in tables.configs:
        splits = [(config, "")] if code_or_none(config) else [(name, name) for name in tables.splits(config)]
        for name, split in splits:
            if language := code_or_none(name):
                add_once(found, language, (config, split))
    for code, place in chosen(found, wanted, tables.name, "rows in {}").items():
        yield code, numbered_rows(tables, *place)
