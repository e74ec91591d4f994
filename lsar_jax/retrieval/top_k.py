"""The best k of each row, and of two lists that are already in order; ties go to the lower index.

To sort a whole row for its best few is slow. The row is cut into blocks instead: the k blocks with the largest maxima
hold the k best scores, because a score in any other block comes after the maxima of all k. Only these blocks are
sorted. On a TPU, a block is a row of a tile of 8 x 128 scores, as they lie in its memory: the product and the maxima
are one kernel, and a block is gathered whole.

A TPU can also be asked for most of the best (Chern et al., "TPU-KNN: K Nearest Neighbor Search at Peak FLOP/s",
NeurIPS 2022): of each bin of scores, only the largest counts, so that a score that shares a bin with a better one is
missed.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float, Int

__all__ = ["Best", "Count", "best_of", "best_of_columns", "merged"]

# The scores of each row, [row, k], best first, and their indices.
Best = tuple[Float[Array, "_ _"], Int[Array, "_ _"]]
Count = int | Int[Array, ""]
T = TypeVar("T")

# Below this width, the maxima cost as much as they save.
_LEAST_BLOCK = 8
_LARGEST_BLOCK = 64
# A TPU's tile of float32.
_SUBLANES, _LANES = 8, 128


def best_of(scores: Float[Array, "row column"], k: int, real: Count) -> Best:
    """Returns the k largest scores of each row, and their columns; those from ``real`` on repeat the one before it."""
    block = _block_width(scores.shape[1], k)

    def whole(scores: Float[Array, "row column"]) -> Best:
        return _sorted(_masked(scores, jnp.arange(scores.shape[1], dtype=jnp.int32), real), k)

    def by_block(scores: Float[Array, "row column"], block: int) -> Best:
        blocks = scores.reshape(len(scores), -1, block)
        chosen = _best_blocks(blocks.max(axis=2), k, block, real)
        top_blocks = jnp.take_along_axis(blocks, chosen[:, :, None], axis=1)
        return _best_within(top_blocks.reshape(len(scores), k * block), chosen, block, real)

    on_tpu = partial(_best_of_tiles, k=k, real=real) if _tiled(scores, k) else whole
    return _by_platform(on_tpu, partial(by_block, block=block) if block else whole, scores)


def best_of_columns(scores: Float[Array, "row column"], k: int, real: Count) -> Best:
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

    return _by_platform(whole, partial(by_block, block=block) if block else whole, scores)


def merged(first: Best, second: Best) -> Best:
    """Returns the best of two lists of the same length; equal scores stay in the order of the lists."""
    scores, ids = (jnp.concatenate(parts, axis=1) for parts in zip(first, second, strict=True))
    top, where = _sorted(scores, first[0].shape[1])
    return top, _taken(ids, where)


def _by_platform(on_tpu: Callable[..., T], default: Callable[..., T], *arrays: Array) -> T:
    return on_tpu(*arrays) if on_tpu is default else jax.lax.platform_dependent(*arrays, tpu=on_tpu, default=default)


def _tiled(scores: Float[Array, "row column"], k: int) -> bool:
    """Whether ``_best_of_tiles`` can be used, and sorts at most half of the scores; for k = 1 one pass does."""
    rows, columns = scores.shape
    return k > 1 and rows % _SUBLANES == 0 and columns % _LANES == 0 and columns // _LANES >= 2 * k


def _best_of_tiles(scores: Float[Array, "row column"], k: int, real: Count) -> Best:
    """Returns the best by blocks as a TPU holds them."""
    rows, columns = scores.shape
    blocks = columns // _LANES
    # Masked before, or else XLA would have the product itself return tiles, in an order that has to be changed again.
    scores = _masked(scores, jnp.arange(columns, dtype=jnp.int32), real)
    scores = with_layout_constraint(scores, Layout((0, 1)))
    # As the tiles lie in memory, so that nothing is moved for it.
    tiles = scores.reshape(rows // _SUBLANES, _SUBLANES, blocks, _LANES).swapaxes(1, 2)
    maxima = tiles.max(axis=3).swapaxes(1, 2).reshape(rows, blocks)
    chosen = _best_blocks(maxima, k, _LANES, real)
    tile, sublane = jnp.divmod(jnp.arange(rows, dtype=jnp.int32)[:, None], _SUBLANES)
    top_blocks = tiles.reshape(-1, _LANES)[(tile * blocks + chosen) * _SUBLANES + sublane]
    return _best_within(top_blocks.reshape(rows, k * _LANES), chosen, _LANES, real)


def _best_blocks(maxima: Float[Array, "row block"], k: int, width: int, real: Count) -> Int[Array, "row k"]:
    """Returns the k blocks with the largest maxima, in their order, since equal scores go to the lower index."""
    # Filler does not change the maximum of a block, because it repeats what is in the block.
    starts = width * jnp.arange(maxima.shape[1], dtype=jnp.int32)
    return jnp.sort(_sorted(_masked(maxima, starts, real), k)[1], axis=1)


def _best_within(top_blocks: Float[Array, "row score"], chosen: Int[Array, "row k"], width: int, real: Count) -> Best:
    ids = chosen[:, :, None] * width + jnp.arange(width, dtype=jnp.int32)[None, None]
    ids = ids.reshape(top_blocks.shape)
    top, where = _sorted(jnp.where(ids < real, top_blocks, -jnp.inf), chosen.shape[1])
    return top, width * _taken(chosen, where // width) + where % width


def _taken(ids: Int[Array, "row id"], where: Int[Array, "row k"]) -> Int[Array, "row k"]:
    """Returns the ids of each row at these places."""

    def by_sum(ids: Int[Array, "row id"], where: Int[Array, "row k"]) -> Int[Array, "row k"]:
        places = jnp.arange(ids.shape[1], dtype=jnp.int32)[None, None]
        return jnp.where(where[:, :, None] == places, ids[:, None, :], 0).sum(axis=2, dtype=ids.dtype)

    # A TPU gathers number by number, and there are few to choose from.
    return _by_platform(by_sum, partial(jnp.take_along_axis, axis=1), ids, where)


def _masked(scores: Float[Array, "row column"], ids: Int[Array, " column"], real: Count) -> Float[Array, "row column"]:
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
