"""Rows of a benchmark, the time of calls that take turns, and the rates that bound it."""

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from lsar_jax.console.output import console

__all__ = ["HERE", "Timing", "copy_rate", "fastest", "import_torch", "operations_per_token", "product_rate"]

# The name of this library among the versions of a benchmark.
HERE = "lsar_jax"


class Timing(NamedTuple):
    """How long a version of a benchmark took for a piece of work."""

    case: str  # what was done; the versions of a case do the same
    version: str  # lsar_jax, or a peer
    seconds: float  # of the fastest run
    work: str  # that took this long
    share: float | None = None  # in percent: the least time by operations or bytes, of the time; None if not known
    answer: str = ""  # how far the result is that of the other versions


def fastest(calls: Mapping[Any, Callable[[], Any]], repeats: int) -> tuple[dict[Any, float], dict[Any, Any]]:
    """The seconds of the fastest call of each name, and the result of its first call.

    The calls take turns, after one of each that is not timed, as it may compile.
    """
    results = {name: jax.block_until_ready(call()) for name, call in calls.items()}
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds, results


def product_rate(shape: tuple[int, int, int] | None = None, dtype: str = "float32") -> float:
    """Measures the FLOP/s of a product of ``[rows, inner]`` and ``[inner, columns]``, summed in float32."""
    rows, inner, columns = shape or (2048 if jax.default_backend() == "cpu" else 8192,) * 3
    # Of ones, a GPU is faster.
    left = jax.random.normal(jax.random.key(0), (rows, inner), dtype)
    right = jax.random.normal(jax.random.key(1), (inner, columns), dtype)
    highest = jax.lax.Precision.HIGHEST
    product = jax.jit(lambda x, y: jnp.matmul(x, y, precision=highest, preferred_element_type=jnp.float32))
    return 2.0 * rows * inner * columns / fastest({0: lambda: product(left, right)}, 20)[0][0]


def copy_rate() -> float:
    """Measures the bytes per second that a large copy reads and writes."""
    x = np.ones(1 << 26, np.float32)
    out = np.ones_like(x)
    return 2 * x.nbytes / fastest({0: lambda: np.copyto(out, x)}, 5)[0][0]


def operations_per_token(encoder: Any) -> float:
    """Counts the operations of the products with the weights of all blocks of an ``Encoder`` for a token."""
    leaves = nnx.to_flat_state(nnx.state(encoder.blocks))
    return 2 * float(sum(leaf[...].size for path, leaf in leaves if path[-1] == "kernel"))


def import_torch() -> tuple[Any, str]:
    """Imports torch for the device that jax runs on, and prints both; raises ImportError if it is not installed."""
    torch = importlib.import_module("torch")
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    console.print(f"torch {torch.__version__} on {device}, {torch.get_num_threads()} threads")
    return torch, device
