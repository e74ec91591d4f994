"""Embeddings of a batch over devices: each keeps its own, and receives those that its links refer to.

The rows of a chunk are split over the devices. Joined over the chunks, the rows of one device follow those of another,
so that nothing moves. Chunks are joined and cut one at a time: there is a program for each shape of a chunk and each
number of joined rows, and not for each combination of chunks.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

__all__ = ["cut", "joined", "sent"]


def joined(parts: Sequence[Array], devices: int, filler: int) -> Array:
    """Joins arrays whose rows are split over the devices, as the result's are; each device ends in filler, zeros."""
    counts = [len(part) // devices for part in parts]
    whole = _begun(parts[0], devices, sum(counts) + filler)
    first = counts[0]
    for part, count in zip(parts[1:], counts[1:], strict=True):
        whole = _extended(whole, part, devices, first)
        first += count
    return whole


@partial(jax.jit, static_argnums=(1, 2))
def cut(whole: Array, devices: int, count: int, first: int) -> Array:
    """Returns ``count`` rows of all devices of what was joined, after the ``first`` of each."""
    part = jax.lax.dynamic_slice_in_dim(_by_device(whole, devices), first, count // devices, axis=1)
    return part.reshape(count, *whole.shape[1:])


def sent(rows: Float[Array, "row dim"], asked: Int[Array, " link"], axis_name: str) -> Float[Array, "scored dim"]:
    """Returns, inside ``shard_map``, the rows that this device's part of the links asks for, whichever device has them.

    ``asked`` has all links, whose number is a multiple of the devices. Every device offers what it has for them, and
    the sum of the offers is scattered: what is held and sent grows with the links of the batch, not its positions.
    """
    place = asked - len(rows) * jax.lax.axis_index(axis_name)
    here = (place >= 0) & (place < len(rows))
    offered = jnp.where(here[:, None], rows[jnp.where(here, place, 0)], 0)
    return jax.lax.psum_scatter(offered, axis_name, tiled=True)


@partial(jax.jit, static_argnums=(1, 2))
def _begun(part: Array, devices: int, room: int) -> Array:
    here = _by_device(part, devices)
    padded = jnp.pad(here, [(0, 0), (0, room - here.shape[1]), *[(0, 0)] * (part.ndim - 1)])
    return padded.reshape(-1, *part.shape[1:])


@partial(jax.jit, static_argnums=2, donate_argnums=0)
def _extended(whole: Array, part: Array, devices: int, first: int) -> Array:
    both = _by_device(whole, devices), _by_device(part, devices)
    return jax.lax.dynamic_update_slice_in_dim(*both, first, axis=1).reshape(whole.shape)


def _by_device(x: Array, devices: int) -> Array:
    return x.reshape(devices, len(x) // devices, *x.shape[1:])
