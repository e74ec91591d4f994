"""One step of a transform: an affine map that is shared, or chosen by language, or by language and cluster.

Every method moves an embedding by::

    z = scale * (x - shift)
    y = M (z - D B^T z) + offset

and keeps only the parts that it needs, in low rank where possible: ``D B^T`` is never built. A part
is one array for all embeddings, or a table with a row for each language (or each cluster of a
language's embeddings); an embedding uses the row of its language, or of its nearest cluster.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.shapes import AnyArray, LanguageIds

__all__ = ["AXES", "Step", "affine", "by_row", "fix_signs"]

_product = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


class Step(NamedTuple):
    """The parts of ``y = M (z - D B^T z) + offset``, ``z = scale (x - shift)``; a part that is None is left out.

    Attributes:
      shift: ``[dim]``, or ``[row, dim]``.
      scale: factor of each dimension, ``[dim]`` or ``[row, dim]``.
      basis: B, ``[dim, rank]`` or ``[row, dim, rank]``.
      dual: D, shaped like ``basis``; by default B itself, whose columns are then orthonormal (or zero).
      matrix: M, ``[dim, dim]`` or ``[row, dim, dim]``.
      offset: ``[dim]``, or ``[row, dim]``.
      clusters: ``[row]`` int32, the language of each row of the tables. If given, an embedding
        uses the row of its language whose ``shift`` is nearest (Euclidean).

    Example:
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from lsar_jax.transforms import Fit, Step, Transform
      >>> step = Step(shift=jnp.ones(2), scale=jnp.array([1.0, 0.0]))  # a transform of one's own
      >>> transform = Transform((step,), (Fit("mine", 2, (), ()),))
      >>> transform(np.array([[3.0, 4.0]])).tolist()
      [[2.0, 0.0]]
    """

    shift: Float[AnyArray, "*row dim"] | None = None
    scale: Float[AnyArray, "*row dim"] | None = None
    basis: Float[AnyArray, "*row dim rank"] | None = None
    dual: Float[AnyArray, "*row dim rank"] | None = None
    matrix: Float[AnyArray, "*row dim dim"] | None = None
    offset: Float[AnyArray, "*row dim"] | None = None
    clusters: Int[AnyArray, " row"] | None = None


# Number of axes of each shared part; a table has one more.
AXES = {"shift": 1, "scale": 1, "basis": 2, "dual": 2, "matrix": 2, "offset": 1}


def by_row(step: Step, name: str) -> bool:
    """Whether a part is present and is a table."""
    part = getattr(step, name)
    return part is not None and part.ndim > AXES[name]


def affine(step: Step, x: Float[Array, "vector dim"], language: LanguageIds) -> Float[Array, "vector dim"]:
    """Applies one step; pure, for use under ``jit`` and ``vmap``.

    With a language (or cluster) for each vector, a low-rank table is gathered for each vector, which
    takes ``[vector, dim, rank]``, and a dense table is applied one row at a time.

    Args:
      step: the step, whose parts are shared, by language, or by cluster.
      x: embeddings.
      language: index of the language, one for all vectors or one per vector; a shared step ignores it.
    """
    row = jnp.asarray(language) if step.clusters is None else _nearest(step, x, language)

    def pick(name: str) -> Array:
        part = jnp.asarray(getattr(step, name))
        return part[row] if by_row(step, name) else part

    if step.shift is not None:
        x = x - pick("shift")
    if step.scale is not None:
        x = x * pick("scale")
    if step.basis is not None:
        basis = pick("basis")
        dual = basis if step.dual is None else pick("dual")
        inner, outer = ("vdr" if part.ndim == 3 else "dr" for part in (basis, dual))
        x = x - _product(f"vr,{outer}->vd", _product(f"vd,{inner}->vr", x, basis), dual)
    if step.matrix is not None:
        if by_row(step, "matrix") and row.ndim == 1:
            x = _dense_by_row(jnp.asarray(step.matrix), x, row)
        else:
            x = _product("vd,ed->ve", x, pick("matrix"))
    if step.offset is not None:
        x = x + pick("offset")
    return x


def fix_signs(basis: Float[AnyArray, "dim rank"]) -> Float[Array, "dim rank"]:
    """Returns the columns with their largest entries made positive, so that every backend has the same basis."""
    largest = jnp.argmax(jnp.abs(basis), axis=0, keepdims=True)
    basis = jnp.asarray(basis)
    return basis * jnp.where(jnp.take_along_axis(basis, largest, axis=0) < 0, -1.0, 1.0).astype(basis.dtype)


def _nearest(step: Step, x: Float[Array, "vector dim"], language: LanguageIds) -> Int[Array, " vector"]:
    """Returns the row of each vector: among the rows of its language, the one whose shift is nearest."""
    centroids, owner = jnp.asarray(step.shift), jnp.asarray(step.clusters)
    # Centred first: a common offset would cost the differences precision.
    middle = centroids.mean(axis=0)
    centroids, x = centroids - middle, x - middle
    # Scaled by their spread: squares of large or small numbers leave the range of float32.
    unit = jnp.abs(centroids).max()
    unit = jnp.where(unit > 0, unit, jnp.ones((), unit.dtype))
    centroids, x = centroids / unit, x / unit
    distance = (centroids**2).sum(axis=1) - 2 * _product("vd,cd->vc", x, centroids)
    own = owner == jnp.asarray(language)[..., None]
    return jnp.argmin(jnp.where(own, distance, jnp.inf), axis=1)


def _dense_by_row(
    matrix: Float[Array, "row dim dim"], x: Float[Array, "vector dim"], row: Int[Array, " vector"]
) -> Float[Array, "vector dim"]:
    """Multiplies every vector by every matrix, one matrix at a time, and keeps the product with its own.

    Gathering a matrix for each vector would take ``[vector, dim, dim]``.
    """

    def step(result: Array, numbered: tuple[Array, Array]) -> tuple[Array, None]:
        number, one = numbered
        return jnp.where((row == number)[:, None], _product("vd,ed->ve", x, one), result), None

    return jax.lax.scan(step, jnp.zeros_like(x), (jnp.arange(len(matrix), dtype=row.dtype), matrix))[0]
