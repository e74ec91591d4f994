"""Rows of a benchmark, the time of calls that take turns, and the rates that bound it."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lsar_jax.cli.console import console
from lsar_jax.models.transformer import TransformerConfig

__all__ = ["HERE", "Measured", "copy_rate", "fastest", "import_torch", "operations_per_token", "product_rate"]

K = TypeVar("K")

# The name of this library among the versions of a benchmark.
HERE = "lsar_jax"


class Measured(NamedTuple):
    """How long one version of a benchmark took for a piece of work.

    Attributes:
      case: what was done; the versions of a case do the same.
      version: ``lsar_jax``, or a peer.
      seconds: time of the fastest run.
      work: what took this long.
      share: the lower bound on the time, by operations or bytes, as a share of it in percent; None if not known.
      answer: how far the result is that of the other versions.
    """

    case: str
    version: str
    seconds: float
    work: str
    share: float | None = None
    answer: str = ""


def fastest(calls: Mapping[K, Callable[[], Any]], repeats: int) -> tuple[dict[K, float], dict[K, Any]]:
    """Times calls that take turns, after one call of each that may compile.

    Args:
      calls: functions by name.
      repeats: number of timed calls of each.

    Returns:
      The seconds of the fastest call of each name, and the result of its first call.
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
    """Measures the FLOP/s of a matrix product on the default device, summed in float32.

    Args:
      shape: rows, columns of the first matrix, and columns of the second; by default, large ones.
      dtype: dtype of both matrices.
    """
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


def operations_per_token(config: TransformerConfig, length: int = 0) -> float:
    """Counts the floating-point operations of the matrix products of all blocks for one token.

    Args:
      config: sizes of the encoder.
      length: number of tokens that it attends to; with 0, the products of attention itself are left out.
    """
    kernels = 4 * config.hidden**2 + 2 * config.hidden * config.intermediate
    return 2.0 * config.blocks * (kernels + 2 * length * config.hidden)


def import_torch() -> tuple[Any, str]:
    """Imports torch for the device that jax runs on, and prints both.

    Raises:
      ImportError: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("torch is not installed: pip install torch") from error
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    console.print(f"torch {torch.__version__} on {device}, {torch.get_num_threads()} threads")
    return torch, device
