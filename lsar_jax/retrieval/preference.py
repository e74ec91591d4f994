"""Whether retrieval from a pool of many languages prefers the language of the query.

A query has one relevant candidate in each language, a translation or an answer. Without
preference, the best-ranked of them is in the query's own language for one query in L (of L
languages), they rank close together, and the first results have the languages in the proportions
of the pool. The notion is that of Roy et al., "LAReQA: Language-agnostic Answer Retrieval from a
Multilingual Pool", EMNLP 2020; the measures are this library's own. The values of each query are
returned too, so that they can be resampled for confidence intervals.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.checks import whole_number, whole_numbers
from lsar_jax.shapes import AnyArray

__all__ = ["Preference", "TopShare", "fair_share", "language_preference", "top_k_share"]


class Preference(NamedTuple):
    """How retrieval treats languages, on average and for each query; undefined values are NaN.

    Attributes:
      preference: share of queries, from 0 to 1, whose best-ranked relevant candidate is in their language.
      spread: mean difference in rank between the best and the worst relevant candidate, divided by
        the size of the pool, from 0 to 1.
      preferred: ``[query]``, 1 or 0; NaN without a relevant candidate in the query's language
        or without one in another.
      spreads: ``[query]``; NaN with fewer than two relevant candidates.
    """

    preference: float
    spread: float
    preferred: Float[np.ndarray, " query"]
    spreads: Float[np.ndarray, " query"]


class TopShare(NamedTuple):
    """The share of the first k results in the query's language, and that of the pool, expected without preference.

    Both are from 0 to 1, on average and for each query, ``[query]``.
    """

    share: float
    pool_share: float
    shares: Float[np.ndarray, " query"]
    pool_shares: Float[np.ndarray, " query"]


def language_preference(
    ranks: Int[AnyArray, "query language"], query_language: Int[AnyArray, " query"], pool: int
) -> Preference:
    """Returns how often the query's language wins, and how far apart the languages rank.

    Args:
      ranks: rank of the relevant candidate in each language, ``[query, language]``, as ``retrieval.candidate_ranks``
        returns them; 0 is the best, -1 stands for none.
      query_language: column of each query's language, ``[query]``.
      pool: number of candidates that were ranked.

    Raises:
      ValueError: a number is out of range, lengths differ, or no query has two relevant candidates.
    """
    pool = whole_number("pool", pool, 1, 2**31 - 1, "int32")
    if np.ndim(ranks) != 2 or 0 in np.shape(ranks):
        raise ValueError(f"ranks have shape {np.shape(ranks)}; expected [query, language], with at least one of each")
    queries, languages = np.shape(ranks)
    table = whole_numbers("ranks", np.ravel(ranks), queries * languages, -1, pool - 1).reshape(queries, languages)
    same_language = np.take_along_axis(
        table, whole_numbers("query_language", query_language, queries, 0, languages - 1)[:, None], 1
    )
    known = table >= 0
    several = known.sum(axis=1) > 1
    if not several.any():
        raise ValueError("no query has two relevant candidates to compare")
    best, worst = np.where(known, table, pool).min(axis=1), table.max(axis=1)
    preferred = np.where(several & (same_language[:, 0] >= 0), same_language[:, 0] == best, np.nan)
    spreads = np.where(several, (worst - best) / pool, np.nan)
    return Preference(_mean(preferred), _mean(spreads), preferred, spreads)


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
    if np.ndim(top_ids) != 2 or 0 in np.shape(top_ids):
        raise ValueError(f"top_ids have shape {np.shape(top_ids)}; expected [query, k], with at least one of each")
    queries, k = np.shape(top_ids)
    pool = len(candidate_language)
    of_candidate = whole_numbers("candidate_language", candidate_language, pool, 0)
    of_query = whole_numbers("query_language", query_language, queries, 0)
    ids = whole_numbers("top_ids", np.ravel(top_ids), queries * k, 0, pool - 1).reshape(queries, k)
    shares = (of_candidate[ids] == of_query[:, None]).mean(axis=1)
    pool_shares = np.bincount(of_candidate, minlength=of_query.max() + 1)[of_query] / pool
    return TopShare(_mean(shares), _mean(pool_shares), shares, pool_shares)


def fair_share(counts: Int[AnyArray, " language"]) -> float:
    """Returns the share of a text's neighbours that are in its language, expected without preference, from 0 to 1.

    It is the mean share of the other texts, and a little below that of the pool, which counts the text itself.

    Args:
      counts: number of texts in each language, ``[language]``; at least two in all.

    Raises:
      ValueError: a count is not a whole number from 0, or there are fewer than two texts.

    Example:
      >>> lj.retrieval.preference.fair_share(np.array([1, 3]))
      0.5
    """
    number = whole_numbers("counts", counts, len(counts), 0)
    if number.sum() < 2:
        raise ValueError(f"counts has {number.sum()} texts; give at least two")
    return float(np.average((number - 1) / (number.sum() - 1), weights=number))


def _mean(x: Float[np.ndarray, " query"]) -> float:
    defined = x[~np.isnan(x)]
    return float(defined.mean()) if len(defined) else float("nan")
