"""The matrix product of a linear layer in bfloat16: summed in float32 and rounded once, on every kind of device."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsar_jax.mesh import cpu_features

__all__ = ["summed_in_float32"]

# The input and the weights of a linear layer.
_Rows = Float[Array, "*rows inner"]
_Kernel = Float[Array, "inner outer"]


def summed_in_float32(x: _Rows, kernel: _Kernel, *_: Any, **__: Any) -> Float[Array, "*rows outer"]:
    """Stands in for ``lax.dot_general`` in ``nnx.Linear``, which always contracts the same dimensions."""
    return _linear(x, kernel)


@jax.custom_vjp
def _linear(x: _Rows, kernel: _Kernel) -> Float[Array, "*rows outer"]:
    return _dot(x, kernel, (x.ndim - 1,), (0,))


def _linear_backward(saved: tuple[_Rows, _Kernel], gradient: Float[Array, "*rows outer"]) -> tuple[_Rows, _Kernel]:
    x, kernel = saved
    *rows, last = range(x.ndim)
    return _dot(gradient, kernel, (last,), (1,)), _dot(x, gradient, rows, rows)


_linear.defvjp(lambda x, kernel: (_linear(x, kernel), (x, kernel)), _linear_backward)


def _dot(a: Array, b: Array, over_a: Sequence[int], over_b: Sequence[int]) -> Array:
    dot = partial(jax.lax.dot_general, dimension_numbers=((over_a, over_b), ((), ())))

    def wide(a: Array, b: Array) -> Array:
        if _multiplies_bfloat16():
            return dot(a, b, preferred_element_type=jnp.float32).astype(a.dtype)
        wide_a, wide_b = a.astype(jnp.float32), b.astype(jnp.float32)
        return dot(wide_a, wide_b, precision=jax.lax.Precision.HIGHEST).astype(a.dtype)

    # XLA's CPU compiler uses a CPU's matrix units (AMX) only if the result of the product is declared as float32. On
    # accelerators the sum is in float32 in any case, and declaring it costs 3 to 5% more memory traffic.
    return jax.lax.platform_dependent(a, b, cpu=wide, default=dot)


def _multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for products in bfloat16; without, float32 is faster and as exact."""
    return "bf16" in cpu_features()
