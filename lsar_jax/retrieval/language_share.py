"""The share of the first results, or of a text's neighbours, that are in its language."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.checks import whole_number, whole_numbers
from lsar_jax.shapes import AnyArray

__all__ = ["TopShare", "fair_share", "mean_defined", "top_k_share"]


class TopShare(NamedTuple):
    """The share of the first k results in the query's language, and the pool's share, expected without preference.

    Both are from 0 to 1, on average and for each query, ``[query]``.
    """

    share: float
    pool_share: float
    shares: Float[np.ndarray, " query"]
    pool_shares: Float[np.ndarray, " query"]


def top_k_share(
    top_ids: Int[AnyArray, "query k"],
    candidate_language: Int[AnyArray, " candidate"],
    query_language: Int[AnyArray, " query"],
) -> TopShare:
    """Returns the share of the first k results, and of the pool, in the query's language.

    Args:
      top_ids: the first k candidates of each query, ``[query, k]``, as ``retrieval.nearest`` finds them.
      candidate_language: language of each candidate, ``[candidate]``, from 0.
      query_language: language of each query, ``[query]``, in the same numbering; the pool need not contain it.

    Raises:
      ValueError: a number is out of range, or lengths differ.
    """
    pool = len(candidate_language)
    ids = whole_numbers("top_ids", top_ids, (None, None), 0, pool - 1)
    of_candidate = whole_numbers("candidate_language", candidate_language, pool, 0)
    of_query = whole_numbers("query_language", query_language, len(ids), 0)
    shares = (of_candidate[ids] == of_query[:, None]).mean(axis=1)
    pool_shares = np.bincount(of_candidate, minlength=of_query.max() + 1)[of_query] / pool
    return TopShare(mean_defined(shares), mean_defined(pool_shares), shares, pool_shares)


def fair_share(counts: Int[AnyArray, " language"]) -> float:
    """Returns the share of a text's neighbours that are in its language, expected without preference, from 0 to 1.

    It is the mean share of the other texts, and a little below the pool's, which counts the text itself.

    Args:
      counts: number of texts in each language, ``[language]``; at least two in all.

    Raises:
      ValueError: a count is not a whole number from 0, or there are fewer than two texts.

    Example:
      >>> lj.retrieval.preference.fair_share(np.array([1, 3]))
      0.5
    """
    number = whole_numbers("counts", counts, len(counts), 0)
    whole_number("the sum of counts", int(number.sum()), 2, 1 << 62, "a text and another one")
    return float(np.average((number - 1) / (number.sum() - 1), weights=number))


def mean_defined(x: Float[np.ndarray, " query"]) -> float:
    """Returns the mean of the values that are not NaN; NaN if there is none."""
    defined = x[~np.isnan(x)]
    return float(defined.mean()) if len(defined) else float("nan")
