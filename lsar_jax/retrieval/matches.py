"""Matches of queries whose right candidate is known, and their scores if it were not in the collection."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lsar_jax.checks import whole_number
from lsar_jax.retrieval.search import LOCAL, csls_scores, nearest, scaled_sides
from lsar_jax.shapes import AnyArray

__all__ = ["Matches", "find_matches"]


class Matches(NamedTuple):
    """The first result of each query, and its score if the right candidate were not in the collection.

    Attributes:
      score: of the first result, ``[..., query]``.
      right: whether it is the right one, ``[..., query]``.
      absent: score of the first wrong result without the right candidate, ``[..., query]``.
    """

    score: Float[np.ndarray, "*pair query"]
    right: Bool[np.ndarray, "*pair query"]
    absent: Float[np.ndarray, "*pair query"]


def find_matches(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    *,
    right: Int[np.ndarray, " query"] | None = None,
    bank: Float[AnyArray, "row dim"] | None = None,
) -> Matches:
    """Returns the matches of queries whose right candidates are known, by CSLS, or by cosine without a bank.

    Args:
      queries: ``[query, dim]``.
      candidates: ``[candidate, dim]``, at least two.
      right: row of each query's right candidate, ``[query]``; by default, the same row.
      bank: ``[row, dim]``, as for ``nearest``.
    """
    least = max(2, len(queries) if right is None else int(right.max()) + 1)
    count = whole_number("the number of candidates", len(candidates), least, 1 << 31, "all right ones, and another")
    rows = (np.arange(len(queries)) if right is None else right)[:, None]
    if bank is None:
        scores, ids = map(np.asarray, nearest(queries, candidates, 2))
        found = ids[:, 0] == rows[:, 0]
        return Matches(scores[:, 0], found, np.where(found, scores[:, 1], scores[:, 0]))
    left, index = scaled_sides(queries, candidates, bank)
    # One result more than a scale is the mean of takes the place of a right match that is taken out.
    scores, ids = map(np.asarray, nearest(left, index, min(LOCAL + 1, count), metric="dot"))
    scale = -2 * np.asarray(index)[:, -1][ids]
    order = np.argsort(ids == rows, axis=1, kind="stable")  # the right candidate last, where it is left out
    rest = (np.take_along_axis(part, order, axis=1)[:, :-1] for part in (scores, scale))
    return Matches(csls_scores(scores, scale)[:, 0], ids[:, 0] == rows[:, 0], csls_scores(*rest)[:, 0])
