"""The best k of each row, and of two lists that are already in order; ties go to the lower index.

To sort a whole row for its best few is slow. The row is cut into blocks instead: the k blocks with the largest maxima
hold the k best scores, because a score in any other block comes after the maxima of all k. Only these blocks are
sorted.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

__all__ = ["Best", "best_of", "best_of_columns", "merged"]

# The scores of each row, [row, k], best first, and their indices.
Best = tuple[Float[Array, "_ _"], Int[Array, "_ _"]]
_Count = int | Int[Array, ""]

# Below this width, the maxima cost as much as they save.
_LEAST_BLOCK = 8
_LARGEST_BLOCK = 64


def best_of(scores: Float[Array, "row column"], k: int, real: _Count) -> Best:
    """Returns the k largest scores of each row, and their columns; those from ``real`` on repeat the one before it."""
    block = _block_width(scores.shape[1], k)

    def whole(scores: Float[Array, "row column"]) -> Best:
        return _sorted(_masked(scores, jnp.arange(scores.shape[1], dtype=jnp.int32), real), k)

    def by_block(scores: Float[Array, "row column"], block: int) -> Best:
        blocks = scores.reshape(len(scores), -1, block)
        chosen = _best_blocks(blocks.max(axis=2), k, block, real)
        top_blocks = jnp.take_along_axis(blocks, chosen[:, :, None], axis=1)
        return _best_within(top_blocks.reshape(len(scores), k * block), chosen, block, real)

    return _chosen(scores, block, whole, by_block)


def best_of_columns(scores: Float[Array, "row column"], k: int, real: _Count) -> Best:
    """Returns the k largest scores of each column, and their rows: ``best_of`` of the transpose, which is not made."""
    block = _block_width(len(scores), k)
    columns = scores.shape[1]

    def whole(scores: Float[Array, "row column"]) -> Best:
        return _sorted(_masked(scores.T, jnp.arange(len(scores), dtype=jnp.int32), real), k)

    def by_block(scores: Float[Array, "row column"], block: int) -> Best:
        blocks = scores.reshape(-1, block, columns)
        chosen = _best_blocks(blocks.max(axis=1).T, k, block, real)
        top_blocks = jnp.take_along_axis(blocks, chosen.T[:, None, :], axis=0)
        return _best_within(top_blocks.reshape(k * block, columns).T, chosen, block, real)

    return _chosen(scores, block, whole, by_block)


def merged(first: Best, second: Best) -> Best:
    """Returns the best of two lists of the same length; equal scores stay in the order of the lists."""
    scores, ids = (jnp.concatenate(parts, axis=1) for parts in zip(first, second, strict=True))
    top, where = _sorted(scores, first[0].shape[1])
    return top, jnp.take_along_axis(ids, where, axis=1)


def _chosen(
    scores: Float[Array, "row column"],
    block: int | None,
    whole: Callable[[Array], Best],
    by_block: Callable[[Array, int], Best],
) -> Best:
    if block is None:
        return whole(scores)
    # A TPU gathers slowly, and keeps the scores in its fast memory.
    return jax.lax.platform_dependent(scores, tpu=whole, default=lambda scores: by_block(scores, block))


def _best_blocks(maxima: Float[Array, "row block"], k: int, width: int, real: _Count) -> Int[Array, "row k"]:
    """Returns the k blocks with the largest maxima, in their order, since equal scores go to the lower index."""
    # Filler does not change the maximum of a block, because it repeats what is in the block.
    starts = width * jnp.arange(maxima.shape[1], dtype=jnp.int32)
    return jnp.sort(_sorted(_masked(maxima, starts, real), k)[1], axis=1)


def _best_within(top_blocks: Float[Array, "row score"], chosen: Int[Array, "row k"], width: int, real: _Count) -> Best:
    ids = chosen[:, :, None] * width + jnp.arange(width, dtype=jnp.int32)
    ids = ids.reshape(top_blocks.shape)
    top, where = _sorted(jnp.where(ids < real, top_blocks, -jnp.inf), chosen.shape[1])
    return top, jnp.take_along_axis(ids, where, axis=1)


def _masked(scores: Float[Array, "row column"], ids: Int[Array, " column"], real: _Count) -> Float[Array, "row column"]:
    return jnp.where(ids < real, scores, -jnp.inf)


def _block_width(columns: int, k: int) -> int | None:
    """Returns the width of a block, which divides the columns; None if there is nothing to gain."""
    width = _LARGEST_BLOCK
    # What is sorted, columns / width + k * width, is least at the square root of columns / k.
    while width > _LEAST_BLOCK and (width * width * k > columns or columns % width):
        width //= 2
    fits = columns % width == 0 and columns // width >= k and width * width * k <= columns
    return width if fits else None


def _sorted(scores: Float[Array, "row column"], k: int) -> Best:
    if k == 1:  # one pass instead of a sort
        where = jnp.argmax(scores, axis=1).astype(jnp.int32)[:, None]
        return jnp.take_along_axis(scores, where, axis=1), where
    top, where = jax.lax.top_k(scores, k)
    return top, where
