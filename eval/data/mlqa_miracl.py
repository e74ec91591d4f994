"""Questions, passages and which of them are relevant, in the forms of BEIR, of MTEB on the Hub, and of MIRACL.

- MTEB's, on the Hub (``hub:mteb/MLQARetrieval``, ``hub:mteb/MIRACLRetrievalHardNegatives``): for each name a
  configuration ``NAME-corpus`` (id, title, text), ``NAME-queries`` (id, text) and ``NAME-qrels`` (query-id, corpus-id,
  score). A NAME is a language, or two, of which the first is that of the passages.
- BEIR's: for each name a folder with ``corpus.jsonl`` and ``queries.jsonl``, perhaps compressed (``.gz``), whose ids
  are in ``_id``, and ``qrels/SPLIT.tsv`` with a line of column names.
- MIRACL's own: ``miracl-v1.0-xx/topics`` and ``qrels``, and ``miracl-corpus-v1.0-xx/docs-*.jsonl.gz``, side by side.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.corpora.builders.base import fields_of
from lsar_jax.corpora.row_files import json_rows, tsv_rows
from lsar_jax.corpora.tables import Data, Tables, named_tables, one_split
from lsar_jax.corpora.text_files import unpacked
from lsar_jax.files import check_file
from lsar_jax.languages import code_or_none, language_code

__all__ = ["Judged", "read_judged"]

_log = logging.getLogger("lsar_jax")

_Row = dict[str, Any]
# The rows of the passages, of the questions and of the judgements.
_Parts = tuple[Iterable[_Row], Iterable[_Row], Iterable[_Row]]


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
      FileNotFoundError: the folder or a file does not exist.
      ValueError: a language is unknown, a row lacks a field, or a judgement is of no question.
    """
    tables = named_tables(data)
    sources = _files(Path(data), split) if tables is None else _named(tables, split)
    pairs: dict[tuple[str, str], str] = {}
    for name in sources:
        codes = [code_or_none(part) for part in name.split("-")]
        if None not in codes and len(codes) in (1, 2):
            pairs[str(codes[-1]), str(codes[0])] = name
    wanted = {language_code(code) for code in languages}
    if unknown := wanted - {code for pair in pairs for code in pair}:
        known = ", ".join(sorted({code for pair in pairs for code in pair}))
        raise ValueError(f"--languages has {', '.join(sorted(unknown))}, but {data} has {known or 'none'}")
    chosen = {pair: name for pair, name in sorted(pairs.items()) if not wanted or wanted >= set(pair)}
    if not chosen:
        raise FileNotFoundError(
            f"{data} has no questions and passages named after languages; it has {', '.join(sources) or 'none'}. Give "
            "a folder with a folder of corpus.jsonl, queries.jsonl and qrels for each language or pair, or hub:ID"
        )
    return {pair: _judged(*sources[name](), f"{split} of {name} of {data}") for pair, name in chosen.items()}


def _judged(corpus: Iterable[_Row], queries: Iterable[_Row], qrels: Iterable[_Row], where: str) -> Judged:
    grades: dict[str, dict[str, float]] = {}
    for row in qrels:
        if (score := float(row["score"])) > 0:
            grades.setdefault(str(row["query-id"]), {})[str(row["corpus-id"])] = score
    asked = {name: text for name, text in _texts(queries, f"queries, {where}").items() if name in grades}
    if unknown := [name for name in grades if name not in asked]:
        raise ValueError(f"{where}: {len(unknown)} judged questions are not among the queries, such as {unknown[0]!r}")
    if not asked:
        raise ValueError(f"{where} has no question with a relevant passage")
    passages = _texts(corpus, f"corpus, {where}")
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


def _texts(rows: Iterable[_Row], where: str) -> dict[str, str]:
    """Returns texts by id, with the title before the text as in MTEB."""
    texts: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        name = row.get("_id", row.get("id", row.get("docid")))
        text = f"{row.get('title') or ''} {row.get('text') or ''}".strip()
        if name is None or not text:
            raise ValueError(f"{where}, row {number} has no id or no text; it has {', '.join(row)}")
        if texts.setdefault(str(name), text) != text:
            raise ValueError(f"{where}, row {number} has another text of the id {name!r}")
    return texts


def _named(tables: Tables, split: str) -> dict[str, Callable[[], _Parts]]:
    def rows(config: str) -> Iterator[_Row]:
        return tables.rows(config, split if split in tables.splits(config) else one_split(tables, config, ""))

    def parts(name: str) -> _Parts:
        return rows(f"{name}-corpus"), rows(f"{name}-queries"), rows(f"{name}-qrels")

    names = [config.removesuffix("-corpus") for config in tables.configs if config.endswith("-corpus")]
    return {name: partial(parts, name) for name in names}


def _files(folder: Path, split: str) -> dict[str, Callable[[], _Parts]]:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; set --data, for example to hub:mteb/MLQARetrieval")

    def beir(name: str) -> _Parts:
        inside = folder / name
        corpus, queries = (sorted(inside.glob(f"{part}.jsonl*"))[:1] for part in ("corpus", "queries"))
        if not queries:
            raise FileNotFoundError(f"{inside} has no queries.jsonl")
        return _rows(corpus), _rows(queries), _rows([inside / "qrels" / f"{split}.tsv"], tsv_rows)

    def miracl(name: str) -> _Parts:
        corpus = sorted((folder / f"miracl-corpus-v1.0-{name}").glob("docs-*.jsonl*"))
        topics, qrels = (
            folder / f"miracl-v1.0-{name}" / part / f"{part}.miracl-v1.0-{name}-{split}.tsv"
            for part in ("topics", "qrels")
        )
        if not corpus:
            raise FileNotFoundError(f"{folder} has no miracl-corpus-v1.0-{name} with docs-0.jsonl.gz")
        return (
            _rows(corpus),
            ({"id": name, "text": text} for _, (name, text) in fields_of(topics, 2)),
            ({"query-id": q, "corpus-id": c, "score": score} for _, (q, _, c, score) in fields_of(qrels, 4)),
        )

    found: dict[str, Callable[[], _Parts]] = {}
    for path in sorted(folder.glob("*/corpus.jsonl*")):
        found[path.parent.name] = partial(beir, path.parent.name)
    names = [path.parent.name.removeprefix("miracl-v1.0-") for path in sorted(folder.glob("miracl-v1.0-*/topics"))]
    return found | {name: partial(miracl, name) for name in names}


def _rows(paths: Sequence[Path], read: Callable[..., Any] = json_rows) -> Iterator[_Row]:
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        check_file(path)
        with path.open("rb") as file:
            for _, row in read(unpacked(file, path), None, str(path)):
                yield row
