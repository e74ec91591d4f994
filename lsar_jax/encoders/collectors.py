"""Collects the embeddings of batches in one array, in the order of the input.

Batches arrive in any order and carry the positions of their sentences; the total is not always known. Embeddings for
host memory are fetched a few batches late; embeddings that stay on the devices are written to their place there.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from threading import Lock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Float, Int

from lsar_jax.arrays import all_finite, row_bucket
from lsar_jax.checks import check_choice
from lsar_jax.mesh import replicated, shares, split
from lsar_jax.moments import Moments
from lsar_jax.moments.accumulator import Accumulator
from lsar_jax.shapes import AnyArray, PooledLayers
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.packing import PackedBatch

__all__ = ["COLLECTIVES", "IN_FLIGHT", "Collector", "DeviceResult", "HostResult", "MomentsResult", "collector"]

# Results in transfer to the host while the device keeps working.
IN_FLIGHT = 4
# Initial rows of a result whose size is not known.
_FIRST_ROWS = 2048
# A result on the device with more rows than this is allocated at its exact size.
_LARGE = 1 << 17
# Held while programs with collectives run.
COLLECTIVES = Lock()


class HostResult:
    """Collects embeddings in host memory, with a few in flight while the device keeps working.

    Args:
      layers: number of layers in a batch.
      total: number of sentences, or None if that is not known.
      dim: width of an embedding.
      mesh: the devices to which the result is moved at the end; None to leave it in host memory.
    """

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
        return jax.device_put(x, _sharding(self._mesh, sentences))

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


class DeviceResult:
    """Collects embeddings on the devices, and puts each in its place; arguments as of ``HostResult``, ``total`` known.

    On one device a batch is placed as it arrives. On several, bringing rows together takes collectives, and threads
    that launch them in different orders would deadlock, so they run at the end, one thread at a time.
    """

    def __init__(self, layers: int, total: int, dim: int, mesh: Mesh) -> None:
        self._mesh, parts = mesh, shares(mesh)
        # Few sizes, so that calls of all sizes share the program that places a batch; a large result is worth its own.
        rows = total if total > _LARGE else row_bucket(total, _LARGE)
        rows = -(-rows // parts) * parts
        self._buffer = jnp.zeros((layers, rows, dim), jnp.float32, device=split(mesh, axis=1))
        self._waiting: list[tuple[PackedBatch, jax.Array]] = []

    def add(self, batch: PackedBatch, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        self._waiting.append((batch, value))
        if self._mesh.devices.size == 1:
            self._place()

    def result(self, sentences: int) -> Float[jax.Array, "layer sentence dim"]:
        """Returns the first ``sentences`` rows, all of which were added."""
        with COLLECTIVES if self._mesh.devices.size > 1 else nullcontext():
            self._place()
            # The whole buffer: it has one of a few sizes, and zeros past the end.
            if not all_finite(self._buffer):
                _check_embeddings(np.asarray(self._buffer), np.arange(self._buffer.shape[1]))
            x = self._buffer if sentences == self._buffer.shape[1] else self._buffer[:, :sentences]
            if self._mesh.devices.size == 1:
                return x
            return jax.device_put(x, _sharding(self._mesh, sentences)).block_until_ready()

    def _place(self) -> None:
        for batch, value in self._waiting:
            # What is no sentence is placed past the end, and dropped.
            places = np.where(batch.numbers < 0, self._buffer.shape[1], batch.numbers).astype(np.int32)
            self._buffer = _place(self._buffer, value, places)
        self._waiting.clear()


class MomentsResult:
    """Sums embeddings on the devices that computed them, and keeps none of them."""

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


Collector = HostResult | DeviceResult | MomentsResult


def collector(output: str, layers: int, total: int | None, dim: int, mesh: Mesh) -> Collector:
    """Returns the collector for ``output``; other names are a ValueError."""
    check_choice("output", output, ("numpy", "jax"))
    # Several devices that share the threads of a CPU can deadlock in collectives; host memory is theirs anyway.
    shared = mesh.devices.size > 1 and mesh.devices.flat[0].platform == "cpu"
    # In host memory, what grows takes no room from the encoder.
    if output == "numpy" or shared or total is None:
        return HostResult(layers, total, dim, None if output == "numpy" else mesh)
    return DeviceResult(layers, total, dim, mesh)


def _check_embeddings(x: Float[np.ndarray, "layer row dim"], numbers: Int[np.ndarray, " row"]) -> None:
    finite = np.isfinite(x).all(axis=(0, 2))
    if not finite.all():
        raise ValueError(
            f"the embeddings hold NaN or infinity, for example in row {numbers[finite.argmin()]}; the weights of the "
            "encoder or the transform may be damaged, or too large for its dtype"
        )


def _sharding(mesh: Mesh, sentences: int) -> NamedSharding:
    return split(mesh, axis=1) if sentences % shares(mesh) == 0 else replicated(mesh)


@partial(jax.jit, donate_argnums=0)
def _place(
    buffer: Float[jax.Array, "layer place dim"], value: PooledLayers, places: Int[AnyArray, " vector"]
) -> Float[jax.Array, "layer place dim"]:
    return buffer.at[:, places].set(value, mode="drop")
