"""The steps of a transform: affine maps that are shared, or chosen by language, or by language and cluster.

Every method moves an embedding by::

    z = scale * (x - shift)
    y = M (z - D B^T z) + offset

and keeps only the parts that it needs, in low rank where possible: ``D B^T`` is never built. A part
is one array for all embeddings, or a table with a row for each language (or each cluster of a
language's embeddings); an embedding uses the row of its language, or of its nearest cluster.

``TransformStep`` is what a transform asks of any step; ``SparseAutoencoder`` is one that is not affine. After them, a
``Blend`` applies all at a strength.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.arrays import row_bucket, to_device
from lsar_jax.shapes import AnyArray, LanguageIds
from lsar_jax.transforms.base.blend import Blend

__all__ = ["AXES", "Step", "Steps", "TransformStep", "affine_map", "apply", "apply_steps", "fix_signs", "in_parts"]

# Vectors whose bases are gathered together.
_GATHERED = 1024
# Number of axes of each shared part; a table has one more.
AXES = {"shift": 1, "scale": 1, "basis": 2, "dual": 2, "matrix": 2, "offset": 1}


@runtime_checkable
class TransformStep(Protocol):
    """The interface between a transform and its steps, which are pytrees; only a ``Step`` depends on the language."""

    def not_affine(self) -> str:
        """Why there is no single A and b of ``y = x A^T + b``, if so; else empty."""

    def __call__(self, x: Float[AnyArray, "vector dim"], language: LanguageIds) -> Float[Any, "vector dim"]:
        """Applies the step; pure, for use under ``jit`` and ``vmap``.

        ``language`` is the index of the language, one for all vectors or one per vector; a shared step ignores it.
        """

    def __iter__(self) -> Iterator[AnyArray | None]:
        """All its arrays, in an order that is always the same, for digests."""

    def arrays(self) -> dict[str, AnyArray]:
        """The arrays by name, as a file has them."""

    def shapes(self, dim: int, languages: int) -> dict[str, list[int]]:
        """The shapes that its float32 arrays must have for embeddings of this width."""


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

    def not_affine(self) -> str:
        """Why there is no single A and b, if so; else empty."""
        return "" if self.clusters is None else "each cluster has its own map"

    def tables(self) -> tuple[str, ...]:
        """The names of the parts that are tables."""
        return tuple(name for name, part in self.arrays().items() if name in AXES and part.ndim > AXES[name])

    def __call__(self, x: Float[AnyArray, "vector dim"], language: LanguageIds) -> Float[Any, "vector dim"]:
        """Applies the step; see ``TransformStep``. numpy arrays are transformed by numpy in their dtype."""
        gathers = self.clusters is not None or (jnp.ndim(language) > 0 and "basis" in self.tables())
        if gathers and len(x) > _GATHERED and "matrix" not in self.tables():
            return in_parts(self, x, language, _GATHERED)
        xp = x.__array_namespace__()
        row = xp.asarray(language) if self.clusters is None else _nearest(self, x, language)

        def pick(name: str) -> Any:
            part = xp.asarray(getattr(self, name))
            return part[row] if name in self.tables() else part

        if self.shift is not None:
            x = x - xp.atleast_2d(pick("shift"))
        if self.scale is not None:
            x = x * xp.atleast_2d(pick("scale"))
        if self.basis is not None:
            basis = pick("basis")
            dual = basis if self.dual is None else pick("dual")
            inner, outer = ("vdr" if part.ndim == 3 else "dr" for part in (basis, dual))
            x = x - _sum(f"vr,{outer}->vd", _sum(f"vd,{inner}->vr", x, basis), dual)
        if self.matrix is not None:
            each = row.ndim == 1 and "matrix" in self.tables()
            x = _by_language(self.matrix, x, row) if each else _sum("vd,ed->ve", x, pick("matrix"))
        if self.offset is not None:
            x = x + xp.atleast_2d(pick("offset"))
        return x

    def arrays(self) -> dict[str, AnyArray]:
        """The parts that it has, by name."""
        return {name: part for name, part in self._asdict().items() if part is not None}

    def parts(self, language: int) -> dict[str, np.ndarray]:
        """The parts of one language, with all of its clusters, and the shared parts."""
        own: Any = language if self.clusters is None else np.asarray(self.clusters) == language
        given = {name: np.asarray(part) for name, part in self.arrays().items() if name in AXES}
        return {name: part[own] if name in self.tables() else part for name, part in given.items()}

    def with_languages(self, parts: Sequence[Mapping[str, np.ndarray]]) -> "Step":
        """Returns the step with tables made of the parts of each language."""
        join: Any = np.stack if self.clusters is None else np.concatenate
        made = {name: jax.device_put(join([of[name] for of in parts])) for name in self.tables()}
        if self.clusters is not None:
            counts = [len(of["shift"]) for of in parts]
            made["clusters"] = jax.device_put(np.repeat(np.arange(len(parts), dtype=np.int32), counts))
        return self._replace(**made)

    def shapes(self, dim: int, languages: int) -> dict[str, list[int]]:
        """The shapes that its parts must have."""
        rows = languages if self.clusters is None else len(self.clusters)
        rank = 0 if self.basis is None else self.basis.shape[-1]
        ends = {"basis": [dim, rank], "dual": [dim, rank], "matrix": [dim, dim]}
        given = [name for name in self.arrays() if name in AXES]
        return {name: [rows] * (name in self.tables()) + ends.get(name, [dim]) for name in given}


Steps = tuple[TransformStep | Blend, ...]


def apply(steps: Steps, x: Float[AnyArray, "vector dim"], ids: tuple[LanguageIds, ...]) -> Float[Any, "vector dim"]:
    """Applies steps in order, with the row of each step's tables; pure, for use under ``jit`` and ``vmap``."""
    results = [x]
    for step, language in zip(steps, ids, strict=True):
        x = step.between(results[-1 - step.steps], x) if isinstance(step, Blend) else step(x, language)
        results.append(x)
    return x


def affine_map(
    steps: Steps, dim: int, ids: tuple[LanguageIds, ...]
) -> tuple[Float[np.ndarray, "dim dim"], Float[np.ndarray, " dim"]]:
    """Returns A and b of affine steps: the code of a call, on zero and the unit vectors, in float64."""
    wide = jax.tree.map(lambda part: np.asarray(part, np.float64), steps)
    images = apply(wide, np.concatenate([np.zeros((1, dim)), np.eye(dim)]), ids)
    return (images[1:] - images[0]).T, images[0]


# Takes the steps without their records, so that fits on other text, languages or layers share a program.
@jax.jit
def apply_steps(
    steps: Steps, x: Float[Array, "vector dim"], ids: tuple[LanguageIds, ...]
) -> tuple[Float[Array, "vector dim"], Bool[Array, " 2"]]:
    """Applies steps to vectors, and says whether all values were finite before and are after."""
    finite = jnp.isfinite(x).all()
    result = apply(steps, x, ids)
    return result, jnp.stack([finite, jnp.isfinite(result).all()])


def in_parts(
    step: TransformStep, x: Float[AnyArray, "vector dim"], language: LanguageIds, size: int
) -> Float[Array, "vector dim"]:
    """Applies a step to ``size`` vectors at a time, to bound the memory."""
    languages = jnp.broadcast_to(jnp.asarray(language), len(x))
    vectors = jnp.asarray(x), languages
    return jax.lax.map(lambda vector: step(vector[0][None], vector[1])[0], vectors, batch_size=size)


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
    middle = centroids.mean(axis=0, keepdims=True)
    centroids, x = centroids - middle, x - middle
    # Scaled by their spread: squares of large or small numbers leave the range of float32.
    unit = jnp.abs(centroids).max()
    unit = jnp.where(unit > 0, unit, jnp.ones((), unit.dtype))
    centroids, x = centroids / unit, x / unit
    distance = (centroids**2).sum(axis=1)[None] - 2 * _sum("vd,cd->vc", x, centroids)
    same = owner[None] == jnp.reshape(language, (-1, 1))
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
    places = ((numbers - (ends - groups)[language]) * size)[:, None] + jnp.arange(size)[None]
    starts = (jnp.cumsum(counts) - counts)[language]
    vectors = order[jnp.minimum(starts[:, None] + places, len(x) - 1)]
    done = jax.lax.map(lambda group: _sum("vd,ed->ve", x[group[0]], matrix[group[1]]), (vectors, language))
    # Filler is placed past the end, and dropped.
    targets = jnp.where(places < counts[language][:, None], vectors, len(x))
    return jnp.zeros_like(x).at[targets].set(done, mode="drop")
