"""The programs of search and of mining, whose candidates are split over the devices."""

from functools import partial

import jax
from jax.sharding import Mesh

from eval.bench.programs.shapes import DTYPES, Sizes, Trace, floats, placed
from lsar_jax.mesh import replicated, split
from lsar_jax.retrieval.plan import Precision, SearchPlan, chunk_for
from lsar_jax.retrieval.scan import search, search_both

__all__ = ["programs"]


def programs(sizes: Sizes) -> dict[str, Trace]:
    """The programs by name."""
    traces: dict[str, Trace] = {
        f"nearest/{precision}/{k}": partial(_traced, sizes, precision, k) for precision in DTYPES for k in (1, 4, 16)
    }
    return traces | {f"mine/{precision}/4": partial(_traced, sizes, precision, 4, both=True) for precision in DTYPES}


def _traced(sizes: Sizes, precision: Precision, k: int, mesh: Mesh, *, both: bool = False) -> jax.stages.Traced:
    """Traces a search in one direction or, with ``both``, in two."""
    rows, most = chunk_for(mesh.devices.flat[0].platform, both=both)
    columns = min(most, sizes.candidates // mesh.size)
    (queries,) = placed(replicated(mesh), floats(sizes.queries, sizes.dim))
    (candidates,) = placed(split(mesh), floats(sizes.candidates // columns, columns, sizes.dim))
    plan = SearchPlan(k, rows, columns, precision, None if mesh.size == 1 else mesh)
    if both:
        return search_both.trace(queries, candidates, sizes.queries, sizes.candidates, plan)
    return search.trace(queries, candidates, sizes.candidates, plan)
