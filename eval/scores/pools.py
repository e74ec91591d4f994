"""Search in one pool of all languages: precision and language preference."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.measures.ranking import Bank, precision_of_ranks
from lsar_jax.retrieval import candidate_ranks
from lsar_jax.retrieval.preference import language_preference
from lsar_jax.retrieval.search import Metric as Similarity

__all__ = ["PoolScores", "search_pool"]


class PoolScores(NamedTuple):
    """The ranks and scores of queries in a pool.

    Attributes:
      ranks: rank of the relevant candidate in each language, from 0; -1 for none.
      language: number of each query's language.
      values: each query's ``mAP``, ``preference`` and ``spread``, in percent, as ``lsar_jax.retrieval.preference``
        defines them.
    """

    ranks: Int[np.ndarray, "query language"]
    language: Int[np.ndarray, " query"]
    values: dict[str, Float[np.ndarray, " query"]]


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
    language = np.repeat(np.arange(len(asked)), list(map(len, asked)))
    queries, pool = np.concatenate(asked), np.concatenate(candidates)
    ranks = candidate_ranks(queries, pool, relevant, bank=bank, metric=metric)
    found = language_preference(ranks, language, len(pool))
    values = {"mAP": precision_of_ranks(ranks), "preference": found.preferred, "spread": found.spreads}
    return PoolScores(ranks, language, {name: 100.0 * of for name, of in values.items()})
