"""Embeddings made ready for compiled functions: checks, float32, unit length and padding.

XLA compiles one program per shape, so rows are padded with zeros to a power of two, or to a multiple of a limit.
"""

import hashlib
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.mesh import check_process
from lsar_jax.shapes import AnyArray, Embeddings

__all__ = [
    "all_finite",
    "bucketed",
    "check_floats",
    "check_rows",
    "check_width",
    "digest",
    "in_float32",
    "log",
    "near_one",
    "not_finite",
    "pad_rows",
    "padded_rows",
    "product",
    "row_bucket",
    "same_width",
    "times_power",
    "to_device",
    "unit_rows",
    "warn_far_off",
]

log = logging.getLogger("lsar_jax")
_MOST_ROWS = 16384
# A power of two, by which numbers are multiplied without rounding.
_FAR = 2.0**64
# A row whose largest value is smaller loses digits: those of its values that are below 2^-126 count as zero.
_LEAST = 2.0**-103


def row_bucket(count: int, most: int = _MOST_ROWS) -> int:
    """The rows to which ``count`` are padded: a power of two, or above 1,024 a multiple of its eighth, to ``most``."""
    power = 1 << max(0, count - 1).bit_length()
    step = power // 8 if power > 1024 else power
    return min(most, max(1, -(-count // step)) * step)


def to_device(x: AnyArray) -> Float[Array, "*shape"]:
    """Returns a copy in float32 on the device; ``jnp.asarray`` would compile a program for each shape."""
    return jax.device_put(np.array(x, np.float32))


def product(x: AnyArray, y: AnyArray) -> Any:
    """Multiplies matrices in their full precision on every device; numpy multiplies its own."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return x @ y
    return jnp.matmul(x, y, precision=jax.lax.Precision.HIGHEST)


def pad_rows(x: Float[AnyArray, "row dim"], multiple: int, *, repeat: bool = False) -> Float[AnyArray, "padded dim"]:
    """Returns ``x`` padded to a multiple of ``multiple``, with zero rows, or with its last row.

    A numpy array is padded on the host, because padding on the device would compile one program per size.
    """
    pad: Any = jnp.pad if isinstance(x, jax.Array) else np.pad
    return pad(x, ((0, -len(x) % multiple), (0, 0)), mode="edge" if repeat else "constant")


def bucketed(x: Float[AnyArray, "row dim"], most: int = _MOST_ROWS) -> Float[Array, "padded dim"]:
    """Returns ``x`` in float32, padded to ``row_bucket`` rows, or to a multiple of ``most`` if it has more."""
    return in_float32(pad_rows(x, row_bucket(len(x), most)))


def in_float32(x: Float[AnyArray, "*shape"]) -> Float[Array, "*shape"]:
    """Returns ``x`` in float32; numbers that are too large become infinities, which ``check_rows`` reports."""
    check_process()
    with np.errstate(over="ignore"):
        return jnp.asarray(x, jnp.float32)


@jax.jit
def unit_rows(x: Float[Array, "*row dim"]) -> Float[Array, "*row dim"]:
    """Divides each vector ``[..., dim]`` by its Euclidean length; a zero vector stays zero."""
    # Divide by the largest entry first: squares of entries near 1e-30 vanish in float32. Before that, bring it near 1:
    # XLA may multiply by its reciprocal, and that of 3e38 vanishes.
    largest = jnp.abs(x).max(axis=-1, keepdims=True)
    near = jnp.where(largest > _FAR, 1 / _FAR, jnp.where(largest < 1 / _FAR, _FAR, 1.0)).astype(x.dtype)
    x, largest = x * near, largest * near
    x = x / jnp.where(largest > 0, largest, 1.0)
    square = jnp.square(x).sum(axis=-1, keepdims=True)
    # The gradient of the length of a zero vector would be NaN.
    return x / jnp.sqrt(jnp.where(square > 0, square, 1.0))


@partial(jax.jit, static_argnames="by_row")
def near_one(x: Float[Array, "row dim"], by_row: bool) -> tuple[Float[Array, "row dim"], Int[Array, "_ 1"]]:
    """Divides each row, or the whole array, by a power of two that brings its largest entry into [0.5, 1).

    Returns the rows, whose products neither overflow nor vanish, and the exponents of two. Nothing is rounded but
    entries that are below 1e-37 of the largest, which become zero.
    """
    exponents = jnp.frexp(jnp.abs(x).max(axis=-1 if by_row else None, keepdims=True))[1]
    return times_power(x, -exponents), exponents


@jax.jit
def times_power(x: Float[Array, "row column"], exponents: Int[Array, "_ 1"]) -> Float[Array, "row column"]:
    """Multiplies rows by powers of two, without rounding unless a result is beyond float32."""
    # In two steps, because a power may be beyond float32 although the result is not.
    half = exponents // 2
    one = jnp.ones((), x.dtype)
    return x * jnp.ldexp(one, half) * jnp.ldexp(one, exponents - half)


@jax.jit
def all_finite(x: Array) -> Bool[Array, ""]:
    """Returns whether ``x`` has neither NaN nor infinity."""
    return jnp.isfinite(x).all()


def check_floats(name: str, x: object, least: int = 1) -> None:
    """Raises ValueError unless ``x`` is a numpy or jax array of floats ``[n, dim]``, n >= ``least`` and dim >= 1.

    ``name`` is the array's in errors. Raises RuntimeError in a forked process, as ``mesh.check_process``.
    """
    check_process()
    masked = isinstance(x, np.ma.MaskedArray)  # whose mask would be ignored
    if masked or not isinstance(x, jax.Array | np.ndarray) or not jnp.issubdtype(x.dtype, jnp.floating):
        kind = f"{type(x).__module__}.{type(x).__name__} of {getattr(x, 'dtype', 'no dtype')}"
        raise ValueError(f"{name} must be a numpy or jax array of floats, not a {kind}")
    if x.ndim != 2 or x.shape[0] < least or x.shape[1] == 0:
        rows = f" with n at least {least} and dim at least 1" if x.ndim == 2 else ""
        raise ValueError(f"the shape of {name} is {x.shape}; expected [n, dim]{rows}")


def check_width(x: object, dim: int, taker: str) -> None:
    """Raises ValueError unless ``x`` is an array of floats ``[n, dim]``, which ``taker`` takes; n may be 0."""
    check_floats("embeddings", x, least=0)
    if x.shape[1] != dim:  # type: ignore[attr-defined]
        raise ValueError(f"embeddings have shape {x.shape}; {taker} takes [n, {dim}]")  # type: ignore[attr-defined]


def same_width(what: str, widths: Mapping[str, int]) -> int:
    """Returns the width of all; raises ValueError, which lists them by name, if they differ."""
    if len(set(widths.values())) > 1:
        raise ValueError(f"{what} differ in width: {widths}")
    return next(iter(widths.values()))


def padded_rows(
    arrays: Mapping[str, Embeddings], least: int = 1, *, unit: bool = True
) -> tuple[Float[Array, "_ dim"], ...]:
    """Checks arrays ``[n, dim]`` of one width, and returns them in float32, padded with zero rows to a few sizes.

    This works under ``jit`` and ``vmap``, but NaN and infinity are not detected there.

    Args:
      arrays: the arrays by their names in errors.
      least: smallest number of rows of each array.
      unit: whether to scale rows to norm 1; zero rows stay zero.

    Raises:
      ValueError: a value is not such an array, the widths differ, there are too few rows, or a value is not finite.
    """
    for name, x in arrays.items():
        check_floats(name, x, least)
        warn_far_off(name, x, cosines=unit)
    same_width("the arrays", {name: x.shape[1] for name, x in arrays.items()})
    padded = {name: bucketed(x) for name, x in arrays.items()}
    for name, rows in padded.items():
        check_rows(name, arrays[name], rows, lengths=unit)
    return tuple(unit_rows(rows) if unit else rows for rows in padded.values())


def check_rows(name: str, x: AnyArray, rows: Float[Array, "*row dim"], *, lengths: bool = False) -> None:
    """Raises ValueError if a value of ``x`` is not finite in float32; under ``jit`` and ``vmap``, nothing is checked.

    ``rows`` are ``x`` in float32 on its device, perhaps with filler rows at the end. With ``lengths``, vectors that are
    too short for float32 to hold their direction, other than zero vectors, are refused too.
    """
    if isinstance(rows, jax.core.Tracer):
        return
    # One program, and one wait for its answer.
    finite, short = jax.device_get(_state(rows))
    if not finite:
        raise not_finite(name, x, rows)
    if not lengths or not short[: len(x)].any():
        return
    # Looked at on the host, because a device may take the smallest numbers for zero.
    chosen = np.flatnonzero(short[: len(x)])
    largest = np.abs(np.asarray(x[chosen], np.float64)).max(axis=-1)
    if (largest > 0).any():
        first = chosen[largest > 0]
        raise ValueError(
            f"{name}: {len(first)} of {len(x)} vectors (the first is row {first[0]}) are too short for float32 to hold "
            f"their direction (their largest value is down to {largest[largest > 0].min():.0e}); scale the array"
        )


def not_finite(name: str, x: AnyArray, rows: Float[Array, "*row dim"]) -> ValueError:
    """Returns the error that says which rows are not finite; arguments as for ``check_rows``."""
    bad = ~np.isfinite(np.asarray(rows)).all(axis=-1).reshape(-1)[: len(x)]
    first = int(bad.argmax())
    what = "a value that float32 cannot hold" if np.isfinite(np.asarray(x[first])).all() else "NaN or infinity"
    hold = "holds" if bad.sum() == 1 else "hold"
    return ValueError(f"{name}: {bad.sum()} of {len(bad)} rows {hold} {what}, the first is row {first}")


def warn_far_off(name: str, x: AnyArray, *, cosines: bool = False) -> None:
    """Logs a warning if float64 rows have so large an offset that float32 keeps few digits of their differences.

    For ``cosines``, an offset costs twice as many digits.
    """
    if isinstance(x, jax.core.Tracer) or x.dtype.itemsize <= 4 or x.ndim != 2 or len(x) < 2:
        return
    values = np.asarray(x)
    with np.errstate(over="ignore", invalid="ignore"):
        spread, offset = values.std(axis=0), np.abs(values.mean(axis=0))
        # Fewer than seven bits are left; a constant dimension has none to lose.
        far = ((spread > 0) & (spread < offset * 2.0**-17)).any()
        far = far or (cosines and 0 < np.linalg.norm(spread) < np.linalg.norm(offset) * 2.0**-8)
    if far:
        log.warning(
            "%s: the offset is so large that float32 keeps few digits of the differences; subtract it in float64 first",
            name,
        )


def digest(*parts: AnyArray | str | None) -> str:
    """Returns a 12-digit hexadecimal hash of strings and arrays (their values, shapes and dtypes)."""
    result = hashlib.sha256()
    for part in parts:
        array = None if part is None or isinstance(part, str) else np.ascontiguousarray(part)
        result.update(repr(part if array is None else (array.dtype.str, array.shape)).encode())
        if array is not None:
            result.update(array.tobytes())
    return result.hexdigest()[:12]


@jax.jit
def _state(rows: Float[Array, "row dim"]) -> tuple[Bool[Array, ""], Bool[Array, " row"]]:
    """Whether all values are finite, and which rows are too short, zero rows included."""
    return jnp.isfinite(rows).all(), jnp.abs(rows).max(axis=-1) < _LEAST
