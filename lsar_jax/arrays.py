"""Preparation of embedding arrays for compiled functions: checks, float32, unit length and padding.

XLA compiles one program per shape, so rows are padded with zeros to a power of two, or to a multiple of a
limit; arrays of different sizes can then share a program.
"""

import hashlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lsar_jax.shapes import AnyArray, Embeddings

__all__ = ["all_finite", "bucketed", "check_floats", "digest", "pad_rows", "padded_rows", "row_bucket", "unit_rows"]

_MOST_ROWS = 16384


def row_bucket(count: int, most: int = _MOST_ROWS) -> int:
    """Returns the power of two to which ``count`` rows are padded, but at most ``most``."""
    return min(most, 1 << max(0, count - 1).bit_length())


def pad_rows(x: Float[AnyArray, "row dim"], multiple: int) -> Float[AnyArray, "padded dim"]:
    """Returns ``x`` padded with zero rows to a multiple of ``multiple``.

    A numpy array is padded on the host, because padding on the device would compile one program per size.
    """
    pad = jnp.pad if isinstance(x, jax.Array) else np.pad
    return pad(x, ((0, -len(x) % multiple), (0, 0)))


def bucketed(x: Float[AnyArray, "row dim"], most: int = _MOST_ROWS) -> Float[Array, "padded dim"]:
    """Returns ``x`` in float32, padded to ``row_bucket`` rows, or to a multiple of ``most`` if it has more."""
    return jnp.asarray(pad_rows(x, row_bucket(len(x), most)), jnp.float32)


@jax.jit
def unit_rows(x: Float[Array, "*row dim"]) -> Float[Array, "*row dim"]:
    """Divides each vector ``[..., dim]`` by its Euclidean length; a zero vector stays zero."""
    # Divide by the largest entry first: squares of entries near 1e-30 vanish in float32.
    largest = jnp.abs(x).max(axis=-1, keepdims=True)
    x = x / jnp.where(largest > 0, largest, 1.0)
    norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return x / jnp.where(norm > 0, norm, 1.0)


@jax.jit
def all_finite(x: Array) -> Bool[Array, ""]:
    """Returns whether ``x`` has neither NaN nor infinity."""
    return jnp.isfinite(x).all()


def check_floats(name: str, x: object, least: int = 1) -> None:
    """Checks that ``x`` is an array of embeddings.

    Args:
      name: name of the array, used in error messages.
      x: the value to check.
      least: smallest number of rows allowed.

    Raises:
      ValueError: ``x`` is not a numpy or jax array of floats ``[n, dim]`` with n >= ``least`` and dim >= 1.
    """
    if not isinstance(x, jax.Array | np.ndarray) or not jnp.issubdtype(x.dtype, jnp.floating):
        kind = f"{type(x).__module__}.{type(x).__name__} of {getattr(x, 'dtype', 'no dtype')}"
        raise ValueError(f"{name} must be a numpy or jax array of floats, not a {kind}")
    if x.ndim != 2 or x.shape[0] < least or x.shape[1] == 0:
        raise ValueError(
            f"the shape of {name} is {x.shape}; expected [n, dim] with n at least {least} and dim at least 1"
        )


def padded_rows(
    arrays: Mapping[str, Embeddings], least: int = 1, *, unit: bool = True
) -> tuple[Float[Array, "_ dim"], ...]:
    """Checks arrays of the same width and returns them in float32, padded with zero rows to a few sizes.

    This works under ``jit`` and ``vmap``, but NaN and infinity are not detected there.

    Args:
      arrays: mapping from name, used in error messages, to embeddings ``[n, dim]``.
      least: smallest number of rows of each array.
      unit: whether to scale rows to norm 1; zero rows stay zero.

    Raises:
      ValueError: a value is not such an array, the widths differ, there are too few rows, or a value is not finite.
    """
    for name, x in arrays.items():
        check_floats(name, x, least)
    widths = {name: x.shape[1] for name, x in arrays.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(f"the arrays differ in width: {widths}")
    padded = {name: bucketed(x) for name, x in arrays.items()}
    if unit:
        padded = {name: unit_rows(rows) for name, rows in padded.items()}
    for name, rows in padded.items():
        if not isinstance(rows, jax.core.Tracer) and not all_finite(rows):
            bad = ~np.isfinite(np.asarray(rows)).all(axis=1)[: len(arrays[name])]
            raise ValueError(
                f"{name} holds NaN or infinity in {bad.sum()} of {len(bad)} rows; the first is row {bad.argmax()}"
            )
    return tuple(padded.values())


def digest(*parts: AnyArray | str | None) -> str:
    """Returns a 12-digit hexadecimal hash of strings and arrays (their values, shapes and dtypes)."""
    result = hashlib.sha256()
    for part in parts:
        array = None if part is None or isinstance(part, str) else np.ascontiguousarray(part)
        result.update(repr(part if array is None else (array.dtype.str, array.shape)).encode())
        if array is not None:
            result.update(array.tobytes())
    return result.hexdigest()[:12]
