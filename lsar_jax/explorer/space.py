"""Embeddings in fewer dimensions and bytes, in which a transform of low rank acts as it does on whole vectors.

The basis Q holds whatever the transforms subtract, and beyond it the principal directions of the sentences. With
``z = Q^T x``, a step ``y = x - s - D B^T (x - s) + o``, whose parts all lie in the span of Q, is the same formula in z,
with ``Q^T s``, ``Q^T D`` and so on; what is left of x outside the span stays as it is, and only its length is kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from lsar_jax.transforms.base.steps import AXES, Step, TransformStep, apply

__all__ = ["Space", "first_columns", "in_basis", "move", "reduce", "spanned"]

# Singular values below this share of the largest are rounding errors of float32.
_NOISE = 1e-6


class Space(NamedTuple):
    """The sentences of a layer in fewer dimensions.

    Attributes:
      basis: Q, with orthonormal columns.
      center, scale: what the bytes stand for: ``z = center + scale * values``.
      values: one byte for a dimension of a sentence, or two.
      residual: length of what is outside the span of Q.
    """

    basis: Float[np.ndarray, "dim width"]
    center: Float[np.ndarray, " width"]
    scale: Float[np.ndarray, " width"]
    values: Int[np.ndarray, "sentence width"]
    residual: Float[np.ndarray, " sentence"]

    @property
    def z(self) -> Float[np.ndarray, "sentence width"]:
        """The coordinates, as they are read from the bytes."""
        return self.center.astype(np.float64) + self.scale * self.values.astype(np.float64)


def reduce(x: Float[np.ndarray, "sentence dim"], steps: Sequence[Step], width: int, kind: type = np.int8) -> Space:
    """Returns the sentences in ``width`` dimensions, or in as many as the steps need if these are more.

    ``kind`` is the type of integers in which they are kept.
    """
    span = spanned(x.mean(axis=0, keepdims=True), steps)
    outside = x - (x @ span.T) @ span
    _, vectors = np.linalg.eigh(outside.T @ outside)
    others = min(max(width, len(span)), x.shape[1]) - len(span)
    # The eigenvectors of the eigenvalue 0 have parts in the span, which a second orthogonalization removes.
    basis, _ = np.linalg.qr(np.concatenate([span.T, vectors[:, ::-1][:, :others]], axis=1))
    z = x @ basis
    residual = np.sqrt(np.maximum((x**2).sum(axis=1) - (z**2).sum(axis=1), 0))
    center = z.mean(axis=0).astype(np.float32)
    scale = (np.abs(z - center).max(axis=0) / np.iinfo(kind).max).astype(np.float32)
    scale[scale == 0] = 1
    return Space(basis, center, scale, np.rint((z - center) / scale).astype(kind), residual.astype(np.float32))


def spanned(rows: Float[np.ndarray, "row dim"], steps: Sequence[Step]) -> Float[np.ndarray, "direction dim"]:
    """Returns an orthonormal basis of rows and of the parts of steps, as rows."""
    parts = [_vectors(part, AXES[name]) for step in steps for name, part in step._asdict().items() if part is not None]
    columns = np.concatenate([rows, *parts])
    lengths = np.linalg.norm(columns, axis=1)
    _, values, directions = np.linalg.svd(columns[lengths > 0] / lengths[lengths > 0, None], full_matrices=False)
    return directions[values > _NOISE * values[0]]


def first_columns(steps: Sequence[Step], rank: int) -> tuple[Step, ...]:
    """Returns steps that remove only the first directions of their bases."""
    cut = [{name: getattr(of, name) for name in ("basis", "dual") if getattr(of, name) is not None} for of in steps]
    pairs = zip(steps, cut, strict=True)
    return tuple(of._replace(**{name: part[..., :rank] for name, part in parts.items()}) for of, parts in pairs)


def in_basis(step: Step, basis: Float[np.ndarray, "dim width"]) -> Step:
    """Returns a step of low rank in the coordinates of a basis, in float32."""
    inside = {
        name: np.tensordot(np.asarray(part, np.float64), basis, (-AXES[name], 0))
        for name, part in step._asdict().items()
        if part is not None
    }
    # The coordinates are the last axis now, but should stand before that of the directions.
    turned = {name: np.moveaxis(part, -1, -AXES[name]) for name, part in inside.items()}
    return Step(**{name: part.astype(np.float32) for name, part in turned.items()})


def move(
    steps: Sequence[TransformStep], x: Float[np.ndarray, "sentence dim"], counts: Sequence[int]
) -> Float[np.ndarray, "sentence dim"]:
    """Applies steps to sentences in the order of their languages, of each so many, in float64 without clusters."""
    precise = jax.tree.map(lambda p: p if p.dtype.kind == "i" else np.asarray(p, np.float64), tuple(steps))
    of_language = np.split(x, np.cumsum(counts)[:-1])
    moved = [apply(precise, rows, (np.asarray(number),) * len(precise)) for number, rows in enumerate(of_language)]
    return np.concatenate(moved)


def _vectors(part: np.ndarray, axes: int) -> Float[np.ndarray, "row dim"]:
    """The vectors of a part as rows."""
    return np.moveaxis(np.asarray(part, np.float64), -axes, -1).reshape(-1, part.shape[-axes])
