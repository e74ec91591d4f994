"""The programs of search and of mining, whose candidates are split over the devices."""

from functools import partial

import jax
from jax.sharding import Mesh

from eval.aot.arguments import DTYPES, Sizes, Trace, everywhere, floats, over_devices
from lsar_jax.retrieval.scan import Precision, search, search_both
from lsar_jax.retrieval.search import chunk_for

__all__ = ["programs"]


def programs(sizes: Sizes) -> dict[str, Trace]:
    """Returns the programs by name."""
    found: dict[str, Trace] = {
        f"nearest/{precision}/{k}": partial(_nearest, sizes, precision, k) for precision in DTYPES for k in (1, 4, 16)
    }
    return found | {f"mine/{precision}/4": partial(_mine, sizes, precision, 4) for precision in DTYPES}


def _nearest(sizes: Sizes, precision: Precision, k: int, mesh: Mesh) -> jax.stages.Traced:
    chunk = chunk_for(mesh.devices.flat[0].platform)
    queries, candidates, several = _sides(sizes, chunk[1], mesh)
    return search.trace(
        queries, candidates, sizes.candidates, k=k, rows=chunk[0], precision=precision, mesh=several
    )  # fmt: skip


def _mine(sizes: Sizes, precision: Precision, k: int, mesh: Mesh) -> jax.stages.Traced:
    chunk = chunk_for(mesh.devices.flat[0].platform, both=True)
    queries, candidates, several = _sides(sizes, chunk[1], mesh)
    return search_both.trace(
        queries, candidates, sizes.queries, sizes.candidates, k=k, rows=chunk[0], precision=precision, mesh=several
    )


def _sides(sizes: Sizes, most: int, mesh: Mesh) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct, Mesh | None]:
    """Returns the queries, the candidates in chunks, and the mesh if it has several devices."""
    columns = min(most, sizes.candidates // mesh.size)
    (queries,) = everywhere(mesh, floats(sizes.queries, sizes.dim))
    (candidates,) = over_devices(mesh, floats(sizes.candidates // columns, columns, sizes.dim))
    return queries, candidates, None if mesh.size == 1 else mesh
