"""Where a fit decomposes: on the devices that the embeddings lie on in float32, or on the host in float64."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

__all__ = ["decompose", "on_device"]


def on_device(x: Any, precise: bool = False) -> bool:
    """Returns whether all embeddings of a mapping are jax arrays that devices sum, in float32 or less."""
    parts = jax.tree.leaves(x)
    return not precise and all(isinstance(part, jax.Array) and part.dtype.itemsize <= 4 for part in parts)


def decompose(
    x: Any, core: Callable[..., Any], *arrays: Any, precise: bool = False, fast: bool = False, **static: Any
) -> Any:
    """Returns what a core makes of arrays, in float64: on a device of ``x`` if it lies on any, or else by numpy.

    Args:
      x: mapping from language to what a fit was given.
      core: a function of arrays.
      *arrays: its arguments, of which numbers near 1 lose nothing in float32.
      precise: whether to use numpy in any case.
      fast: whether to use the default device, in float32, where ``x`` lies on none, because it takes less time.
      **static: its static arguments.

    Raises:
      numpy.linalg.LinAlgError: the decomposition does not exist.
    """
    there = on_device(x, precise)
    if precise or not (there or fast):
        return core(*arrays, **static)
    where = next(iter(jax.tree.leaves(x)[0].sharding.addressable_devices)) if there else None
    moved = jax.device_put([np.asarray(part, np.float32) for part in arrays], where)
    found = jax.jit(core, static_argnames=tuple(static))(*moved, **static)
    found = jax.tree.map(partial(np.asarray, dtype=np.float64), found)
    if not all(np.isfinite(part).all() for part in jax.tree.leaves(found)):
        raise np.linalg.LinAlgError("the decomposition is not finite in float32")
    return found
