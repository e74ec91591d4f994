"""SHIFT's pools: one pool of the documents of all languages, and questions in English, in another language, or in all.

    python -m eval pool --move documents --transforms original shift --parallel data/sentences
    python -m eval pool --text mlqa --data hub:mteb/MLQARetrieval
    python -m eval pool --text belebele --data hub:mteb/belebele
    python -m eval pool --text multieup --data hub:unimelb-nlp/MultiEup-v2@main

"SHIFT", Findings of EMNLP 2026 (arXiv 2606.18801): a question's documents in all languages are relevant. Scores are of
the first 20 results: nDCG, recall, and TLR, MRC and PEER (``lsar_jax.retrieval.language_fairness``), for questions in
each language (*from en*) and as means over them. PEER says nothing where a question has one document a language, as on
XQuAD-R and Belebele. With ``--move documents``, methods transform the documents alone, as SHIFT does for questions in
English; without it, all vectors. ``eval.data.pools.document_pool`` has the texts.
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from eval.command import command
from eval.data.keyed_texts import fill
from eval.data.pools.document_pool import DocumentPool, PoolName, read_pool
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.arrays import unit_rows
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.query_scores import difference_of
from lsar_jax.measures.ranking import ndcg, recall
from lsar_jax.retrieval import local_scale, nearest
from lsar_jax.retrieval.preference import mrc, peer, tlr

__all__ = ["COMMAND", "pool"]

_FIRST = 20
# Metrics of the table: for questions in English, or over all languages.
_SHOWN = ("nDCG@20 from en", "TLR@20 from en", "nDCG@20", "TLR@20", "MRC@20")
# Questions whose scores are in memory together.
_TOGETHER = 256


def pool(
    text: PoolName = "xquad",
    data: Data = Path("data/xquad-r"),
    languages: tuple[str, ...] = (),
    question_text: str = "{question}",
    passage_text: str = "{passage}",
) -> Task:
    """Questions search one pool of documents in all languages: nDCG, recall, and whether languages are treated alike.

    Args:
      text: xquad, belebele, mlqa or multieup.
      data: where this text is: a folder, or hub:ID.
      languages: language codes; by default, the languages of SHIFT that the text has.
      question_text: what is encoded for a question, with {question} for it.
      passage_text: what is encoded for a document, with {passage} for it.
    """
    found = read_pool(text, data, languages)
    texts = {("q", c): fill(question_text, "question", of) for c, of in found.queries.items()}
    texts |= {("d", c): fill(passage_text, "passage", of) for c, of in found.documents.items()}

    return Task(
        name=f"pool {text}", title=f"Documents of {text} in {len(found.documents)} languages", parts=[texts],
        languages=list(dict.fromkeys([*found.documents, *found.queries, "en"])), queries="q", searches=True, least=2,
        scores=partial(_scores, found),
    )  # fmt: skip


def _scores(pool: DocumentPool, x: Embedded, method: Method, _: Setting) -> Iterator[Score]:
    """Yields the scores of the questions in each language, and their means over languages."""
    codes = list(pool.documents)
    of_document = np.repeat(np.arange(len(codes)), [len(pool.documents[code]) for code in codes])
    documents = np.asarray(unit_rows(jnp.concatenate([x["d", code] for code in codes])))
    asked = {code: np.asarray(unit_rows(jnp.asarray(x["q", code]))) for code in pool.queries}
    if method.bank is not None:
        asked = {code: np.pad(of, ((0, 0), (0, 1)), constant_values=1) for code, of in asked.items()}
        documents = np.column_stack([documents, -np.asarray(local_scale(documents, method.bank)) / 2])
    every: dict[str, list[QueryScores]] = {}
    for code, queries in asked.items():
        question, k = pool.questions[code], min(_FIRST, len(documents))
        relevant = pool.relevant[question]
        top = np.asarray(nearest(queries, documents, k, metric="dot")[1])
        own = np.full(len(top), codes.index(code) if code in codes else len(codes))
        values = {
            "nDCG": ndcg(top, relevant, (relevant >= 0).astype(float)),
            "recall": recall(top, relevant),
            "TLR": tlr(top, relevant, of_document, own),
            "PEER": peer(top, relevant, of_document),
        }
        for name, of_query in values.items():
            found = QueryScores(100 * of_query, clusters=question)
            every.setdefault(f"{name}@{_FIRST}", []).append(found)
            name = f"{name}@{_FIRST} from {code}"
            yield Score.of(Metric(name, shown=name in _SHOWN), [code], found)
    every[f"MRC@{_FIRST}"] = list(_agreement(asked, documents, pool))
    for name, parts in every.items():
        if parts:
            metric = Metric(name, shown=name in _SHOWN).over(len(asked))
            yield Score.of(metric, list(asked), difference_of(parts))


def _agreement(asked: dict[str, np.ndarray], documents: np.ndarray, pool: DocumentPool) -> Iterator[QueryScores]:
    """Yields MRC of the questions that each pair of languages shares."""
    for pair in combinations(asked, 2):
        first, second = (pool.questions[code] for code in pair)
        shared, *rows = np.intersect1d(first, second, return_indices=True)
        values = [
            mrc(
                np.stack([asked[code][of[part]] @ documents.T for code, of in zip(pair, rows, strict=True)]),
                min(_FIRST, len(documents)),
            )
            for part in np.split(np.arange(len(shared)), range(_TOGETHER, len(shared), _TOGETHER))
            if len(part)
        ]
        if values:
            yield QueryScores(100 * np.concatenate(values), clusters=shared)


COMMAND = command(pool, max_length=512, rare=("question_text", "passage_text"))
