"""The similarity of all pairs of queries and candidates."""

from functools import partial
from typing import get_args

import jax
from jaxtyping import Array, Float

from lsar_jax.checks import check_choice
from lsar_jax.retrieval.plan import Precision, search_plan
from lsar_jax.retrieval.scan import products
from lsar_jax.retrieval.search import Metric, prepared, rescaled
from lsar_jax.shapes import AnyArray

__all__ = ["similarity"]


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
    plan = search_plan(sides, 1, precision, chunk=(1024, 1024))
    (left, right), exponents = prepared(sides, metric, plan)
    scores = _products(left, right.reshape(-1, right.shape[2]), precision)
    return rescaled(scores, exponents)[: len(queries), : len(candidates)]


_products = partial(jax.jit, static_argnames="precision")(products)
