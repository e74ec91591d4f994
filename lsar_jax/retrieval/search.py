"""Exact nearest neighbours on the device, in bounded memory, and the similarity of all pairs.

``nearest`` processes queries and candidates in chunks, and the best k so far are carried along: besides the embeddings,
and copies of them in bfloat16 if that is the precision, only the product of two chunks is held, never the matrix of all
similarities. Ties go to the lower index, whatever the chunk sizes and the number of devices.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import (
    all_finite,
    check_rows,
    in_float32,
    near_one,
    pad_rows,
    padded_rows,
    times_power,
    unit_rows,
    warn_far_off,
)
from lsar_jax.checks import check_choice
from lsar_jax.mesh import replicated, shares, split
from lsar_jax.retrieval.plan import Precision, SearchPlan, search_plan
from lsar_jax.retrieval.scan import products, search, search_both
from lsar_jax.retrieval.top_k import Best
from lsar_jax.shapes import AnyArray

__all__ = ["Metric", "mix_queries", "nearest", "nearest_both", "nearest_others", "similarity"]

Metric = Literal["cosine", "dot"]


def nearest(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    k: int = 1,
    *,
    metric: Metric = "cosine",
    precision: Precision = "float32",
    recall_target: float = 1.0,
    chunk: tuple[int, int] | None = None,
    mesh: Mesh | None = None,
) -> tuple[Float[Array, "query k"], Int[Array, "query k"]]:
    """Finds the ``k`` most similar candidates of each query, best first.

    Args:
      queries: ``[query, dim]``; jax arrays must be on the same devices as the candidates.
      candidates: ``[candidate, dim]``.
      k: number of neighbours, at most the number of candidates.
      metric: ``cosine`` (a zero vector has similarity 0 to all) or ``dot``.
      precision: of the products. ``bfloat16`` is faster on accelerators: the best 2k candidates, or k + 8 if
        that is more, are scored again in float32, so that scores are exact, but a neighbour may be missed.
      recall_target: the share of the neighbours to find at least, on average over queries whose candidates are in
        random order, as in ``jax.lax.approx_max_k``. Below 1, a TPU sorts less in bfloat16, and ties go to any index;
        in float32 and on other devices, all are found nevertheless.
      chunk: number of queries and of candidates per product; by default, what suits the device: a product then takes
        64 MiB, or 256 MiB on a GPU.
      mesh: devices that the candidates are split over; by default those that a jax array of candidates is split
        over, otherwise one.

    Returns:
      Scores ``[query, k]`` in float32, cosines from -1 to 1 or dot products, and int32 indices into ``candidates``,
      ``[query, k]``.

    Raises:
      ValueError: shapes do not fit, the metric or precision is unknown, a number is out of range, a value is not
        finite, a vector is too short for float32, or a dot product is too large for it.

    Example:
      >>> english = np.random.default_rng(0).normal(size=(100, 16))
      >>> german = english[[7, 42]] + 0.01  # nearly the same as two of them
      >>> scores, ids = lj.retrieval.nearest(german, english, k=1)
      >>> ids.ravel().tolist(), np.round(scores, 2).ravel().tolist()
      ([7, 42], [1.0, 1.0])
    """
    sides = {"queries": queries, "candidates": candidates}
    check_choice("metric", metric, get_args(Metric))
    plan = search_plan(sides, k, precision, recall_target, chunk, mesh)
    (left, right), exponents = _prepared(sides, metric, plan)
    scores, ids = _of_all_devices(search(left, right, len(candidates), plan), plan)
    return _scaled(scores, exponents)[: len(queries)], ids[: len(queries)]


def nearest_others(
    x: Float[AnyArray, "vector dim"], k: int
) -> tuple[Float[np.ndarray, "vector k"], Int[np.ndarray, "vector k"]]:
    """Returns the cosines and the rows of the k other rows that are nearest to each row, the nearest first."""
    cosines, near = (np.asarray(part) for part in nearest(x, x, k + 1))
    itself = near == np.arange(len(near))[:, None]
    itself[~itself.any(axis=1), -1] = True  # copies have pushed the row out of its own neighbours
    return cosines[~itself].reshape(-1, k), near[~itself].reshape(-1, k)


def nearest_both(
    source: Float[AnyArray, "source dim"],
    target: Float[AnyArray, "target dim"],
    k: int = 1,
    *,
    precision: Precision = "float32",
    recall_target: float = 1.0,
    chunk: tuple[int, int] | None = None,
    mesh: Mesh | None = None,
) -> tuple[Best, Best]:
    """Finds the nearest targets of each source, and sources of each target, by cosine, from the same products.

    Options and errors are as in ``nearest``; ``k`` is at most the number of rows of the smaller side. Returns
    cosines and indices of targets, ``[source, k]`` each, and of sources, ``[target, k]`` each.
    """
    sides = {"source": source, "target": target}
    plan = search_plan(sides, k, precision, recall_target, chunk, mesh, both=True)
    (left, right), _ = _prepared(sides, "cosine", plan)
    forward, backward = search_both(left, right, len(source), len(target), plan)
    scores, ids = _of_all_devices(forward, plan)
    return (scores[: len(source)], ids[: len(source)]), (backward[0][: len(target)], backward[1][: len(target)])


def similarity(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    *,
    metric: Metric = "cosine",
    precision: Precision = "float32",
) -> Float[Array, "query candidate"]:
    """Returns the similarity of every query and every candidate, ``[query, candidate]`` in float32.

    All of them are held at once; to search among many, use ``nearest``, whose arguments and errors these are.

    Example:
      >>> x = np.array([[3.0, 0.0], [0.0, 2.0]])
      >>> lj.retrieval.similarity(x, x).tolist()
      [[1.0, 0.0], [0.0, 1.0]]
    """
    sides = {"queries": queries, "candidates": candidates}
    check_choice("metric", metric, get_args(Metric))
    plan = search_plan(sides, 1, precision, 1.0, (1024, 1024), None)
    (left, right), exponents = _prepared(sides, metric, plan)
    scores = _products(left, right.reshape(-1, right.shape[2]), precision)
    return _scaled(scores, exponents)[: len(queries), : len(candidates)]


def mix_queries(
    queries: Float[AnyArray, "query dim"], translations: Float[AnyArray, "query dim"]
) -> Float[Array, "query dim"]:
    """Returns the mean of each query and its translation, both scaled to norm 1, ``[query, dim]`` in float32.

    Zhu, Huang and Kan, "When Does Mixing Help? Analyzing Query Embedding Interpolation in Multilingual Dense
    Retrieval", ACL 2026 (arXiv 2606.13537), vary the shares of the two; here they are equal. That they scale the
    vectors first could not be confirmed. If a transform removes the language, mix what it returns.

    Args:
      queries: ``[query, dim]``.
      translations: the embedding of a translation of each query, ``[query, dim]``; the query's own where
        there is none.

    Raises:
      ValueError: the shapes differ, a value is not finite, or a vector is too short for float32.

    Example:
      >>> mixed = lj.retrieval.mix_queries(np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]]))
      >>> mixed.tolist()
      [[0.5, 0.5]]
    """
    rows, others = padded_rows({"queries": queries, "translations": translations})
    if len(queries) != len(translations):
        raise ValueError(f"there are {len(queries)} queries and {len(translations)} translations; give one for each")
    return ((rows + others) / 2)[: len(queries)]


def _prepared(
    sides: Mapping[str, AnyArray], metric: str, plan: SearchPlan
) -> tuple[tuple[Float[Array, "row dim"], Float[Array, "chunk column dim"]], list[Array]]:
    """Returns both sides in float32 as ``search`` takes them, and the powers of two of the products."""
    ready, exponents, mesh = [], [], plan.mesh
    parts = 1 if mesh is None else shares(mesh)
    for number, (name, x) in enumerate(sides.items()):
        warn_far_off(name, x, cosines=metric == "cosine")
        padded = pad_rows(x, plan.columns * parts if number else plan.rows, repeat=True)
        if mesh is not None:
            padded = jax.device_put(padded, split(mesh) if number else replicated(mesh))
        padded = in_float32(padded)
        check_rows(name, x, padded, lengths=True)
        if metric == "dot":
            # The order of a query's candidates does not depend on its length.
            padded, powers = near_one(padded, by_row=number == 0)
            exponents.append(powers)
        ready.append(unit_rows(padded) if metric == "cosine" else padded)
    left, right = ready
    chunks = right.reshape(-1, plan.columns, right.shape[1])
    return (left, chunks if mesh is None else jax.device_put(chunks, split(mesh))), exponents


def _of_all_devices(lists: Best, plan: SearchPlan) -> Best:
    return lists if plan.mesh is None else _best_of_lists(jax.device_put(lists, replicated(plan.mesh)), plan.k)


@partial(jax.jit, static_argnames="k")
def _best_of_lists(lists: Best, k: int) -> Best:
    top, where = jax.lax.top_k(lists[0], k)
    return top, jnp.take_along_axis(lists[1], where, axis=1)


def _scaled(scores: Float[Array, "query _"], exponents: list[Array]) -> Float[Array, "query _"]:
    """Returns the scores times the powers of two; raises ValueError if one is too large for float32."""
    if not exponents:
        return scores
    scores = times_power(scores, sum(exponents))
    if not isinstance(scores, jax.core.Tracer) and not all_finite(scores):
        raise ValueError("dot products of these vectors are too large for float32; scale them, or use metric='cosine'")
    return scores


@partial(jax.jit, static_argnames="precision")
def _products(
    x: Float[Array, "row dim"], y: Float[Array, "column dim"], precision: Precision
) -> Float[Array, "row column"]:
    return products(x, y, precision)
