"""Whether search in a pool of many languages treats them alike: TLR@k, MRC@k and PEER@k.

A query may have any number of relevant candidates in each language. With the first k results of each query:

- ``tlr``: SHIFT (Findings of EMNLP 2026, arXiv 2606.18801): the share of the relevant candidates in other languages
  than the query's that are among the first k.
- ``peer``: Yang et al., "Language Fairness in Multilingual Information Retrieval", SIGIR 2024: the p-value of Kruskal
  and Wallis's test that the relevant candidates of all languages have the same distribution of ranks; from 0 to 1, 1 if
  they rank alike. As in the program of MIMO (arXiv 2605.31171), a candidate that is not among the first k has rank
  k + 1. With one relevant candidate a language, as in pools of translations, the statistic does not depend on the
  ranks: PEER is then a constant, or 1 if none is among the first k, and says nothing. With several grades of relevance,
  call it for the candidates of each and weigh the values.
- ``mrc``: MIMO: whether translations of a query order the candidates alike: Spearman's correlation of two languages'
  scores, over the union of their first k, as a mean over pairs of languages.

All return a value a query, so that they can be resampled; undefined values are NaN.
"""

from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.checks import finite_numbers, whole_number, whole_numbers
from lsar_jax.shapes import AnyArray

__all__ = ["mrc", "peer", "tlr"]


def tlr(
    found: Int[AnyArray, "query k"],
    relevant: Int[AnyArray, "query relevant"],
    candidate_language: Int[AnyArray, " candidate"],
    query_language: Int[AnyArray, " query"],
) -> Float[np.ndarray, " query"]:
    """Returns TLR@k, the share of each query's relevant candidates in other languages among its first k results.

    Args:
      found: the first k candidates of each query, ``[query, k]``, as ``retrieval.nearest`` finds them.
      relevant: the relevant candidates, ``[query, relevant]``; -1 stands for none.
      candidate_language: language of each candidate, ``[candidate]``, from 0.
      query_language: language of each query, ``[query]``, in the same numbering.

    Returns:
      ``[query]``, from 0 to 1; NaN without a relevant candidate in another language.

    Raises:
      ValueError: a number is out of range, or lengths differ.

    Example:
      >>> lj.retrieval.preference.tlr(np.array([[0, 1]]), np.array([[0, 1, 2]]), np.array([0, 1, 2]), np.array([0]))
      array([0.5])
    """
    table, places = _places(found, relevant, len(candidate_language))
    language = whole_numbers("candidate_language", candidate_language, len(candidate_language), 0)
    own = whole_numbers("query_language", query_language, len(table), 0)
    others = (table >= 0) & (language[table] != own[:, None])
    count = others.sum(axis=1)
    return np.where(count > 0, (others & (places < len(found[0]))).sum(axis=1) / np.maximum(count, 1), np.nan)


def peer(
    found: Int[AnyArray, "query k"],
    relevant: Int[AnyArray, "query relevant"],
    candidate_language: Int[AnyArray, " candidate"],
) -> Float[np.ndarray, " query"]:
    """Returns PEER@k, the p-value that a query's relevant candidates of all languages rank alike.

    The arguments are as of ``tlr``. The statistic is ``H = (n - 1) B / T`` of the n ranks, with the sums of squares T
    around their mean and B of the languages' means around it; its distribution is taken for chi-squared.

    Returns:
      ``[query]``, from 0 to 1; 1 with relevant candidates in fewer than two languages, or if all rank the same.

    Raises:
      ValueError: a number is out of range, or lengths differ.

    Example:
      >>> found, language = np.array([[0, 1, 3, 2]]), np.array([0, 0, 1, 1])  # ranks 1 2 and 4 3
      >>> lj.retrieval.preference.peer(found, np.array([[0, 1, 2, 3]]), language).round(3)
      array([0.121])
    """
    from scipy.stats import chi2, rankdata

    table, places = _places(found, relevant, len(candidate_language))
    language = whole_numbers("candidate_language", candidate_language, len(candidate_language), 0)
    known = table >= 0
    ranks = rankdata(np.where(known, places, np.nan), axis=1, nan_policy="omit")
    count = known.sum(axis=1)
    # Around the mean of the ranks, which ties do not change.
    around = np.where(known, ranks - (count[:, None] + 1) / 2, 0)
    between, groups = np.zeros(len(table)), np.zeros(len(table), int)
    for code in np.unique(language):
        inside = known & (language[table] == code)
        sizes = inside.sum(axis=1)
        between += np.where(inside, around, 0).sum(axis=1) ** 2 / np.maximum(sizes, 1)
        groups += sizes > 0
    total = (around**2).sum(axis=1)
    tested = (groups > 1) & (total > 0)
    statistic = (count - 1) * between / np.where(tested, total, 1)
    return np.where(tested, chi2.sf(statistic, np.maximum(groups - 1, 1)), 1.0)


def mrc(scores: Float[AnyArray, "language query candidate"], first: int = 20) -> Float[np.ndarray, " query"]:
    """Returns MRC@k, how well the translations of each query agree on the order of their first results.

    Args:
      scores: score of each candidate for each translation of a query, ``[language, query, candidate]``; query i has the
        same content in all languages.
      first: k, the results that count in each language.

    Returns:
      ``[query]``, from -1 to 1, the mean over pairs of languages; NaN if the scores of a union are all the same.

    Raises:
      ValueError: there are fewer than two languages, a score is not finite, or ``first`` is not from 1 to the number of
        candidates.

    Example:
      >>> english, german = np.array([[4.0, 3.0, 2.0, 1.0]]), np.array([[4.0, 3.0, 1.0, 2.0]])
      >>> lj.retrieval.preference.mrc(np.stack([english, german]), first=3).round(6)
      array([0.8])
    """
    from scipy.stats import rankdata

    table = finite_numbers("scores", scores, 3)
    whole_number("the number of languages", len(table), 2, 1 << 31, "pairs of languages are compared")
    first = whole_number("first", first, 1, table.shape[2], "the candidates")
    top = np.argpartition(-table, first - 1, axis=2)[..., :first]
    found = []
    for a, b in combinations(range(len(table)), 2):
        union = np.sort(np.concatenate([top[a], top[b]], axis=1), axis=1)
        once = np.diff(union, axis=1, prepend=-1) > 0
        scored = (np.where(once, np.take_along_axis(table[side], union, axis=1), np.nan) for side in (a, b))
        ranks = (rankdata(of, axis=1, nan_policy="omit") for of in scored)
        x, y = (np.where(once, rank - (once.sum(axis=1)[:, None] + 1) / 2, 0) for rank in ranks)
        length = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
        found.append(np.where(length > 0, (x * y).sum(axis=1) / np.where(length > 0, length, 1), np.nan))
    return np.mean(found, axis=0)


def _places(
    found: Int[AnyArray, "query k"], relevant: Int[AnyArray, "query relevant"], pool: int
) -> tuple[Int[np.ndarray, "query relevant"], Int[np.ndarray, "query relevant"]]:
    """The relevant candidates after checks, and the place of each among the results, from 0; k if it is not there."""
    results = whole_numbers("found", found, (None, None), 0, pool - 1)
    table = whole_numbers("relevant", relevant, (len(results), None), -1, pool - 1)
    same = table[:, :, None] == results[:, None, :]
    return table, np.where(same.any(axis=2), same.argmax(axis=2), results.shape[1])
