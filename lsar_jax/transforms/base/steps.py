"""The steps of a transform: affine maps that are shared, or chosen by language, or by language and cluster.

Every method moves an embedding by::

    z = scale * (x - shift)
    y = M (z - D B^T z) + offset

and keeps only the parts that it needs, in low rank where possible: ``D B^T`` is never built. A part
is one array for all embeddings, or a table with a row for each language (or each cluster of a
language's embeddings); an embedding uses the row of its language, or of its nearest cluster.

The only other step is ``SparseAutoencoder``, which is not affine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import row_bucket, to_device
from lsar_jax.moments.moments import Moments
from lsar_jax.shapes import AnyArray, LanguageIds

__all__ = ["AXES", "AnyStep", "Fit", "Step", "affine", "apply", "by_row", "fix_signs"]

# Vectors whose bases are gathered together.
_GATHERED = 1024


class Step(NamedTuple):
    """The parts of ``y = M (z - D B^T z) + offset``, ``z = scale (x - shift)``; a part that is None is left out.

    Attributes:
      shift: ``[dim]``, or ``[row, dim]``.
      scale: ``[dim]``, or ``[row, dim]``.
      basis: B, ``[dim, rank]`` or ``[row, dim, rank]``.
      dual: D, shaped like ``basis``; by default B itself, whose columns are then orthonormal (or zero).
      matrix: M, ``[dim, dim]`` or ``[row, dim, dim]``.
      offset: ``[dim]``, or ``[row, dim]``.
      clusters: ``[row]`` int32, the language of each row of the tables. If given, an embedding
        uses the row of its language whose ``shift`` is nearest (Euclidean).

    Example:
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

    @classmethod
    def of(cls, **parts: AnyArray) -> "Step":
        """Returns a step with these parts, in float32 on the device."""
        return cls(**{name: to_device(part) for name, part in parts.items()})


#: A ``Step``, whose parts are checked, or a ``SparseAutoencoder``, whose parts are reached after ``isinstance``.
AnyStep = Step | Any


@dataclass(frozen=True)
class Fit:
    """How a step was fitted: the record that is saved with it.

    Attributes:
      method: ``center``, ``lir``, ``lsar``, ``whitening``, ...
      dim: the width of the embeddings.
      languages: the language of each row of the step's tables, in order; empty for a shared step.
      fitted_on: languages whose text was used, with the number of sentences of each.
      parameters: names and values of the method's arguments.

    Example:
      >>> lsar = lj.transforms.fit_lsar({"de": np.ones((3, 4)), "en": np.eye(4)})
      >>> lsar.fits[0].fitted_on, str(lsar.fits[0])
      ((('de', 3), ('en', 4)), 'lsar(rank=1)')
    """

    method: str
    dim: int
    languages: tuple[str, ...]
    fitted_on: tuple[tuple[str, int], ...]
    parameters: tuple[tuple[str, int | float | str], ...] = ()

    @classmethod
    def of(
        cls, method: str, moments: Mapping[str, Moments], *, by_language: bool, **parameters: int | float | str
    ) -> "Fit":
        """Returns the record of a fit on ``moments``."""
        return cls(
            method=method,
            dim=next(iter(moments.values())).dim,
            languages=tuple(moments) if by_language else (),
            fitted_on=tuple((code, m.count) for code, m in moments.items()),
            parameters=tuple(parameters.items()),
        )

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.method}({arguments})"


# Number of axes of each shared part; a table has one more.
AXES = {"shift": 1, "scale": 1, "basis": 2, "dual": 2, "matrix": 2, "offset": 1}
AXES |= {"encoder": 2, "decoder": 2, "factors": 1}


def by_row(step: AnyStep, name: str) -> bool:
    """Whether a part is present and is a table."""
    part = getattr(step, name, None)
    return part is not None and part.ndim > AXES[name]


def apply(
    steps: tuple[AnyStep, ...], x: Float[AnyArray, "vector dim"], ids: tuple[LanguageIds, ...]
) -> Float[Any, "vector dim"]:
    """Applies steps in order, with the row of each step's tables; pure, for use under ``jit`` and ``vmap``."""
    for step, language in zip(steps, ids, strict=True):
        x = affine(step, x, language) if isinstance(step, Step) else step(x, language)
    return x


def affine(step: Step, x: Float[AnyArray, "vector dim"], language: LanguageIds) -> Float[Any, "vector dim"]:
    """Applies one step; pure, for use under ``jit`` and ``vmap``; numpy arrays are moved by numpy in their dtype.

    ``language`` is the index of the language, one for all vectors or one per vector; a shared step ignores it.
    """
    gathers = step.clusters is not None or (jnp.ndim(language) > 0 and by_row(step, "basis"))
    if gathers and len(x) > _GATHERED and not by_row(step, "matrix"):

        def move(vector: tuple[Array, Array]) -> Array:
            return affine(step, vector[0][None], vector[1])[0]

        languages = jnp.broadcast_to(jnp.asarray(language), len(x))
        return jax.lax.map(move, (jnp.asarray(x), languages), batch_size=_GATHERED)
    xp = x.__array_namespace__()
    row = xp.asarray(language) if step.clusters is None else _nearest(step, x, language)

    def pick(name: str) -> Any:
        part = xp.asarray(getattr(step, name))
        return part[row] if by_row(step, name) else part

    if step.shift is not None:
        x = x - pick("shift")
    if step.scale is not None:
        x = x * pick("scale")
    if step.basis is not None:
        basis = pick("basis")
        dual = basis if step.dual is None else pick("dual")
        inner, outer = ("vdr" if part.ndim == 3 else "dr" for part in (basis, dual))
        x = x - _sum(f"vr,{outer}->vd", _sum(f"vd,{inner}->vr", x, basis), dual)
    if step.matrix is not None:
        each = row.ndim == 1 and by_row(step, "matrix")
        x = _by_language(step.matrix, x, row) if each else _sum("vd,ed->ve", x, pick("matrix"))
    if step.offset is not None:
        x = x + pick("offset")
    return x


def fix_signs(basis: Float[AnyArray, "dim rank"]) -> Float[Any, "dim rank"]:
    """Returns the columns with their largest entries made positive, so that every backend has the same basis."""
    xp = basis.__array_namespace__()
    largest = xp.argmax(xp.abs(basis), axis=0, keepdims=True)
    return basis * xp.where(xp.take_along_axis(basis, largest, axis=0) < 0, -1.0, 1.0).astype(basis.dtype)


def _sum(formula: str, *parts: AnyArray) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.einsum(formula, *parts, optimize=True)
    return jnp.einsum(formula, *parts, precision=jax.lax.Precision.HIGHEST)


def _nearest(step: Step, x: Float[AnyArray, "vector dim"], language: LanguageIds) -> Int[Array, " vector"]:
    """Returns the row of each vector: among the rows of its language, the one whose shift is nearest."""
    centroids, owner = jnp.asarray(step.shift), jnp.asarray(step.clusters)
    # Centred first: a common offset would cost the differences precision.
    middle = centroids.mean(axis=0)
    centroids, x = centroids - middle, x - middle
    # Scaled by their spread: squares of large or small numbers leave the range of float32.
    unit = jnp.abs(centroids).max()
    unit = jnp.where(unit > 0, unit, jnp.ones((), unit.dtype))
    centroids, x = centroids / unit, x / unit
    distance = (centroids**2).sum(axis=1) - 2 * _sum("vd,cd->vc", x, centroids)
    same = owner == jnp.asarray(language)[..., None]
    return jnp.argmin(jnp.where(same, distance, jnp.inf), axis=1)


def _by_language(
    matrix: Float[AnyArray, "row dim dim"], x: Float[AnyArray, "vector dim"], row: Int[AnyArray, " vector"]
) -> Float[Array, "vector dim"]:
    """Multiplies each vector by the matrix of its language, a group of vectors of one language at a time.

    A matrix gathered for each vector would take ``[vector, dim, dim]``.
    """
    matrix, x, row = jnp.asarray(matrix), jnp.asarray(x), jnp.asarray(row)
    if not len(x):
        return x
    # The mean number of vectors of a language: there are at most twice as many groups as languages.
    size = row_bucket(-(-len(x) // len(matrix)))
    order, counts = jnp.argsort(row), jnp.bincount(row, length=len(matrix))
    # Each language has groups of its own, the last of which is filled up.
    groups = -(-counts // size)
    ends = jnp.cumsum(groups)
    numbers = jnp.arange(len(x) // size + len(matrix))
    language = jnp.minimum(jnp.searchsorted(ends, numbers, side="right"), len(matrix) - 1)
    places = ((numbers - (ends - groups)[language]) * size)[:, None] + jnp.arange(size)
    starts = (jnp.cumsum(counts) - counts)[language]
    vectors = order[jnp.minimum(starts[:, None] + places, len(x) - 1)]
    moved = jax.lax.map(lambda group: _sum("vd,ed->ve", x[group[0]], matrix[group[1]]), (vectors, language))
    # Filler is placed past the end, and dropped.
    targets = jnp.where(places < counts[language][:, None], vectors, len(x))
    return jnp.zeros_like(x).at[targets].set(moved, mode="drop")
