"""Arrays of embeddings as programs take them: checked, float32, unit length, padded to a few sizes.

XLA compiles one program a shape, so rows are padded with zeros to a power of two, or to a multiple of a
limit; arrays of unequal size then share a program.
"""

import hashlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.shapes import AnyArray, Embeddings

__all__ = ["bucketed", "check_floats", "digest", "pad_rows", "padded_rows", "row_bucket", "unit_rows"]

_MOST_ROWS = 16384


def row_bucket(count: int, most: int = _MOST_ROWS) -> int:
    """Returns the power of two that ``count`` rows are padded to, or ``most`` if that is less."""
    return min(most, 1 << max(0, count - 1).bit_length())


def pad_rows(x: Float[AnyArray, "row dim"], multiple: int) -> Float[AnyArray, "padded dim"]:
    """Returns ``x`` with rows of zeros up to a multiple of ``multiple``.

    A numpy array is padded on the host: padding on the device is itself one program a size.
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


def check_floats(name: str, x: object, least: int = 1) -> None:
    """Checks that ``x`` is an array of embeddings.

    Args:
      name: what the array is called in the error.
      x: the candidate.
      least: the smallest number of rows allowed.

    Raises:
      ValueError: ``x`` is not a numpy or jax array of floats ``[n, dim]``, n at least ``least`` and dim at least 1.
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
    """Checks arrays of one width and returns each in float32, padded with zero rows to a few sizes.

    This works under ``jit`` and ``vmap``, where NaN and infinity go unseen.

    Args:
      arrays: name, used in errors, to embeddings ``[n, dim]``.
      least: the smallest number of rows that each array must have.
      unit: whether to scale rows to norm 1; rows of zeros stay zero.

    Raises:
      ValueError: an argument is not such an array, widths differ, rows are too few, or a value is not finite.
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
        if not isinstance(rows, jax.core.Tracer) and not bool(jnp.isfinite(rows).all()):
            bad = ~np.isfinite(np.asarray(rows)).all(axis=1)[: len(arrays[name])]
            raise ValueError(
                f"{name} holds NaN or infinity in {bad.sum()} of {len(bad)} rows, the first is row {bad.argmax()}"
            )
    return tuple(padded.values())


def digest(*parts: AnyArray | str | None) -> str:
    """Returns twelve hexadecimal digits that tell these strings and arrays (values, shapes, dtypes) from others."""
    result = hashlib.sha256()
    for part in parts:
        array = None if part is None or isinstance(part, str) else np.ascontiguousarray(part)
        result.update(repr(part if array is None else (array.dtype.str, array.shape)).encode())
        if array is not None:
            result.update(array.tobytes())
    return result.hexdigest()[:12]
