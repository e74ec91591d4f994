"""Collects the embeddings of batches in one array, in the order of the input.

Batches arrive in any order and carry the positions of their sentences; the total is not always known. Embeddings are
fetched a few batches late, and moved to the devices at the end if they are wanted there.
"""

from collections import deque
from collections.abc import Sequence
from threading import Lock

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from lsar_jax.checks import check_choice
from lsar_jax.mesh import replicated, shares, split
from lsar_jax.moments import Moments
from lsar_jax.moments.accumulator import Accumulator
from lsar_jax.shapes import AnyArray, PooledLayers
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.packing import PackedBatch

__all__ = ["COLLECTIVES", "IN_FLIGHT", "Collector", "HostResult", "MomentsResult", "collector"]

# Results in transfer to the host while the device keeps working.
IN_FLIGHT = 4
# Initial rows of a result whose size is not known.
_FIRST_ROWS = 2048
# Held while programs with collectives run.
COLLECTIVES = Lock()


class HostResult:
    """Collects embeddings in host memory, with a few in flight while the device keeps working.

    Args:
      layers: number of layers in a batch.
      total: number of sentences, or None if that is not known.
      dim: width of an embedding.
      mesh: the devices to which the result is moved at the end; None to leave it in host memory.

    Attributes:
      kept: number of batches at the beginning whose embeddings are here already, and are not added.
    """

    kept = 0

    def __init__(self, layers: int, total: int | None, dim: int, mesh: Mesh | None = None) -> None:
        self._result = np.empty((layers, _FIRST_ROWS if total is None else total, dim), np.float32)
        self._waiting: deque[tuple[PackedBatch, jax.Array]] = deque()
        self._mesh = mesh

    def add(self, batch: PackedBatch, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        value.copy_to_host_async()
        self._waiting.append((batch, value))
        self._collect(IN_FLIGHT)

    def result(self, sentences: int) -> Float[AnyArray, "layer sentence dim"]:
        """Returns the first ``sentences`` rows, all of which were added."""
        self._collect(0)
        x = self._result if self._result.shape[1] == sentences else self._result[:, :sentences].copy()
        if self._mesh is None:
            return x
        place = split(self._mesh, axis=1) if sentences % shares(self._mesh) == 0 else replicated(self._mesh)
        return jax.device_put(x, place)

    def _collect(self, most: int) -> None:
        while len(self._waiting) > most:
            batch, value = self._waiting.popleft()
            layers, rows, dim = self._result.shape
            if (last := int(batch.numbers.max())) >= rows:
                grown = np.empty((layers, max(last + 1, 2 * rows), dim), np.float32)
                grown[:, :rows] = self._result
                self._result = grown
            there = batch.numbers >= 0
            real, numbers = np.asarray(value)[:, there], batch.numbers[there]
            _check_embeddings(real, numbers)
            self._result[:, numbers] = real


class MomentsResult:
    """Sums embeddings on the devices that computed them, and keeps none of them."""

    kept = 0

    def __init__(self, specs: Sequence[EncoderSpec], mesh: Mesh, second_moment: bool) -> None:
        self._specs = specs
        self._sums = Accumulator(mesh, len(specs), second_moment=second_moment)

    def add(self, batch: PackedBatch, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        self._sums.add(value, batch.numbers)

    def result(self, sentences: int) -> list[Moments]:
        """Returns the moments of each layer."""
        sums = self._sums.result()
        return [Moments(*layer, spec) for layer, spec in zip(sums, self._specs, strict=True)]


Collector = HostResult | MomentsResult


def collector(output: str, layers: int, total: int | None, dim: int, mesh: Mesh) -> Collector:
    """Returns the collector for ``output``; other names are a ValueError."""
    check_choice("output", output, ("numpy", "jax"))
    return HostResult(layers, total, dim, mesh if output == "jax" else None)


def _check_embeddings(x: Float[np.ndarray, "layer row dim"], numbers: Int[np.ndarray, " row"]) -> None:
    finite = np.isfinite(x).all(axis=(0, 2))
    if not finite.all():
        raise ValueError(
            f"the embeddings hold NaN or infinity, for example in row {numbers[finite.argmin()]}; the weights of the "
            "encoder or the transform may be damaged, or too large for its dtype"
        )
