"""Exact nearest neighbours on the device, in bounded memory, and the similarity of all pairs.

``nearest`` processes queries and candidates in chunks, and the best k so far are carried along: besides the
embeddings, only the product of two chunks is held, never the matrix of all similarities. Ties go
to the lower index, whatever the chunk sizes.
"""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import (
    all_finite,
    check_floats,
    check_rows,
    in_float32,
    near_one,
    pad_rows,
    row_bucket,
    times_power,
    unit_rows,
    warn_far_off,
)
from lsar_jax.checks import whole_number
from lsar_jax.shapes import AnyArray

__all__ = ["check_metric", "nearest", "similarity"]

Metric = Literal["cosine", "dot"]
Precision = Literal["float32", "bfloat16"]


def nearest(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    k: int = 1,
    *,
    metric: Metric = "cosine",
    precision: Precision = "float32",
    chunk: tuple[int, int] = (1024, 8192),
) -> tuple[Float[Array, "query k"], Int[Array, "query k"]]:
    """Finds the ``k`` most similar candidates of each query, best first.

    Args:
      queries: ``[query, dim]``; jax arrays must be on the same devices as the candidates.
      candidates: ``[candidate, dim]``.
      k: number of neighbours, at most the number of candidates.
      metric: ``cosine`` (a zero vector has similarity 0 to all) or ``dot``.
      precision: precision of the products; ``bfloat16`` is faster on accelerators and may change the
        order of near ties. Sums and scores are float32.
      chunk: number of queries and of candidates per product.

    Returns:
      Scores ``[query, k]`` in float32, cosines from -1 to 1 or dot products, and int32 indices into ``candidates``,
      ``[query, k]``.

    Raises:
      ValueError: shapes do not fit, the metric or precision is unknown, ``k`` or ``chunk`` is out of range, a value is
        not finite, a vector is too short for float32, or a dot product is too large for it.

    Example:
      >>> import numpy as np
      >>> import lsar_jax as lj
      >>> english = np.random.default_rng(0).normal(size=(100, 16))
      >>> german = english[[7, 42]] + 0.01  # nearly the same as two of them
      >>> scores, ids = lj.retrieval.nearest(german, english, k=1)
      >>> ids.ravel().tolist(), np.round(scores, 2).ravel().tolist()
      ([7, 42], [1.0, 1.0])
    """
    _check(queries, candidates, metric, precision, chunk)
    k = whole_number("k", k, 1, len(candidates), "the candidates")
    rows = row_bucket(len(queries), chunk[0])
    columns = max(k, row_bucket(len(candidates), chunk[1]))
    left, right, exponents = _prepared(queries, candidates, metric, precision, (rows, columns))
    chunks = right.reshape(-1, columns, right.shape[1])
    scores, indices = _search(left, chunks, len(candidates), k, rows)
    return _scaled(scores, exponents)[: len(queries)], indices[: len(queries)]


def similarity(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    *,
    metric: Metric = "cosine",
    precision: Precision = "float32",
) -> Float[Array, "query candidate"]:
    """Returns the similarity of every query and every candidate, in float32.

    All of them are held at once; to search among many candidates, use ``nearest``.

    Args:
      queries: ``[query, dim]``; jax arrays must be on the same devices as the candidates.
      candidates: ``[candidate, dim]``.
      metric: ``cosine`` (a zero vector has similarity 0 to all) or ``dot``.
      precision: precision of the products, as in ``nearest``.

    Returns:
      ``[query, candidate]``, cosines from -1 to 1 or dot products.

    Raises:
      ValueError: shapes do not fit, the metric or precision is unknown, a value is not finite, a vector is too short
        for float32, or a dot product is too large for it.

    Example:
      >>> import numpy as np
      >>> import lsar_jax as lj
      >>> x = np.array([[3.0, 0.0], [0.0, 2.0]])
      >>> lj.retrieval.similarity(x, x).tolist()
      [[1.0, 0.0], [0.0, 1.0]]
      >>> lj.retrieval.similarity(x, x, metric="dot").tolist()
      [[9.0, 0.0], [0.0, 4.0]]
    """
    _check(queries, candidates, metric, precision, (1, 1))
    sizes = row_bucket(len(queries), 1024), row_bucket(len(candidates), 1024)
    left, right, exponents = _prepared(queries, candidates, metric, precision, sizes)
    return _scaled(_products(left, right), exponents)[: len(queries), : len(candidates)]


def check_metric(metric: str) -> None:
    """Raises ValueError if the metric is neither ``cosine`` nor ``dot``.

    Example:
      >>> import lsar_jax as lj
      >>> lj.retrieval.check_metric("euclidean")
      Traceback (most recent call last):
          ...
      ValueError: metric 'euclidean' is not one of cosine, dot
    """
    if metric not in ("cosine", "dot"):
        raise ValueError(f"metric {metric!r} is not one of cosine, dot")


def _check(queries: AnyArray, candidates: AnyArray, metric: str, precision: str, chunk: tuple[int, int]) -> None:
    check_floats("queries", queries)
    check_floats("candidates", candidates)
    if queries.shape[1] != candidates.shape[1]:
        raise ValueError(
            f"queries {queries.shape} and candidates {candidates.shape} differ in width; "
            "expected [query, dim] and [candidate, dim]"
        )
    check_metric(metric)
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision {precision!r} is not one of float32, bfloat16")
    if min(chunk) < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least (1, 1)")


def _prepared(
    queries: AnyArray, candidates: AnyArray, metric: str, precision: str, sizes: tuple[int, int]
) -> tuple[Float[Array, "row dim"], Float[Array, "column dim"], list[Array]]:
    """Returns both sides padded and ready for the products, and the powers of two to multiply these with."""
    prepared, exponents = [], []
    for name, x, size in (("queries", queries, sizes[0]), ("candidates", candidates, sizes[1])):
        warn_far_off(name, x, cosines=metric == "cosine")
        padded = in_float32(pad_rows(x, size))
        check_rows(name, x, padded, lengths=True)
        if metric == "dot":
            # The order of a query's candidates does not depend on its length.
            padded, powers = near_one(padded, by_row=name == "queries")
            exponents.append(powers)
        prepared.append(_prepare(padded, metric == "cosine", jnp.dtype(precision)))
    return prepared[0], prepared[1], exponents


def _scaled(scores: Float[Array, "query _"], exponents: list[Array]) -> Float[Array, "query _"]:
    """Returns the scores times the powers of two; raises ValueError if one is too large for float32."""
    if not exponents:
        return scores
    scores = times_power(scores, sum(exponents))
    if not isinstance(scores, jax.core.Tracer) and not all_finite(scores):
        raise ValueError("dot products of these vectors are too large for float32; scale them, or use metric='cosine'")
    return scores


@jax.jit
def _products(x: Float[Array, "*row dim"], y: Float[Array, "column dim"]) -> Float[Array, "*row column"]:
    return jnp.matmul(x, y.T, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32)


@partial(jax.jit, static_argnames=("unit", "dtype"))
def _prepare(x: Float[Array, "row dim"], unit: bool, dtype: jnp.dtype) -> Float[Array, "row dim"]:
    """Returns the rows ready for the products."""
    return (unit_rows(x) if unit else x).astype(dtype)


@partial(jax.jit, static_argnames=("k", "rows"))
def _search(
    queries: Float[Array, "query dim"],
    candidates: Float[Array, "chunk column dim"],
    real: int | Int[Array, ""],
    k: int,
    rows: int,
) -> tuple[Float[Array, "query k"], Int[Array, "query k"]]:
    """Searches one chunk of candidates after another, for ``rows`` queries at a time."""
    columns = candidates.shape[1]
    numbers = jnp.arange(len(candidates), dtype=jnp.int32)

    def search(query: Array) -> tuple[Array, Array]:
        def step(best: tuple[Array, Array], numbered: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
            number, chunk = numbered
            scores = _products(query, chunk)
            ids = number * columns + jnp.arange(columns, dtype=jnp.int32)
            top, where = _top(jnp.where(ids < real, scores, -jnp.inf), k)
            # The best so far come first, so that top_k, which is stable, keeps the lower index.
            pool = jnp.concatenate([best[0], top]), jnp.concatenate([best[1], ids[where]])
            top, where = _top(pool[0], k)
            return (top, pool[1][where]), None

        start = jnp.full(k, -jnp.inf, jnp.float32), jnp.full(k, real, jnp.int32)
        return jax.lax.scan(step, start, (numbers, candidates))[0]

    return jax.lax.map(search, queries, batch_size=rows)


def _top(scores: Float[Array, " column"], k: int) -> tuple[Float[Array, " k"], Int[Array, " k"]]:
    if k == 1:  # one pass instead of a sort
        where = jnp.argmax(scores).astype(jnp.int32)[None]
        return scores[where], where
    top, where = jax.lax.top_k(scores, k)
    return top, where
