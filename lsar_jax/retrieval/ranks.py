"""Ranks of known candidates among all candidates, without the matrix of all similarities.

Average precision, language preference and answer retrieval with one target left all follow from the ranks of the
relevant candidates alone.
"""

from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import near_one, padded_rows
from lsar_jax.checks import check_choice, whole_number, whole_numbers
from lsar_jax.retrieval.search import Metric, scaled_sides
from lsar_jax.shapes import AnyArray

__all__ = ["candidate_ranks"]


def candidate_ranks(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    relevant: Int[AnyArray, "query relevant"],
    *,
    bank: Float[AnyArray, "row dim"] | None = None,
    metric: Metric = "cosine",
    left_out: Int[AnyArray, " query"] | None = None,
    chunk: int = 256,
) -> Int[np.ndarray, "query relevant"]:
    """Returns the rank of each query's relevant candidates among all candidates; 0 is the best.

    Ranks are int32, ``[query, relevant]``, and -1 if there is no candidate, or if it is left out; ties go to the lower
    index. Only the product of one chunk of queries with all candidates is held at a time.

    Args:
      queries: ``[query, dim]``.
      candidates: ``[candidate, dim]``.
      relevant: indices of the candidates to rank, ``[query, relevant]``; -1 for none.
      bank: ``[row, dim]``: rank by CSLS, as in ``nearest``.
      metric: ``cosine`` or ``dot``.
      left_out: index of a candidate to hide from each query, such as the query itself, ``[query]``; -1 for none.
      chunk: number of queries per product.

    Raises:
      ValueError: an array is invalid, lengths or widths differ, the metric is unknown, or a number is out of range.

    Example:
      >>> pool = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
      >>> lj.retrieval.candidate_ranks(pool[:1], pool, np.array([[0, 1, 2]]), left_out=np.array([0])).tolist()
      [[-1, 0, 1]]
    """
    chunk = whole_number("chunk", chunk, 1, 2**31 - 1, "int32")
    check_choice("metric", metric, get_args(Metric))
    if bank is not None:
        (queries, candidates), metric = scaled_sides(queries, candidates, bank, metric), "dot"
    rows, columns = padded_rows({"queries": queries, "candidates": candidates}, unit=metric == "cosine")
    if metric == "dot":
        (rows, _), (columns, _) = near_one(rows, by_row=True), near_one(columns, by_row=False)
    n, pool = len(queries), len(candidates)
    places = whole_numbers("relevant", relevant, (n, None), -1, pool - 1)
    unseen = whole_numbers("left_out", np.full(n, -1) if left_out is None else left_out, n, -1, pool - 1)
    places = np.where(places == unseen[:, None], -1, places)
    extra = len(rows) - n
    places = np.pad(places, ((0, extra), (0, 0))).astype(np.int32)
    unseen = np.pad(unseen, (0, extra)).astype(np.int32)
    return np.asarray(_ranks(rows, places, unseen, columns, pool, min(chunk, len(rows))))[:n]


@partial(jax.jit, static_argnames="chunk")
def _ranks(
    queries: Float[Array, "query dim"],
    places: Int[AnyArray, "query relevant"],
    unseen: Int[AnyArray, " query"],
    candidates: Float[Array, "candidate dim"],
    real: int | Int[Array, ""],
    chunk: int,
) -> Int[Array, "query relevant"]:
    ids = jnp.arange(len(candidates), dtype=jnp.int32)

    def ranks(given: tuple[Array, Array, Array]) -> Array:
        query, relevant, left_out = given
        scores = jnp.matmul(query, candidates.T, precision=jax.lax.Precision.HIGHEST)
        scores = jnp.where((ids < real) & (ids != left_out), scores, -jnp.inf)

        def rank(place: Array) -> Array:
            score = scores[jnp.maximum(place, 0)]
            ahead = (scores > score) | ((scores == score) & (ids < place))
            return jnp.where(place < 0, -1, ahead.sum(dtype=jnp.int32))

        return jax.lax.map(rank, relevant)

    return jax.lax.map(ranks, (queries, jnp.asarray(places), jnp.asarray(unseen)), batch_size=chunk)
