"""The methods as pure functions: arrays in, arrays out, without checks and without the host.

For use under ``jit`` (whole numbers are static), over ``vmap`` (of layers, say), and on arrays that are split over a
mesh. Masks, k-means, CBIE, ``lir_directions`` and ``scatter_directions``, which iterate, have no gradient; nor has any
decomposition where eigenvalues are equal. They are what the fits call. jax arrays are computed in their dtype, float32
or float64, where they lie; all but k-means, CBIE and CSLS take numpy arrays too, which numpy decomposes.
"""

import jax
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import product, unit_rows
from lsar_jax.retrieval.search import LOCAL, csls_scores
from lsar_jax.transforms.identifier import discriminant
from lsar_jax.transforms.methods.cbie import cbie, cluster_directions, dominant_directions, kmeans
from lsar_jax.transforms.methods.joint import scatter_directions
from lsar_jax.transforms.methods.leace import erasing_functionals
from lsar_jax.transforms.methods.linear_map import procrustes
from lsar_jax.transforms.methods.lir import lir_directions, principal_directions
from lsar_jax.transforms.methods.lsar import language_components, language_subspace
from lsar_jax.transforms.methods.outliers import largest_dimensions, outlier_mask
from lsar_jax.transforms.methods.sparse_dimensions import varying_dimensions
from lsar_jax.transforms.methods.whitening import zca

__all__ = [
    "cbie", "cluster_directions", "csls", "discriminant", "dominant_directions", "erasing_functionals", "kmeans",
    "language_components", "language_subspace", "largest_dimensions", "lir_directions", "outlier_mask",
    "principal_directions", "procrustes", "scatter_directions", "varying_dimensions", "zca",
]  # fmt: skip


def csls(
    queries: Float[Array, "query dim"],
    candidates: Float[Array, "candidate dim"],
    bank: Float[Array, "row dim"],
    k: int = 1,
) -> tuple[Float[Array, "query k"], Int[Array, "query k"]]:
    """Returns what ``retrieval.nearest(queries, candidates, k, bank=bank)`` does, from the matrix of all cosines.

    The bank has at least ten rows.

    Example:
      >>> x = jax.random.normal(jax.random.key(0), (40, 16))
      >>> lj.functional.csls(x[:3], x, bank=x)[1].ravel().tolist()
      [0, 1, 2]
    """
    queries, candidates, bank = map(unit_rows, (queries, candidates, bank))
    scale = jax.lax.top_k(product(candidates, bank.T), LOCAL)[0].mean(axis=1)
    scores, ids = jax.lax.top_k(product(queries, candidates.T) - scale[None] / 2, max(k, min(LOCAL, len(candidates))))
    return csls_scores(scores, scale[ids])[:, :k], ids[:, :k]
