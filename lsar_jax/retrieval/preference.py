"""Whether retrieval from a pool of many languages prefers the language of the query.

A query has one relevant candidate in each language, a translation or an answer. Without
preference, the best-ranked of them is in the query's own language for one query in L (of L
languages), they rank close together, and the first results have the languages in the proportions
of the pool. The notion follows Roy et al., "LAReQA: Language-agnostic Answer Retrieval from a
Multilingual Pool", EMNLP 2020; ``language_preference`` and ``top_k_share`` are this library's own. ``tlr``, ``mrc`` and
``peer`` take queries with any number of relevant candidates (``lsar_jax.retrieval.language_fairness``).

Measures of others, of which the papers' full text was not at hand:

- ``four_way`` and ``language_ndcg``: Jang et al., "MLAIRE", arXiv 2605.07249, from its abstract and a summary, which
  say that the split is by the first result. The definition of its language preference rate and the gains and cut-off
  of its Lang-nDCG could not be confirmed. We read the rate as ``Preference.preference``: among translations that are
  equally relevant, the query's language ranks first.
- ``rank_shift``: MLRS of Park and Lee, "Investigating Language Preference of Multilingual RAG Systems", Findings of
  ACL 2025, arXiv 2502.11175, from the authors' published program. It is of ranks, not of scores.
- ``max_rank``: Max@R of Hong et al., "Improving Semantic Proximity in Information Retrieval through Cross-Lingual
  Alignment", ICLR 2026, arXiv 2604.05684, from a summary that gives both formulas.

All measures return the values of each query, so that they can be resampled for confidence intervals.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lsar_jax.checks import as_float, finite_numbers, whole_number, whole_numbers
from lsar_jax.retrieval.language_fairness import mrc, peer, tlr
from lsar_jax.retrieval.language_share import TopShare, fair_share, mean_defined, top_k_share
from lsar_jax.shapes import AnyArray

__all__ = [
    "FourWay",
    "MaxRank",
    "Preference",
    "TopShare",
    "fair_share",
    "four_way",
    "language_ndcg",
    "language_preference",
    "max_rank",
    "mrc",
    "peer",
    "rank_shift",
    "tlr",
    "top_k_share",
]


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


class FourWay(NamedTuple):
    """Whether each query's first result is relevant, and in its language; ``[query]``, one of the four is true.

    ``same`` is the query's language, and ``other`` another.
    """

    relevant_same: Bool[np.ndarray, " query"]
    relevant_other: Bool[np.ndarray, " query"]
    irrelevant_same: Bool[np.ndarray, " query"]
    irrelevant_other: Bool[np.ndarray, " query"]


class MaxRank(NamedTuple):
    """How far down each query's last relevant candidate is; ``[query]``, NaN without a relevant candidate.

    Attributes:
      ranks: its rank, from 1.
      scores: 1 if all relevant candidates rank before all others, and 0 if one is the last of the pool;
        ``(log2 pool - log2 rank) / (log2 pool - log2 relevant)``.
    """

    ranks: Float[np.ndarray, " query"]
    scores: Float[np.ndarray, " query"]


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
    table, same_language = _ranks(ranks, query_language, pool - 1)
    known = table >= 0
    several = known.sum(axis=1) > 1
    if not several.any():
        raise ValueError("no query has two relevant candidates to compare")
    best, worst = np.where(known, table, pool).min(axis=1), table.max(axis=1)
    preferred = np.where(several & (same_language >= 0), same_language == best, np.nan)
    spreads = np.where(several, (worst - best) / pool, np.nan)
    return Preference(mean_defined(preferred), mean_defined(spreads), preferred, spreads)


def four_way(
    first: Int[AnyArray, " query"],
    relevant: Int[AnyArray, "query language"],
    candidate_language: Int[AnyArray, " candidate"],
    query_language: Int[AnyArray, " query"],
) -> FourWay:
    """Returns MLAIRE's split of queries by their first result: relevant or not, in their language or not.

    Args:
      first: the first candidate of each query, ``[query]``, as ``retrieval.nearest`` finds it.
      relevant: the relevant candidate in each language, ``[query, language]``; -1 stands for none.
      candidate_language: language of each candidate, ``[candidate]``, from 0.
      query_language: language of each query, ``[query]``, in the same numbering.

    Raises:
      ValueError: a number is out of range, or lengths differ.
    """
    pool = len(candidate_language)
    table = whole_numbers("relevant", relevant, (None, None), -1, pool - 1)
    ids = whole_numbers("first", first, len(table), 0, pool - 1)
    of_candidate = whole_numbers("candidate_language", candidate_language, pool, 0)
    same = of_candidate[ids] == whole_numbers("query_language", query_language, len(table), 0)
    found = (table == ids[:, None]).any(axis=1)
    return FourWay(found & same, found & ~same, ~found & same, ~found & ~same)


def language_ndcg(
    ranks: Int[AnyArray, "query language"],
    query_language: Int[AnyArray, " query"],
    *,
    first: int = 10,
    other: float = 0.5,
) -> Float[np.ndarray, " query"]:
    """Returns the nDCG of each query whose best result is the relevant candidate in its language, from 0 to 1.

    A candidate at rank r, from 0, adds its gain divided by ``log2(r + 2)``: 1 for the relevant candidate in the
    query's language, ``other`` for one in another language. The sum is divided by its value in the best order. The form
    follows MLAIRE's Lang-nDCG as far as its abstract says; the defaults are this library's.

    Args:
      ranks: rank of the relevant candidate in each language, ``[query, language]``, all different; 0 is the best, -1
        stands for none.
      query_language: column of each query's language, ``[query]``.
      first: results that count.
      other: gain in another language, from 0 to 1; 1 gives the nDCG that is blind to languages.

    Returns:
      ``[query]``; NaN without a relevant candidate in the query's language.

    Raises:
      ValueError: a number is out of range, or lengths differ.
    """
    first = whole_number("first", first, 1, 2**31 - 1, "int32")
    if not 0 <= as_float(other) <= 1:
        raise ValueError(f"other is {other!r:.80}; it must be from 0 to 1")
    table, same_language = _ranks(ranks, query_language)
    gains = np.full(table.shape, float(other))
    gains[np.arange(len(table)), np.asarray(query_language)] = 1.0
    found = np.where((table >= 0) & (table < first), gains / np.log2(np.maximum(table, 0) + 2), 0).sum(axis=1)
    discounts = 1 / np.log2(np.arange(min(first, table.shape[1])) + 2)
    best = np.cumsum(np.where(np.arange(len(discounts)) > 0, other, 1) * discounts)
    ideal = best[np.clip((table >= 0).sum(axis=1), 1, len(best)) - 1]
    return np.where(same_language >= 0, found / ideal, np.nan)


def max_rank(ranks: Int[AnyArray, "query relevant"], pool: int) -> MaxRank:
    """Returns Max@R, how many results must be read to see all relevant candidates, and its normalised form.

    Args:
      ranks: rank of each relevant candidate, ``[query, relevant]``; 0 is the best, -1 stands for none.
      pool: number of candidates that were ranked; more than a query has relevant ones.

    Raises:
      ValueError: a number is out of range.
    """
    pool = whole_number("pool", pool, 2, 2**31 - 1, "int32")
    table = whole_numbers("ranks", ranks, (None, None), -1, pool - 1)
    relevant = (table >= 0).sum(axis=1)
    whole_number("the number of relevant candidates", int(relevant.max()), 0, pool - 1, f"the pool has {pool}")
    rank = np.where(relevant > 0, table.max(axis=1) + 1.0, np.nan)
    span = np.log2(pool) - np.log2(np.maximum(relevant, 1))
    return MaxRank(rank, (np.log2(pool) - np.log2(rank)) / span)


def rank_shift(translated: Float[AnyArray, "query k"]) -> Float[np.ndarray, " query"]:
    """Returns MLRS: how far a query's first k candidates rise among themselves when all are in its language.

    The ranks that candidates gain after their translation, divided by those that they could gain if each rose to the
    first place alone. If nothing changes, it is 0. A random order is expected to score ``(k + 1) / (3 k)``, and the
    highest value, of the reversed order, is about 1/2 (5/9 for ten candidates), as candidates cannot all rise. It is
    also 0 if the first k are all in the query's language, as then no translation differs.

    Args:
      translated: similarity of each query with the translation, into its language, of each of its first k candidates,
        ``[query, k]``, in the order in which the candidates were found; ties keep that order. The translation of a
        candidate that is in the query's language is the candidate.

    Returns:
      ``[query]``.

    Raises:
      ValueError: k is below 2, or a similarity is not a finite number.
    """
    scores = finite_numbers("translated", translated, 2)
    if scores.size == 0 or scores.shape[1] < 2:
        raise ValueError(f"translated has shape {scores.shape}; expected [query, k], with k of at least 2")
    places = np.arange(scores.shape[1])
    # The candidate at place i of the new order was at place order[i].
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.maximum(order - places, 0).sum(axis=1) / places.sum()


def _ranks(
    ranks: Int[AnyArray, "query language"], query_language: Int[AnyArray, " query"], most: int | None = None
) -> tuple[Int[np.ndarray, "query language"], Int[np.ndarray, " query"]]:
    """The ranks, and that in the query's language, after checks."""
    table = whole_numbers("ranks", ranks, (None, None), -1, most)
    own = whole_numbers("query_language", query_language, len(table), 0, table.shape[1] - 1)
    return table, table[np.arange(len(table)), own]
