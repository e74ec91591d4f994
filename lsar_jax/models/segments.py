"""Where the sentences of a packed row are.

The sentences of a row follow each other from its first position on, and padding is behind the last. So the number of
tokens of each says where everything is.
"""

import jax.numpy as jnp
from jaxtyping import Array, Int

from lsar_jax.shapes import Lengths, Mask

__all__ = ["inside", "positions_of", "segments_of", "starts_of"]


def starts_of(lengths: Lengths) -> Int[Array, "batch segment"]:
    """Returns the position of the first token of each segment."""
    return jnp.cumsum(lengths, axis=1, dtype=jnp.int32) - lengths


def segments_of(lengths: Lengths, length: int) -> Int[Array, "batch length"]:
    """Returns the segment of each of ``length`` positions; for padding, the number of segments."""
    ends = jnp.cumsum(lengths, axis=1, dtype=jnp.int32)
    return (jnp.arange(length, dtype=jnp.int32)[None, :, None] >= ends[:, None, :]).sum(axis=2, dtype=jnp.int32)


def positions_of(lengths: Lengths, length: int) -> Int[Array, "batch length"]:
    """Returns the place of each position in its segment, from 0 on; 0 for padding."""
    column = jnp.arange(length, dtype=jnp.int32)[None]
    starts, end = starts_of(lengths), jnp.asarray(lengths).sum(axis=1, dtype=jnp.int32)
    before = jnp.where(starts[:, None, :] <= column[:, :, None], starts[:, None, :], 0).max(axis=2)
    return jnp.where(column < end[:, None], column - before, 0)


def inside(lengths: Lengths, length: int, before: int = 0, after: int = 0) -> Mask:
    """Returns whether each position is a token of each segment, without the first and last tokens of the segment."""
    column, starts = jnp.arange(length, dtype=jnp.int32)[None, None], starts_of(lengths)
    first, end = starts + before, starts + lengths - after
    return (column >= first[:, :, None]) & (column < end[:, :, None])
