"""Embeddings of a batch over devices: each keeps those of its own sentences, and is sent those of the links it scores.

The rows of a chunk are split over the devices, and so is what is computed from them. Joined over the chunks, the rows
of one device follow those of another, so that nothing moves; ``train.align.batches`` counts them in this order.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

__all__ = ["cut", "joined", "sent"]


def joined(parts: Sequence[Array], devices: int, filler: int) -> Array:
    """Joins arrays whose rows are split over the devices; the rows of the result are split in the same way.

    Args:
      parts: arrays that differ in their number of rows alone, a multiple of ``devices``.
      devices: number of devices.
      filler: number of zero rows to append on each device.
    """
    rest = parts[0].shape[1:]
    own = jnp.concatenate([part.reshape(devices, len(part) // devices, *rest) for part in parts], axis=1)
    own = jnp.pad(own, [(0, 0), (0, filler), *[(0, 0)] * len(rest)])
    return own.reshape(-1, *rest)


def cut(whole: Array, devices: int, counts: Sequence[int]) -> list[Array]:
    """Takes apart what ``joined`` joined.

    Args:
      whole: the joined array.
      devices: number of devices.
      counts: number of rows of each part.
    """
    rest = whole.shape[1:]
    own = whole.reshape(devices, len(whole) // devices, *rest)
    parts, first = [], 0
    for count in counts:
        parts.append(own[:, first : first + count // devices].reshape(count, *rest))
        first += count // devices
    return parts


def sent(own: Float[Array, "row dim"], wanted: Int[Array, " link"], axis_name: str) -> Float[Array, "share dim"]:
    """Returns, in ``shard_map``, the rows of all devices that this device's share of the links asks for.

    Args:
      own: the rows of this device.
      wanted: for every link, the same on all devices, the row it asks for, counted over all devices.
      axis_name: the axis that the rows are split over; the number of links is a multiple of its size.
    """
    place = wanted - len(own) * jax.lax.axis_index(axis_name)
    here = (place >= 0) & (place < len(own))
    found = jnp.where(here[:, None], own[jnp.where(here, place, 0)], 0)
    return jax.lax.psum_scatter(found, axis_name, tiled=True)
