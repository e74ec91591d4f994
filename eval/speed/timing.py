"""Timing of repeated calls."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lsar_jax import SentenceEncoder
from lsar_jax.cli.console import console
from lsar_jax.models.transformer import TransformerConfig

__all__ = ["HERE", "Measured", "operations_per_token", "print_latency", "times"]

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
    """

    case: str
    version: str
    seconds: float
    work: str
    share: float | None = None


def operations_per_token(config: TransformerConfig, length: int = 0) -> float:
    """Returns the floating-point operations of the matrix products of all blocks for one token.

    Args:
      config: sizes of the encoder.
      length: number of tokens that it attends to; with 0, the products of attention itself are left out.
    """
    kernels = 4 * config.hidden**2 + 2 * config.hidden * config.intermediate
    return 2.0 * config.blocks * (kernels + 2 * length * config.hidden)


def print_latency(encoder: SentenceEncoder, sentence: str, language: str, max_length: int) -> None:
    """Prints the median time of a warm call with one sentence."""
    code = language if encoder.uses_language else None

    def encode() -> int:
        return encoder.encode_with_report(sentence, language=code, max_length=max_length)[1].tokens

    tokens, calls = encode(), times(encode, 20)
    median = 1000 * float(np.median(calls))
    console.print(f"warm latency for one sentence of {tokens} tokens: {median:.1f} ms (median of {len(calls)} calls)")


def times(call: Callable[[], object], repeats: int) -> list[float]:
    """Returns the seconds of each of ``repeats`` calls."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds
