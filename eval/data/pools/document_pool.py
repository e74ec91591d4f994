"""Pools of documents in many languages, and questions whose relevant documents are known in each: the pools of SHIFT.

- ``xquad``: the paragraphs of XQuAD-R, and its questions (``eval.data.xquad``).
- ``belebele``: passages and questions (``eval.data.belebele``); Arabic is Mesopotamian, ``acm_Arab``.
- ``mlqa``: passages and questions of the same language (``eval.data.mlqa``), each in some of the languages.
- ``multieup``: MultiEuP-v2 (Yang et al., "Language Bias in Multilingual Information Retrieval", MRL 2024), speeches of
  the European Parliament and the titles of debates: ``hub:unimelb-nlp/MultiEup-v2@main``, or a folder with its CSV
  file. The speeches on the debate of the English title are relevant; rows without one, or without text, are left out.

By default, the languages are SHIFT's (Findings of EMNLP 2026), which has fourteen, as far as the text has them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from eval.data.belebele import read_belebele
from eval.data.mlqa import read_mlqa
from eval.data.xquad import read_xquad
from lsar_jax.corpora.by_language import folder_at
from lsar_jax.corpora.hub_datasets import HubFiles, hub_files
from lsar_jax.corpora.tables import Data, named_tables
from lsar_jax.languages import language_code

__all__ = ["DocumentPool", "PoolName", "pool_of", "read_pool"]

PoolName = Literal["xquad", "belebele", "mlqa", "multieup"]
# SHIFT's languages, which are mMARCO's, and those of them that XQuAD-R has.
_ALL = ("ar", "de", "nl", "en", "es", "fr", "hi", "id", "it", "ja", "pt", "ru", "vi", "zh")
_XQUAD = ("ar", "de", "en", "es", "hi", "ru", "vi", "zh")
_MLQA = ("ar", "de", "en", "es", "hi", "vi", "zh")


class DocumentPool(NamedTuple):
    """Documents, and questions with any number of relevant documents in each language.

    Attributes:
      documents: language -> its documents; the pool has them in this order.
      queries: language -> its questions.
      questions: language -> number of each of its questions, which translations share.
      relevant: places in the pool of the relevant documents of each number; -1 for none.
    """

    documents: dict[str, list[str]]
    queries: dict[str, list[str]]
    questions: dict[str, Int[np.ndarray, " query"]]
    relevant: Int[np.ndarray, "question relevant"]


def pool_of(texts: Iterable[tuple[Literal["q", "d"], str, str, str]]) -> DocumentPool:
    """Returns the pool of texts: question (q) or document (d), language, id of the question, and text.

    A document is known by its text, and may be relevant to several questions, or to none, whose id is empty. Of
    several texts of a question in a language the first counts; questions without a document are left out.

    Raises:
      ValueError: no document is relevant to a question.
    """
    documents: dict[str, dict[str, dict[str, None]]] = {}
    queries: dict[str, dict[str, str]] = {}
    for group, code, name, text in texts:
        if group == "d":
            documents.setdefault(code, {}).setdefault(text, {})[name] = None
        else:
            queries.setdefault(code, {}).setdefault(name, text)
    documents, queries = dict(sorted(documents.items())), dict(sorted(queries.items()))
    places: dict[str, list[int]] = {}
    for place, names in enumerate(names for of in documents.values() for names in of.values()):
        for name in filter(None, names):
            places.setdefault(name, []).append(place)
    if not places:
        raise ValueError(f"there are no documents with questions in {', '.join(queries) or 'any language'}")
    relevant = np.full((len(places), max(map(len, places.values()))), -1)
    for row, found in zip(relevant, places.values(), strict=True):
        row[: len(found)] = found
    number = {name: n for n, name in enumerate(places)}
    asked = {code: {number[name]: text for name, text in of.items() if name in number} for code, of in queries.items()}
    return DocumentPool(
        {code: [*of] for code, of in documents.items()},
        {code: [*of.values()] for code, of in asked.items()},
        {code: np.array([*of]) for code, of in asked.items()},
        relevant,
    )


def read_pool(name: PoolName, data: Data, languages: Sequence[str] = ()) -> DocumentPool:
    """Reads a pool; ``languages`` are by default SHIFT's.

    Raises:
      FileNotFoundError: the data do not exist, or lack a language.
      ValueError: the data are not in their format.
    """
    return pool_of(_READERS[name](data, tuple(map(language_code, languages))))


_Texts = Iterator[tuple[Literal["q", "d"], str, str, str]]


def _xquad(data: Data, languages: Sequence[str]) -> _Texts:
    for code, found in read_xquad(data, languages or _XQUAD).items():
        for name, question, answer in zip(found.ids, found.questions, found.answers, strict=True):
            yield "q", code, name, question
            yield "d", code, name, found.paragraphs[found.places[answer]]


def _belebele(data: Data, languages: Sequence[str]) -> _Texts:
    found = read_belebele(data, languages or ("acm", *_ALL[1:]))
    for code, questions in found.questions.items():
        known = code if languages else {"acm": "ar"}.get(code, code)
        for number, (question, answer) in enumerate(zip(questions, found.answers, strict=True)):
            yield "q", known, str(number), question
            yield "d", known, str(number), found.passages[code][answer]


def _mlqa(data: Data, languages: Sequence[str]) -> _Texts:
    for code, questions, passages in read_mlqa(data, languages or _MLQA):
        yield from (("q", code, name, text) for name, text in questions.items())
        yield from (("d", code, name, text) for text, names in passages.items() for name in names or [""])


def _multieup(data: Data, languages: Sequence[str]) -> _Texts:
    codes = languages or _ALL
    tables = named_tables(data)
    if not isinstance(tables, HubFiles):
        tables = hub_files(folder_at(data, "set --data hub:unimelb-nlp/MultiEup-v2@main"))
    for row in chain.from_iterable(tables.file_rows(name) for name in tables.files if name.endswith(".csv")):
        name, code, text = (str(row.get(column) or "") for column in ("qid_EN", "LANGUAGE", "TEXT"))
        if name and text.strip() and (code := code.lower()) in codes:
            name = name.partition("#")[0]
            yield "d", code, name, text
            titles = {code: str(row.get(f"title_{code.upper()}") or "") for code in codes}
            yield from (("q", code, name, title) for code, title in titles.items() if title.strip())


_READERS = {"xquad": _xquad, "belebele": _belebele, "mlqa": _mlqa, "multieup": _multieup}
