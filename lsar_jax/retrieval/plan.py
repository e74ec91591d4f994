"""The plan of a search, the static options of its program: chunks that suit the device, and devices that share them."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import jax
from jax.sharding import Mesh, NamedSharding

from lsar_jax.arrays import check_floats, row_bucket, same_width
from lsar_jax.checks import check_choice, whole_number
from lsar_jax.mesh import shares
from lsar_jax.shapes import AnyArray

__all__ = ["Precision", "SearchPlan", "chunk_for", "search_plan"]

Precision = Literal["float32", "bfloat16"]

# In bfloat16, so many more than k are scored again in float32, or k more if k is larger; at most those of a chunk.
_SPARE = 8
# Queries are split into equal chunks of a multiple of this.
_SHARE = 1024


class SearchPlan(NamedTuple):
    """The static options of a program of the search.

    Attributes:
      k: number of neighbours, at most ``columns``.
      rows: queries of a chunk; all queries are a multiple of it.
      columns: candidates of a chunk.
      precision: of the products.
      mesh: devices that share the candidates, with equally many chunks on each; or None.
    """

    k: int
    rows: int
    columns: int
    precision: Precision
    mesh: Mesh | None = None

    def wide(self, columns: int) -> int:
        """The number of candidates that are kept until all are scored again in float32."""
        return self.k if self.precision == "float32" else min(columns, self.k + max(self.k, _SPARE))


def chunk_for(platform: str, *, both: bool = False) -> tuple[int, int]:
    """Returns the number of queries and of candidates per product that suit a ``cpu``, ``gpu`` or ``tpu``."""
    if platform == "gpu":
        # With a quarter of the queries, an H100 took a third longer in bfloat16, and a tenth in float32; for both
        # sides, half as long again in bfloat16: some kernels of a step are shorter than their launch.
        return 4096, 16384
    if not both:
        return 1024, 16384
    # Compiled for a TPU v5e, mining in chunks of 2,048 x 4,096 writes its scores to main memory, and moves 26 GB in
    # float32; in chunks of 1,024 x 8,192 they stay in fast memory, and it moves 12.
    return (1024, 8192) if platform == "tpu" else (2048, 4096)


def search_plan(
    sides: Mapping[str, AnyArray],
    k: int,
    precision: Precision,
    mesh: Mesh | None = None,
    *,
    chunk: tuple[int, int] | None = None,
    both: bool = False,
) -> SearchPlan:
    """Checks the arguments of a search, and chooses its chunks."""
    for name, x in sides.items():
        check_floats(name, x)
    x, y = sides.values()
    same_width("the arrays", {name: side.shape[1] for name, side in sides.items()})
    check_choice("precision", precision, get_args(Precision))
    mesh = mesh or _mesh_of(y)
    most = chunk_for(_platform(y, mesh), both=both) if chunk is None else chunk
    fewest, why = (min(len(x), len(y)), "the rows of the smaller side") if both else (len(y), "the candidates")
    k = whole_number("k", k, 1, fewest, why)
    rows, columns = _rows(len(x), most[0]), row_bucket(-(-len(y) // (1 if mesh is None else shares(mesh))), most[1])
    return SearchPlan(k, max(k, rows) if both else rows, max(k, columns), precision, mesh)


def _mesh_of(x: AnyArray) -> Mesh | None:
    sharding = None if isinstance(x, jax.core.Tracer) else getattr(x, "sharding", None)
    if not isinstance(sharding, NamedSharding) or sharding.spec[:1] != ("data",):
        return None
    assert isinstance(sharding.mesh, Mesh)
    return None if shares(sharding.mesh) == 1 else sharding.mesh


def _platform(x: AnyArray, mesh: Mesh | None) -> str:
    if mesh is not None:
        return str(mesh.devices.flat[0].platform)
    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        return next(iter(x.devices())).platform
    return jax.default_backend()


def _rows(count: int, most: int) -> int:
    """Returns the number of queries in a chunk: a power of two, or of large chunks an equal share."""
    if count <= most or most % _SHARE:
        return row_bucket(count, most)
    share = -(-count // -(-count // most))
    return -(-share // _SHARE) * _SHARE
