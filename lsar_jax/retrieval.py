"""Exact nearest neighbours on the device, in memory bounded by a chunk.

Queries and candidates are taken in chunks and the best k so far are carried along, so that
the matrix of all similarities never exists. Ties go to the lower index, whatever the chunks.
"""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.shapes import AnyArray

__all__ = ["nearest"]

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
      queries: ``[query, dim]``.
      candidates: ``[candidate, dim]``.
      k: neighbours, at most the number of candidates.
      metric: ``cosine`` (a zero vector has similarity 0 to all) or ``dot``.
      precision: of the products; ``bfloat16`` is faster on accelerators and may change the
        order of near ties. Sums and scores are float32.
      chunk: queries and candidates of one product.

    Returns:
      Scores, float32, and indices into ``candidates``, int32.

    Raises:
      ValueError: shapes that do not fit, an unknown metric or precision, k out of range, or
        values that are not finite.
    """
    _check(queries, candidates, k, metric, precision, chunk)
    dtype = jnp.dtype(precision)
    rows = min(chunk[0], _round_up(len(queries), 8))
    columns = max(k, min(chunk[1], _round_up(len(candidates), 8)))
    index = _prepare(_padded(candidates, columns), metric == "cosine", dtype)
    index = index.reshape(-1, columns, index.shape[1])
    padded = _padded(queries, rows)
    found = [
        _search(_prepare(padded[i : i + rows], metric == "cosine", dtype), index, len(candidates), k)
        for i in range(0, len(padded), rows)
    ]
    scores, indices = (jnp.concatenate(parts)[: len(queries)] for parts in zip(*found, strict=True))
    if not jnp.isfinite(scores).all():
        raise ValueError("the embeddings hold NaN or infinity")
    return scores, indices


def _check(
    queries: AnyArray, candidates: AnyArray, k: int, metric: str, precision: str, chunk: tuple[int, int]
) -> None:
    if np.ndim(queries) != 2 or np.ndim(candidates) != 2 or queries.shape[1] != candidates.shape[1]:
        raise ValueError(f"queries {np.shape(queries)} and candidates {np.shape(candidates)} differ in width")
    if len(queries) == 0:
        raise ValueError("there are no queries")
    if not 1 <= k <= len(candidates):
        raise ValueError(f"k is {k}; with {len(candidates)} candidates it is 1 to {len(candidates)}")
    if metric not in ("cosine", "dot"):
        raise ValueError(f"metric {metric!r} is not one of cosine, dot")
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision {precision!r} is not one of float32, bfloat16")
    if min(chunk) < 1:
        raise ValueError(f"chunk {chunk} must be at least (1, 1)")


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _padded(x: AnyArray, multiple: int) -> Float[Array, "row dim"]:
    x = jnp.asarray(x, jnp.float32)
    return jnp.pad(x, ((0, _round_up(len(x), multiple) - len(x)), (0, 0)))


@partial(jax.jit, static_argnames=("unit", "dtype"))
def _prepare(x: Float[Array, "row dim"], unit: bool, dtype: jnp.dtype) -> Float[Array, "row dim"]:
    if unit:
        # Scaled by the largest entry first: squares of 1e-30 vanish in float32.
        largest = jnp.max(jnp.abs(x), axis=1, keepdims=True)
        x = x / jnp.where(largest > 0, largest, 1.0)
        norm = jnp.linalg.norm(x, axis=1, keepdims=True)
        x = x / jnp.where(norm > 0, norm, 1.0)
    return x.astype(dtype)


@partial(jax.jit, static_argnames="k")
def _search(
    queries: Float[Array, "query dim"], index: Float[Array, "chunk column dim"], real: int | Int[Array, ""], k: int
) -> tuple[Float[Array, "query k"], Int[Array, "query k"]]:
    columns = index.shape[1]

    def step(best: tuple[Array, Array], numbered: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        number, candidates = numbered
        scores = jnp.matmul(
            queries, candidates.T, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32
        )
        ids = number * columns + jnp.arange(columns, dtype=jnp.int32)
        scores = jnp.where(ids[None, :] < real, scores, -jnp.inf)
        top, where = _top(scores, k)
        # Carried ones stand first, so that top_k, which is stable, keeps the lower index.
        pool_scores = jnp.concatenate([best[0], top], axis=1)
        pool_ids = jnp.concatenate([best[1], ids[where]], axis=1)
        top, where = _top(pool_scores, k)
        return (top, jnp.take_along_axis(pool_ids, where, axis=1)), None

    start = (
        jnp.full((len(queries), k), -jnp.inf, jnp.float32),
        jnp.full((len(queries), k), real, jnp.int32),
    )
    numbers = jnp.arange(len(index), dtype=jnp.int32)
    return jax.lax.scan(step, start, (numbers, index))[0]


def _top(scores: Float[Array, "query column"], k: int) -> tuple[Float[Array, "query k"], Int[Array, "query k"]]:
    if k == 1:  # a pass instead of a sort
        where = jnp.argmax(scores, axis=1).astype(jnp.int32)[:, None]
        return jnp.take_along_axis(scores, where, axis=1), where
    top, where = jax.lax.top_k(scores, k)
    return top, where
