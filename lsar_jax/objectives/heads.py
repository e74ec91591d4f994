"""Affine heads that extract the meaning and the language of embeddings."""

from typing import NamedTuple

from jaxtyping import Array, Float

from lsar_jax.arrays import product

__all__ = ["Head", "HeadOutputs", "Heads", "apply_head", "apply_heads"]


class Head(NamedTuple):
    """An affine map, ``y = x W^T + b``.

    Attributes:
      matrix: W, ``[out, in]``.
      offset: b, ``[out]``.
    """

    matrix: Float[Array, "out in"]
    offset: Float[Array, " out"]


class Heads(NamedTuple):
    """The meaning head and the language head."""

    meaning: Head
    language: Head


class HeadOutputs(NamedTuple):
    """The outputs of both heads for embeddings, each ``[vector, dim]``."""

    meaning: Float[Array, "vector dim"]
    language: Float[Array, "vector dim"]


def apply_head(head: Head, x: Float[Array, "vector in"]) -> Float[Array, "vector out"]:
    """Returns ``x W^T + b``, ``[vector, out]``, for x ``[vector, in]``."""
    return product(x, head.matrix.T) + head.offset[None]


def apply_heads(heads: Heads, x: Float[Array, "vector dim"]) -> HeadOutputs:
    """Returns the meaning and the language of embeddings ``[vector, dim]``."""
    return HeadOutputs(apply_head(heads.meaning, x), apply_head(heads.language, x))
