"""Collects the embeddings of batches in one array, in the order of the input.

Batches arrive in any order and carry the positions of their sentences; the total is not always
known. Embeddings for host memory are fetched a few batches late; embeddings that stay on the
devices are written to their place there.
"""

from collections import deque
from functools import partial
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Float, Int

from lsar_jax.arrays import all_finite, row_bucket
from lsar_jax.mesh import replicated, split
from lsar_jax.moments import Moments
from lsar_jax.moments.accumulator import Accumulator
from lsar_jax.shapes import AnyArray, PooledLayers
from lsar_jax.tokens.buckets import Slot

__all__ = ["IN_FLIGHT", "Collector", "DeviceResult", "HostResult", "MomentsResult", "SharedResult", "collector"]

# Results in transfer to the host while the device keeps working.
IN_FLIGHT = 4
# Initial rows of a result whose size is not known.
_FIRST_ROWS = 2048
# A result on the device with more rows than this is allocated at its exact size.
_LARGE = 1 << 17
# Held while programs with collectives run.
_COLLECTIVES = Lock()


@runtime_checkable
class Collector(Protocol):
    """Takes batches of embeddings and returns what it has collected."""

    def add(self, slot: Slot, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        ...

    def result(self, sentences: int) -> Any:
        """Returns the result for the first ``sentences`` sentences, all of which were added."""
        ...


class HostResult:
    """Collects results in host memory, with a few in flight while the device keeps working.

    Args:
      layers: number of layers in a batch.
      total: number of sentences, or None if that is not known.
      dim: width of an embedding.
    """

    def __init__(self, layers: int, total: int | None, dim: int) -> None:
        self._result = np.empty((layers, _FIRST_ROWS if total is None else total, dim), np.float32)
        self._waiting: deque[tuple[Slot, jax.Array]] = deque()

    def add(self, slot: Slot, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        value.copy_to_host_async()
        self._waiting.append((slot, value))
        if len(self._waiting) > IN_FLIGHT:
            self._collect()

    def result(self, sentences: int) -> Float[np.ndarray, "layer sentence dim"]:
        """Returns the first ``sentences`` rows, all of which were added."""
        while self._waiting:
            self._collect()
        whole = self._result.shape[1] == sentences
        return self._result if whole else self._result[:, :sentences].copy()

    def _collect(self) -> None:
        slot, value = self._waiting.popleft()
        needed = int(slot.numbers.max()) + 1
        layers, rows, dim = self._result.shape
        if needed > rows:
            grown = np.empty((layers, max(needed, 2 * rows), dim), np.float32)
            grown[:, :rows] = self._result
            self._result = grown
        real = np.asarray(value)[:, : len(slot.sentences)]
        _check_embeddings(real, slot.numbers)
        self._result[:, slot.numbers] = real


class DeviceResult:
    """Collects results on the devices and puts each in its place.

    On one device a result is placed as it arrives. On several, bringing rows together takes
    collectives, and two threads that launch them in different orders would deadlock, so they
    all run at the end, one thread at a time. Several devices that share the few threads of a
    CPU can deadlock even so; for those, ``collector`` goes through host memory, which is the
    memory of these devices too.

    Args:
      layers: number of layers in a batch.
      total: number of sentences, or None if that is not known.
      dim: width of an embedding.
      mesh: the devices.
    """

    def __init__(self, layers: int, total: int | None, dim: int, mesh: Mesh) -> None:
        self._mesh = mesh
        rows = self._rows(_FIRST_ROWS if total is None else total)
        self._buffer = jnp.zeros((layers, rows, dim), jnp.float32, device=split(mesh, axis=1))
        self._waiting: list[tuple[Slot, jax.Array]] = []

    def add(self, slot: Slot, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        if self._mesh.devices.size == 1:
            self._place(slot, value)
        else:
            self._waiting.append((slot, value))

    def result(self, sentences: int) -> Float[jax.Array, "layer sentence dim"]:
        """Returns the first ``sentences`` rows, all of which were added."""
        if self._mesh.devices.size == 1:
            self._check()
            return self._cut(sentences)
        with _COLLECTIVES:
            for slot, value in self._waiting:
                self._place(slot, value)
            self._check()
            return jax.device_put(self._cut(sentences), _sharding(self._mesh, sentences)).block_until_ready()

    def _check(self) -> None:
        # The whole buffer: it has one of a few sizes, and zeros past the end.
        if not all_finite(self._buffer):
            _check_embeddings(np.asarray(self._buffer), np.arange(self._buffer.shape[1]))

    def _place(self, slot: Slot, value: jax.Array) -> None:
        rows, needed = self._buffer.shape[1], int(slot.numbers.max()) + 1
        if needed > rows:
            grown = self._rows(max(needed, 2 * rows))
            padded = jnp.pad(self._buffer, ((0, 0), (0, grown - rows), (0, 0)))
            self._buffer, rows = jax.device_put(padded, split(self._mesh, axis=1)), grown
        # Filler rows are placed past the end, and dropped.
        places = np.full(slot.rows, rows, np.int32)
        places[: len(slot.sentences)] = slot.numbers
        self._buffer = _place(self._buffer, value, places)

    def _cut(self, sentences: int) -> jax.Array:
        return self._buffer if sentences == self._buffer.shape[1] else self._buffer[:, :sentences]

    def _rows(self, least: int) -> int:
        # Few sizes, so that calls of all sizes share the program that places a batch; a large
        # result is worth its own program.
        rows = least if least > _LARGE else row_bucket(least, _LARGE)
        devices = self._mesh.devices.size
        return -(-rows // devices) * devices


class SharedResult:
    """Collects results in host memory, and moves them to the devices at the end.

    Args:
      layers: number of layers in a batch.
      total: number of sentences, or None if that is not known.
      dim: width of an embedding.
      mesh: the devices.
    """

    def __init__(self, layers: int, total: int | None, dim: int, mesh: Mesh) -> None:
        self._host = HostResult(layers, total, dim)
        self._mesh = mesh

    def add(self, slot: Slot, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        self._host.add(slot, value)

    def result(self, sentences: int) -> Float[jax.Array, "layer sentence dim"]:
        """Returns the first ``sentences`` rows, all of which were added."""
        return jax.device_put(self._host.result(sentences), _sharding(self._mesh, sentences))


class MomentsResult:
    """Sums results on the devices that computed them, and keeps none of them.

    Args:
      layers: number of layers in a batch.
      mesh: the devices.
      second_moment: whether to keep the scatter.
    """

    def __init__(self, layers: int, mesh: Mesh, second_moment: bool) -> None:
        self._sums = Accumulator(mesh, layers, second_moment=second_moment)

    def add(self, slot: Slot, value: PooledLayers) -> None:
        """Takes the embeddings of a batch."""
        self._sums.add(value, slot.numbers)

    def result(self, sentences: int) -> list[Moments]:
        """Returns the moments of each layer."""
        return [Moments.of(sums) for sums in self._sums.result()]


def collector(output: str, layers: int, total: int | None, dim: int, mesh: Mesh) -> Collector:
    """Returns the collector for ``output``, which is ``numpy`` or ``jax``."""
    if output == "numpy":
        return HostResult(layers, total, dim)
    shared = mesh.devices.size > 1 and mesh.devices.flat[0].platform == "cpu"
    return (SharedResult if shared else DeviceResult)(layers, total, dim, mesh)


def _check_embeddings(x: Float[np.ndarray, "layer row dim"], numbers: Int[np.ndarray, " row"]) -> None:
    finite = np.isfinite(x).all(axis=(0, 2))
    if not finite.all():
        raise ValueError(
            f"the embeddings hold NaN or infinity, for example in row {numbers[finite.argmin()]}; the weights of the "
            "encoder or the transform may be damaged, or too large for its dtype"
        )


def _sharding(mesh: Mesh, sentences: int) -> NamedSharding:
    return split(mesh, axis=1) if sentences % mesh.devices.size == 0 else replicated(mesh)


@partial(jax.jit, donate_argnums=0)
def _place(
    buffer: Float[jax.Array, "layer place dim"], value: PooledLayers, places: Int[AnyArray, " batch"]
) -> Float[jax.Array, "layer place dim"]:
    return buffer.at[:, places].set(value, mode="drop")
