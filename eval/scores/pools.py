"""Search in one pool of all languages: precision, language preference and the share of the query's language."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.measures.ranking import Bank, precision_of_ranks
from lsar_jax.retrieval import candidate_ranks, nearest
from lsar_jax.retrieval.preference import language_preference, top_k_share
from lsar_jax.retrieval.search import Metric as Similarity

__all__ = ["PoolScores", "search_pool"]

_FIRST = 10


class PoolScores(NamedTuple):
    """The ranks and scores of queries in a pool.

    Attributes:
      ranks: rank of the relevant candidate in each language, from 0; -1 for none.
      language: number of each query's language.
      values: each query's ``mAP``, ``preference``, ``spread`` and ``top 10``, in percent, as
        ``lsar_jax.retrieval.preference`` defines them.
      pool_share: the value of ``top 10`` that is expected without preference, in percent.
    """

    ranks: Int[np.ndarray, "query language"]
    language: Int[np.ndarray, " query"]
    values: dict[str, Float[np.ndarray, " query"]]
    pool_share: float


def search_pool(
    asked: Sequence[Float[np.ndarray, "_ dim"]],
    candidates: Sequence[Float[np.ndarray, "_ dim"]],
    relevant: Int[np.ndarray, "query language"],
    *,
    bank: Bank = None,
    metric: Similarity = "cosine",
) -> PoolScores:
    """Searches the candidates of all languages for the relevant candidate in each.

    Args:
      asked: embeddings of the queries in each language.
      candidates: embeddings of the candidates in each language.
      relevant: place of the relevant candidate in each language; -1 for none.
      bank: vectors to scale scores against, by CSLS.
      metric: similarity to rank by without a bank.
    """
    language, of_candidate = (np.repeat(np.arange(len(of)), list(map(len, of))) for of in (asked, candidates))
    queries, pool = np.concatenate(asked), np.concatenate(candidates)
    ranks = candidate_ranks(queries, pool, relevant, bank=bank, metric=metric)
    found, k = language_preference(ranks, language, len(pool)), min(_FIRST, len(pool))
    top = top_k_share(np.asarray(nearest(queries, pool, k, bank=bank, metric=metric)[1]), of_candidate, language)
    values = {"mAP": precision_of_ranks(ranks), "preference": found.preferred, "spread": found.spreads}
    values[f"top {k}"] = top.shares
    share = 100 * float((np.bincount(of_candidate)[language] / len(pool)).mean())
    return PoolScores(ranks, language, {name: 100.0 * of for name, of in values.items()}, share)
