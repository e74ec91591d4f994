"""Rows padded to few sizes, because XLA compiles one program a shape."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from lsar_jax.shapes import AnyArray

__all__ = ["pad_rows", "row_bucket"]


def row_bucket(count: int, most: int) -> int:
    """Returns the power of two that ``count`` rows are padded to, or ``most`` if that is less."""
    return min(most, 1 << max(0, count - 1).bit_length())


def pad_rows(x: Float[AnyArray, "row dim"], multiple: int) -> Float[AnyArray, "padded dim"]:
    """Returns ``x`` with rows of zeros up to a multiple of ``multiple``.

    On the host where the array is there: padding on the device is itself a program a size.
    """
    pad = jnp.pad if isinstance(x, jax.Array) else np.pad
    return pad(x, ((0, -len(x) % multiple), (0, 0)))
