"""Exact nearest neighbours on the device, in bounded memory.

``nearest`` processes queries and candidates in chunks, and the best k so far are carried along: besides the embeddings,
and copies of them in bfloat16 if that is the precision, only the product of two chunks is held, never the matrix of all
similarities. Ties go to the lower index, whatever the chunk sizes and the number of devices.

Local scaling (CSLS; Conneau et al., "Word Translation Without Parallel Data", ICLR 2018) makes scores of different
queries and languages comparable: ``2 s - r(q) - r(c)``, with the cosine s of a query and a candidate, and the mean
cosines r to their k nearest. It is computed as an inner product of vectors with one more coordinate.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import (
    all_finite,
    check_floats,
    check_rows,
    in_float32,
    near_one,
    pad_rows,
    padded_rows,
    same_width,
    times_power,
    unit_rows,
    warn_far_off,
)
from lsar_jax.checks import check_choice, whole_number
from lsar_jax.mesh import replicated, shares, split
from lsar_jax.retrieval.plan import Precision, SearchPlan, search_plan
from lsar_jax.retrieval.scan import search, search_both
from lsar_jax.retrieval.top_k import Best
from lsar_jax.shapes import AnyArray

__all__ = [
    "LOCAL", "Metric", "csls_scores", "local_scale", "nearest", "nearest_both", "nearest_others", "prepared",
    "rescaled", "scaled_sides",
]  # fmt: skip

Metric = Literal["cosine", "dot"]

#: Neighbours that a local scale is the mean of, as published.
LOCAL = 10


def nearest(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    k: int = 1,
    *,
    bank: Float[AnyArray, "row dim"] | None = None,
    metric: Metric = "cosine",
    precision: Precision = "float32",
    mesh: Mesh | None = None,
) -> tuple[Float[Array, "query k"], Int[Array, "query k"]]:
    """Finds the ``k`` most similar candidates of each query, best first.

    Args:
      queries: ``[query, dim]``; jax arrays must be on the same devices as the candidates.
      candidates: ``[candidate, dim]``.
      k: number of neighbours, at most the number of candidates.
      bank: ``[row, dim]``, such as ``transform.bank``, of at least 10 rows: rank and score by CSLS, where r(c) is
        ``local_scale(candidates, bank)`` and r(q) the mean cosine of the query's first 10 results, or of all if there
        are fewer. Each call computes r(c) anew: for repeated queries, keep ``[c, -r(c) / 2]`` (``local_scale``) and
        search it with ``[q, 1]`` and ``metric="dot"``, as in docs/how-to/one-threshold.md.
      metric: ``cosine`` (a zero vector has similarity 0 to all) or ``dot``.
      precision: of the products. ``bfloat16`` is faster on accelerators: the best 2k candidates, or k + 8 if
        that is more, are scored again in float32, so that scores are exact, but a neighbour may be missed.
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
    plan = search_plan(sides, k, precision, mesh)
    if bank is not None:
        options: dict[str, Any] = {"precision": precision, "mesh": mesh}
        left, right = scaled_sides(queries, candidates, bank, metric, **options)
        scores, ids = nearest(left, right, min(max(plan.k, LOCAL), len(right)), metric="dot", **options)
        return csls_scores(scores, -2 * right[:, -1][ids])[:, : plan.k], ids[:, : plan.k]
    (left, right), exponents = prepared(sides, metric, plan)
    scores, ids = _of_all_devices(search(left, right, len(candidates), plan), plan)
    return rescaled(scores, exponents)[: len(queries)], ids[: len(queries)]


def local_scale(
    x: Float[AnyArray, "vector dim"],
    bank: Float[AnyArray, "row dim"],
    k: int = LOCAL,
    *,
    precision: Precision = "float32",
    mesh: Mesh | None = None,
) -> Float[Array, " vector"]:
    """Returns r(x), the mean cosine of each vector to its ``k`` nearest in a bank, ``[vector]``, from -1 to 1.

    With ``c`` of length 1, an index of ``[c, -r(c) / 2]`` that is searched with ``[q, 1]`` by inner product ranks as
    CSLS does. Options and errors are as in ``nearest``; ``mesh`` splits the bank.

    Example:
      >>> bank = np.eye(16)
      >>> [round(r, 2) for r in lj.retrieval.local_scale(np.ones((1, 16)), bank, k=4).tolist()]
      [0.25]
    """
    for name, rows in (("vectors", x), ("bank", bank)):
        check_floats(name, rows)
    if isinstance(bank, jax.Array) and not isinstance(bank, jax.core.Tracer):
        bank = np.asarray(bank)  # it may lie on other devices
    same_width("the arrays", {"vectors": x.shape[1], "the bank": bank.shape[1]})
    k = whole_number("k", k, 1, len(bank), "the rows of the bank")
    return nearest(x, bank, k, precision=precision, mesh=mesh)[0].mean(axis=1)


def scaled_sides(
    queries: Float[AnyArray, "query dim"],
    candidates: Float[AnyArray, "candidate dim"],
    bank: Float[AnyArray, "row dim"],
    metric: Metric = "cosine",
    **options: Any,
) -> tuple[Float[Array, "query dim+1"], Float[Array, "candidate dim+1"]]:
    """Returns ``[q, 1]`` and ``[c, -r(c) / 2]`` of vectors of length 1, whose inner product is ``s - r(c) / 2``."""
    if metric != "cosine":
        raise ValueError(f"metric is {metric!r}, but CSLS, which a bank is for, is of cosines; omit one of the two")
    sides = {"queries": queries, "candidates": candidates}
    left, right = (rows[: len(x)] for rows, x in zip(padded_rows(sides), sides.values(), strict=True))
    scale = local_scale(candidates, bank, **options)
    return jnp.pad(left, ((0, 0), (0, 1)), constant_values=1), jnp.concatenate([right, -scale[:, None] / 2], axis=1)


def csls_scores(scores: Float[AnyArray, "query k"], scale: Float[AnyArray, "query k"]) -> Float[Any, "query k"]:
    """Returns ``2 s - r(q) - r(c)`` of results, best first, from ``s - r(c) / 2`` and r(c), ``[query, k]`` each."""
    return 2 * scores - (scores + scale / 2)[:, :LOCAL].mean(axis=1, keepdims=True)


def nearest_others(
    x: Float[AnyArray, "vector dim"], k: int, bank: Float[AnyArray, "row dim"] | None = None, rows: slice = slice(None)
) -> tuple[Float[np.ndarray, "few k"], Int[np.ndarray, "few k"]]:
    """Returns the cosines, or CSLS scores with a bank, and the k other rows nearest to each of ``rows``, best first."""
    if bank is None:
        scores, near = map(np.asarray, nearest(x[rows], x, k + 1))
    else:
        left, right = scaled_sides(x[rows], x, bank)
        scores, near = map(np.asarray, nearest(left, right, min(max(k, LOCAL) + 1, len(x)), metric="dot"))
    itself = near == np.arange(len(x))[rows, None]
    itself[~itself.any(axis=1), -1] = True  # copies have pushed the row out of its own neighbours
    scores, near = (part[~itself].reshape(len(near), -1) for part in (scores, near))
    if bank is not None:  # the row itself is not one of its results
        scores = np.asarray(csls_scores(scores, -2 * right[:, -1][near]))
    return scores[:, :k], near[:, :k]


def nearest_both(
    source: Float[AnyArray, "source dim"],
    target: Float[AnyArray, "target dim"],
    k: int = 1,
    *,
    precision: Precision = "float32",
    mesh: Mesh | None = None,
) -> tuple[Best, Best]:
    """Finds the nearest targets of each source, and sources of each target, by cosine, from the same products.

    Options and errors are as in ``nearest``; ``k`` is at most the number of rows of the smaller side. Returns
    cosines and indices of targets, ``[source, k]`` each, and of sources, ``[target, k]`` each.
    """
    sides = {"source": source, "target": target}
    plan = search_plan(sides, k, precision, mesh, both=True)
    (left, right), _ = prepared(sides, "cosine", plan)
    forward, backward = search_both(left, right, len(source), len(target), plan)
    scores, ids = _of_all_devices(forward, plan)
    return (scores[: len(source)], ids[: len(source)]), (backward[0][: len(target)], backward[1][: len(target)])


def prepared(
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


def rescaled(scores: Float[Array, "query _"], exponents: list[Array]) -> Float[Array, "query _"]:
    """Returns the scores times the powers of two; raises ValueError if one is too large for float32."""
    if not exponents:
        return scores
    scores = times_power(scores, sum(exponents))
    if not isinstance(scores, jax.core.Tracer) and not all_finite(scores):
        raise ValueError("dot products of these vectors are too large for float32; scale them, or use metric='cosine'")
    return scores
