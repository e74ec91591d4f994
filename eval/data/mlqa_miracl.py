"""Questions, passages and which of them are relevant, in the forms of BEIR, of MTEB on the Hub, and of MIRACL.

- MTEB's, on the Hub (``hub:mteb/MLQARetrieval``, ``hub:mteb/MIRACLRetrievalHardNegatives``): for each name a
  configuration ``NAME-corpus`` (id, title, text), ``NAME-queries`` (id, text) and ``NAME-qrels`` (query-id, corpus-id,
  score). A NAME is the language of the passages, perhaps followed by the language of the questions.
- BEIR's: for each name a folder with ``corpus.jsonl`` and ``queries.jsonl``, perhaps compressed (``.gz``), whose ids
  are in ``_id``, and ``qrels/SPLIT.tsv`` with a line of column names.
- MIRACL's own: ``miracl-v1.0-xx/topics`` and ``qrels``, and ``miracl-corpus-v1.0-xx/docs-*.jsonl.gz``, side by side.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.corpora.by_language import folder_at
from lsar_jax.corpora.row_files import file_rows
from lsar_jax.corpora.tables import Data, Tables, named_tables, numbered_rows, text_in
from lsar_jax.corpora.text_files import fields_of
from lsar_jax.languages import code_or_none, language_code

__all__ = ["Judged", "read_judged"]

_log = logging.getLogger("lsar_jax")

# Rows with their places, for errors.
_Rows = Iterable[tuple[str, dict[str, Any]]]
# The rows of the passages, of the questions and of the judgements.
_Parts = tuple[_Rows, _Rows, _Rows]
_JUDGEMENT = ("query-id", "corpus-id", "score")


class Judged(NamedTuple):
    """The questions with a relevant passage, and all passages.

    Attributes:
      ids: ids of the questions.
      questions, passages: their texts; a passage begins with its title.
      relevant: indices of the relevant passages of each question; -1 for none. A relevant passage that is not in the
        corpus, which is never found, has the index after the last.
      gains: their grades, 0 for none.
    """

    ids: list[str]
    questions: list[str]
    passages: list[str]
    relevant: Int[np.ndarray, "question relevant"]
    gains: Float[np.ndarray, "question relevant"]


def read_judged(data: Data, split: str, languages: Sequence[str] = ()) -> dict[tuple[str, str], Judged]:
    """Reads a split by the languages of the questions and of the passages, by default of all, in alphabetical order.

    Raises:
      FileNotFoundError: the folder or a file does not exist, or has nothing in a language.
      ValueError: a row lacks a field, or a judgement is of no question.
    """
    tables = named_tables(data)
    sources = _files(Path(data), split) if tables is None else _named(tables, split)
    pairs: dict[tuple[str, str], str] = {}
    for name in sources:
        codes = [code_or_none(part) for part in name.split("-")]
        if None not in codes and len(codes) in (1, 2):
            pairs[str(codes[-1]), str(codes[0])] = name
    wanted = {language_code(code) for code in languages}
    picked = {pair: name for pair, name in sorted(pairs.items()) if not wanted or wanted >= set(pair)}
    missing = wanted - {code for pair in picked for code in pair}
    if missing or not picked:
        lacking, known = ", ".join(sorted(missing)) or "any language", ", ".join(sources) or "none"
        raise FileNotFoundError(f"{data} has no questions and passages in {lacking}; it has {known}")
    return {pair: _judged(*sources[name](), f"{split} of {name} of {data}") for pair, name in picked.items()}


def _judged(corpus: _Rows, queries: _Rows, qrels: _Rows, where: str) -> Judged:
    grades: dict[str, dict[str, float]] = {}
    for place, row in qrels:
        query, passage, score = (text_in(row, column, place) for column in _JUDGEMENT)
        if float(score) > 0:
            grades.setdefault(query, {})[passage] = float(score)
    asked = {name: text for name, text in _texts(queries).items() if name in grades}
    if len(asked) < len(grades) or not asked:
        raise ValueError(f"{where}: {len(asked)} of {len(grades)} judged questions are in the queries")
    passages = _texts(corpus)
    places = {name: place for place, name in enumerate(passages)}
    width = max(len(grades[name]) for name in asked)
    relevant, gains = np.full((len(asked), width), -1), np.zeros((len(asked), width))
    for number, name in enumerate(asked):
        for column, (passage, grade) in enumerate(grades[name].items()):
            relevant[number, column] = places.get(passage, len(passages))
            gains[number, column] = grade
    if absent := int((relevant == len(passages)).sum()):
        _log.warning("%d relevant passages of %s are not in its corpus, and cannot be found", absent, where)
    return Judged([*asked], [*asked.values()], [*passages.values()], relevant, gains)


def _texts(rows: _Rows) -> dict[str, str]:
    """Returns texts by id, with the title before the text as in MTEB."""
    texts: dict[str, str] = {}
    for where, row in rows:
        name = row.get("_id", row.get("id", row.get("docid")))
        text = f"{row.get('title') or ''} {row.get('text') or ''}".strip()
        if name is None or not text or texts.setdefault(str(name), text) != text:
            raise ValueError(f"{where} has no id, no text, or another text of an id: {row!r:.160}")
    return texts


def _named(tables: Tables, split: str) -> Mapping[str, Callable[[], _Parts]]:
    def rows(config: str) -> _Rows:
        return numbered_rows(tables, config, split if split in tables.splits(config) else "")

    def parts(name: str) -> _Parts:
        return rows(f"{name}-corpus"), rows(f"{name}-queries"), rows(f"{name}-qrels")

    names = [config.removesuffix("-corpus") for config in tables.configs if config.endswith("-corpus")]
    return {name: partial(parts, name) for name in names}


def _files(folder: Path, split: str) -> Mapping[str, Callable[[], _Parts]]:
    def rows(folder: Path, pattern: str, first: str) -> _Rows:
        paths = sorted(folder.glob(pattern)) or [folder / first]
        return chain.from_iterable(map(file_rows, paths))

    def beir(name: str) -> _Parts:
        inside = folder / name
        corpus, queries = (rows(inside, f"{part}.jsonl*", f"{part}.jsonl") for part in ("corpus", "queries"))
        return corpus, queries, file_rows(inside / "qrels" / f"{split}.tsv", _JUDGEMENT)

    def miracl(name: str) -> _Parts:
        topics, qrels = (
            folder / f"miracl-v1.0-{name}" / part / f"{part}.miracl-v1.0-{name}-{split}.tsv"
            for part in ("topics", "qrels")
        )
        return (
            rows(folder / f"miracl-corpus-v1.0-{name}", "docs-*.jsonl*", "docs-0.jsonl.gz"),
            fields_of(topics, ("id", "text")),
            fields_of(qrels, ("query-id", "Q0", "corpus-id", "score")),
        )

    folder = folder_at(folder, "set --data, for example to hub:mteb/MLQARetrieval")
    names = [path.parent.name.removeprefix("miracl-v1.0-") for path in sorted(folder.glob("miracl-v1.0-*/topics"))]
    found = {path.parent.name: partial(beir, path.parent.name) for path in sorted(folder.glob("*/corpus.jsonl*"))}
    return found | {name: partial(miracl, name) for name in names}
