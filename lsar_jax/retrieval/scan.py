"""The programs of the search: chunk after chunk of scores, of which only the best are kept.

Queries and candidates come in chunks of equal sizes, the last of which are filled up with their last row. Only the
product of two chunks is held, and copies of both sides in bfloat16 if that is the precision. Each of several devices
searches its own candidates.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int

from lsar_jax.retrieval.plan import Precision, SearchPlan
from lsar_jax.retrieval.top_k import Best, Count, best_of, best_of_columns, merged

__all__ = ["products", "search", "search_both"]

# Numbers of the vectors that are scored again at a time.
_AT_ONCE = 1 << 24

_Rows = Float[Array, "row dim"]
_Chunks = Float[Array, "chunk column dim"]
# Lists of all queries, those of a device beside those of another.
_LISTS = PartitionSpec(None, "data")
# The lists of every chunk.
_Lists = tuple[Float[Array, "_ _ _"], Int[Array, "_ _ _"]]


@partial(jax.jit, static_argnames="plan")
def search(queries: _Rows, candidates: _Chunks, real: Count, plan: SearchPlan) -> Best:
    """Returns the k best candidates of each query; over a mesh, each device's, one list after another.

    Candidates after the first ``real`` are filler.
    """

    def one_device(queries: _Rows, candidates: _Chunks, first: Count) -> Best:
        # Each side is rounded once rather than in every step.
        sides = queries.astype(plan.precision), candidates.astype(plan.precision)
        best = _one_way(*sides, first, real, plan)
        return best if plan.precision == "float32" else _rescored(best, queries, candidates, first, plan.k)

    return _over(plan.mesh, one_device, _LISTS)(queries, candidates)


@partial(jax.jit, static_argnames="plan")
def search_both(source: _Rows, target: _Chunks, real_source: Count, real: Count, plan: SearchPlan) -> tuple[Best, Best]:
    """Returns the k best targets of each source, as ``search`` does, and the k best sources of each target."""

    def one_device(source: _Rows, target: _Chunks, first: Count) -> tuple[Best, Best]:
        sides = source.astype(plan.precision), target.astype(plan.precision)
        forward, backward = _both_ways(*sides, first, real_source, real, plan)
        if plan.precision == "float32":
            return forward, backward
        chunks = source.reshape(-1, plan.rows, source.shape[1])
        targets = target.reshape(-1, target.shape[2])
        return _rescored(forward, source, target, first, plan.k), _rescored(backward, targets, chunks, 0, plan.k)

    return _over(plan.mesh, one_device, (_LISTS, PartitionSpec("data")))(source, target)


def products(x: Float[Array, "*row dim"], y: _Rows, precision: Precision) -> Float[Array, "*row column"]:
    """Returns the product of each row of x with each of y, summed in float32."""
    x, y = x.astype(precision), y.astype(precision)
    return jnp.matmul(x, y.T, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32)


def _one_way(queries: _Rows, candidates: _Chunks, first: Count, real: Count, plan: SearchPlan) -> Best:
    k = plan.wide(plan.columns)

    def of_chunk(query: _Rows) -> Best:
        def step(best: Best, numbered: tuple[Array, Array]) -> tuple[Best, None]:
            number, chunk = numbered
            start = first + number * plan.columns
            scores = products(query, chunk, plan.precision)
            top, where = best_of(scores, k, real - start)
            return merged(best, (top, where + start)), None

        return jax.lax.scan(step, _none(plan.rows, k, real), _numbered(candidates))[0]

    return _joined(jax.lax.map(of_chunk, queries.reshape(-1, plan.rows, queries.shape[1])))


def _both_ways(
    source: _Rows, target: _Chunks, first: Count, real_source: Count, real: Count, plan: SearchPlan
) -> tuple[Best, Best]:
    k, k_backward = plan.wide(plan.columns), plan.wide(plan.rows)
    chunks, columns, dim = target.shape
    numbers, _ = _numbered(target)
    begin = jax.tree.map(lambda part: jnp.tile(part, (chunks, 1, 1)), _none(columns, k_backward, real_source))

    def of_sources(backward: _Lists, numbered: tuple[Array, Array]) -> tuple[_Lists, Best]:
        row_number, sources = numbered
        row_start = row_number * plan.rows

        # Each product serves both directions: its rows, and its columns.
        def of_targets(forward: Best, numbered: tuple[Array, Array, Best]) -> tuple[Best, Best]:
            number, chunk, known = numbered
            start = first + number * columns
            scores = products(sources, chunk, plan.precision)
            top, where = best_of(scores, k, real - start)
            known_top, known_where = best_of_columns(scores, k_backward, real_source - row_start)
            return merged(forward, (top, where + start)), merged(known, (known_top, known_where + row_start))

        return jax.lax.scan(of_targets, _none(plan.rows, k, real), (numbers, target, backward))[::-1]

    backward, forward = jax.lax.scan(of_sources, begin, _numbered(source.reshape(-1, plan.rows, dim)))
    return _joined(forward), _joined(backward)


def _none(rows: int, k: int, real: Count) -> Best:
    return jnp.full((rows, k), -jnp.inf, jnp.float32), jnp.full((rows, k), real, jnp.int32)


def _numbered(chunks: _Chunks) -> tuple[Int[Array, " chunk"], _Chunks]:
    return jnp.arange(len(chunks), dtype=jnp.int32), chunks


def _joined(best: _Lists) -> Best:
    return best[0].reshape(-1, best[0].shape[-1]), best[1].reshape(-1, best[1].shape[-1])


def _rescored(best: Best, queries: _Rows, candidates: _Chunks, first: Count, k: int) -> Best:
    """Returns the best k of a list of candidates, by products in float32."""
    table = candidates.reshape(-1, candidates.shape[-1])
    size = max(1, _AT_ONCE // (best[1].shape[1] * table.shape[1]))

    def of_query(given: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        query, scores, ids = given
        order = jnp.argsort(ids)  # equal scores go to the lower index
        ids, known = ids[order], scores[order] > -jnp.inf
        again = products(query, table[ids - first], "float32")
        top, where = jax.lax.top_k(jnp.where(known, again, -jnp.inf), k)
        return top, ids[where]

    return jax.lax.map(of_query, (queries, *best), batch_size=min(size, len(queries)))


def _over(mesh: Mesh | None, call: Any, returned: Any) -> Any:
    """Returns a function of all queries and a device's candidates that calls ``call`` with the first one's index."""
    if mesh is None:
        return partial(call, first=0)

    def of_device(queries: _Rows, candidates: _Chunks) -> Any:
        first = jax.lax.axis_index("data").astype(jnp.int32) * (candidates.shape[0] * candidates.shape[1])
        return call(queries, candidates, first)

    # Without collectives, of which two programs could wait for each other on the few threads of a CPU.
    given = (PartitionSpec(), PartitionSpec("data"))
    return jax.shard_map(of_device, mesh=mesh, in_specs=given, out_specs=returned, check_vma=False)
