"""Checked arrays as unit vectors, which cosines are products of, and the moments of their dimensions."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.padding import pad_rows, row_bucket
from lsar_jax.shapes import Embeddings

__all__ = ["mean_and_variance", "padded_rows"]

_MOST_ROWS = 16384


def padded_rows(
    arrays: Mapping[str, Embeddings], least: int = 1, *, unit: bool = True
) -> tuple[Float[Array, "_ dim"], ...]:
    """Returns the rows of each array, with rows of zeros behind them.

    Float32 and padded to few sizes, so that arrays of unequal size share a program. A row of
    zeros stays one. Passes under ``jit`` and ``vmap``, where NaN and infinity go unseen.

    Args:
      arrays: from name, for the errors, to ``[n, dim]`` of one width.
      least: how many rows each must have.
      unit: whether to scale rows to norm 1.

    Raises:
      ValueError: no such arrays, widths that differ, too few rows, or a value that is not
        finite.
    """
    for name, x in arrays.items():
        if not isinstance(x, jax.Array | np.ndarray) or not jnp.issubdtype(x.dtype, jnp.floating):
            kind = f"{type(x).__module__}.{type(x).__name__} of {getattr(x, 'dtype', 'no dtype')}"
            raise ValueError(f"{name} is a numpy or jax array of floats, not a {kind}")
        if x.ndim != 2 or x.shape[0] < least or x.shape[1] == 0:
            raise ValueError(f"{name} has shape {x.shape}; expected [n, dim] with n at least {least}, dim at least 1")
    widths = {name: x.shape[1] for name, x in arrays.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(f"the arrays differ in width: {widths}")
    padded = {name: jnp.asarray(pad_rows(x, row_bucket(len(x), _MOST_ROWS)), jnp.float32) for name, x in arrays.items()}
    if unit:
        padded = {name: _unit(rows) for name, rows in padded.items()}
    for name, rows in padded.items():
        if not isinstance(rows, jax.core.Tracer) and not bool(jnp.isfinite(rows).all()):
            bad = ~np.isfinite(np.asarray(rows)).all(axis=1)[: len(arrays[name])]
            raise ValueError(
                f"{name} holds NaN or infinity in {bad.sum()} of {len(bad)} rows, the first is row {bad.argmax()}"
            )
    return tuple(padded.values())


@jax.jit
def mean_and_variance(
    x: Float[Array, "row dim"], count: int | Int[Array, ""]
) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
    """Returns the mean and the sample variance of the first ``count`` rows."""
    real = (jnp.arange(x.shape[0]) < count)[:, None]
    number = jnp.asarray(count, x.dtype)
    mean = x.sum(axis=0) / number
    # What rounding left out of the mean is found around it, where float32 is fine enough.
    off = jnp.where(real, x - mean, 0.0)
    rest = off.sum(axis=0) / number
    squares = jnp.where(real, off - rest, 0.0) ** 2
    return mean + rest, squares.sum(axis=0) / jnp.maximum(number - 1, 1.0)


@jax.jit
def _unit(x: Float[Array, "row dim"]) -> Float[Array, "row dim"]:
    # Scaled by the largest entry first: squares of 1e-30 vanish in float32.
    largest = jnp.abs(x).max(axis=1, keepdims=True)
    x = x / jnp.where(largest > 0, largest, 1.0)
    norm = jnp.linalg.norm(x, axis=1, keepdims=True)
    return x / jnp.where(norm > 0, norm, 1.0)
