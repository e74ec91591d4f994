"""Count, mean and scatter of a stream of vectors, summed on the devices that hold them.

Each device sums its own rows, so only one partial sum per device is ever transferred. A block of rows
is summed in float32 around a pivot from the block and merged into the device's running sums by the
pairwise rule (Chan, Golub and LeVeque 1979), with the mean kept in two floats. After every half a
million rows, the devices' sums go to the host, which merges them in float64 with integer counts.
Therefore neither a large common offset nor 10^8 rows cost precision.
"""

from collections import deque
from functools import cache, partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.mesh import shares
from lsar_jax.shapes import AnyArray

__all__ = ["Accumulator", "Sums", "host_sums", "merge_sums", "next_block", "zero_state"]

# Rows to sum on the devices before the host takes over; float32 counts them exactly.
_WINDOW = 1 << 19
# Rows that stay in the cache of the host's processor while they are summed.
_CACHED = 256
_LARGEST = float(np.finfo(np.float32).max)
# Below this variance, squares are subnormal in float32: they lose precision and then underflow.
_LEAST_VARIANCE = 3e-37
_DEVICE = PartitionSpec("data")
_ROWS = PartitionSpec(None, "data")
# Stands for the index of the first row that is not finite, if all rows are finite.
_NONE = int(np.iinfo(np.int32).max)
_NOT_FINITE = "the embeddings hold NaN, infinity or a number too large for float32, first in row {}"


class Sums(NamedTuple):
    """The sums of one layer in float64, as the host keeps them: the fields of ``Moments``."""

    rows: int
    mean: Float[np.ndarray, " dim"]
    scatter: Float[np.ndarray, "dim dim"] | None = None


class _State(NamedTuple):
    """Running sums of one device: ``high + low`` is the mean, ``bad`` the index of the first row that is not finite."""

    rows: Float[Array, " device"]
    high: Float[Array, "device layer dim"]
    low: Float[Array, "device layer dim"]
    scatter: Float[Array, "device layer dim dim"] | None
    bad: Int[Array, " device"]


class Accumulator:
    """Sums blocks of ``layers`` layers over the devices of a mesh; ``second_moment`` keeps the scatter."""

    def __init__(self, mesh: Mesh, layers: int, *, second_moment: bool) -> None:
        self._mesh, self._layers, self._second_moment = mesh, layers, second_moment
        self._sums: list[Sums] | None = None
        self._state: _State | None = None
        self._rows = 0  # in this window
        self._counts: deque[jax.Array] = deque()  # of each block, known once it is summed

    def add(self, x: Float[Array, "layer row dim"], numbers: Int[np.ndarray, " real"]) -> None:
        """Adds a block split over the mesh; ``numbers`` are the rows' places in the input, -1 for filler.

        On each device, filler comes last; ``numbers`` may leave out the last device's.
        """
        places = np.full(x.shape[1], -1, np.int32)
        places[: len(numbers)] = np.minimum(numbers, _NONE - 1)
        if self._state is None:
            self._state = zero_state(self._mesh, self._layers, x.shape[2], self._second_moment)
        self._state, count = next_block(self._mesh)(self._state, x, places)
        self._counts.append(count)
        self._rows += int(np.count_nonzero(places >= 0))
        if self._rows >= _WINDOW:
            self._flush()

    def wait(self, most: int) -> None:
        """Waits until at most ``most`` blocks are not summed yet; until they are, they are in memory."""
        while len(self._counts) > most:
            # Not the state, which is given away to the next block.
            self._counts.popleft().block_until_ready()

    def result(self) -> list[Sums]:
        """Returns the sums of every layer.

        Raises:
          ValueError: there are no rows, a row is not finite, or float32 cannot hold the sums.
        """
        self._flush()
        if self._sums is None:
            raise ValueError("there are no embeddings")
        return self._sums

    def _flush(self) -> None:
        if self._state is None:
            return
        state = jax.tree.map(np.asarray, self._state)
        if (bad := int(state.bad.min())) < _NONE:
            raise ValueError(_NOT_FINITE.format(bad))
        if not all(np.isfinite(part).all() for part in (state.high, state.low, state.scatter) if part is not None):
            raise ValueError("the embeddings are too large for float32 sums; use precise=True")
        if state.scatter is not None:
            variance = np.trace(state.scatter.sum(axis=0), axis1=1, axis2=2) / (state.rows.sum() * state.high.shape[-1])
            # For constant rows, the low part of the mean is zero; if squares have underflowed, it is not.
            if ((variance < _LEAST_VARIANCE) & ((variance > 0) | state.low.any(axis=(0, 2)))).any():
                raise ValueError("the embeddings vary too little for float32 squares; use precise=True")
        for device, count in enumerate(state.rows):
            if count:
                means = state.high[device].astype(np.float64) + state.low[device]
                fresh = [
                    Sums(
                        int(count), mean, None if state.scatter is None else state.scatter[device, layer].astype(float)
                    )
                    for layer, mean in enumerate(means)
                ]
                self._sums = fresh if self._sums is None else list(map(merge_sums, self._sums, fresh))
        self._state, self._rows = None, 0
        self._counts.clear()


def host_sums(x: Float[AnyArray, "row dim"], second_moment: bool, first: int) -> Sums:
    """Sums one or more rows on the host in float64; ``first`` is the index of the first row, for error messages.

    Raises:
      ValueError: a row is not finite in float32.
    """
    rows, size = np.asarray(x), 2048 if second_moment else _CACHED
    starts = range(0, len(rows), size)
    shares = (_host_share(rows[start : start + size], second_moment, first + start) for start in starts)
    return reduce(merge_sums, shares)


def _host_share(x: Float[np.ndarray, "row dim"], second_moment: bool, first: int) -> Sums:
    rows = x.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.ones(len(rows)) @ rows / len(rows)
    # A row that is not finite makes the sum so; float64 may also hold finite numbers that float32 does not.
    if x.dtype.itemsize > 4 or not np.isfinite(mean).all():
        bad = ~(np.abs(rows) <= _LARGEST).all(axis=1)
        if bad.any():
            raise ValueError(_NOT_FINITE.format(first + int(bad.argmax())))
    if not second_moment:
        return Sums(len(x), mean)
    rows -= mean
    return Sums(len(x), mean, rows.T @ rows)


def merge_sums(a: Sums, b: Sums) -> Sums:
    """Returns the sums of two sets of vectors together, in float64."""
    rows = a.rows + b.rows
    delta = b.mean - a.mean
    mean = a.mean + delta * (b.rows / rows)
    if a.scatter is None or b.scatter is None:
        return Sums(rows, mean)
    return Sums(rows, mean, a.scatter + b.scatter + np.outer(delta, delta) * (a.rows * (b.rows / rows)))


def zero_state(mesh: Mesh, layers: int, dim: int, second_moment: bool) -> _State:
    """Returns the running sums of no rows, on each device."""
    count, sharding = shares(mesh), NamedSharding(mesh, _DEVICE)
    zeros = partial(jnp.zeros, dtype=jnp.float32, device=sharding)
    return _State(
        rows=zeros(count),
        high=zeros((count, layers, dim)),
        low=zeros((count, layers, dim)),
        scatter=zeros((count, layers, dim, dim)) if second_moment else None,
        bad=jnp.full(count, _NONE, jnp.int32, device=sharding),
    )


@cache
def next_block(mesh: Mesh) -> jax.stages.Wrapped:
    """Returns the program that adds a block to the running sums; each device sums its own rows, without collectives."""
    specs = (_DEVICE, _ROWS, _DEVICE)
    return jax.jit(jax.shard_map(_add, mesh=mesh, in_specs=specs, out_specs=_DEVICE, check_vma=False), donate_argnums=0)


def _add(
    state: _State, x: Float[Array, "layer row dim"], places: Int[Array, " row"]
) -> tuple[_State, Float[Array, " device"]]:
    """Returns the sums with the block added, and its number of rows on each device."""
    x = x.astype(state.high.dtype)
    there = places >= 0
    old_count = state.rows[0]
    new_count = there.sum(dtype=jnp.int32).astype(x.dtype)
    # Layer by layer: on a CPU, a product with a batch axis runs as a plain loop.
    merged = []
    for layer in range(len(x)):
        scatter = None if state.scatter is None else state.scatter[0, layer]
        old = state.high[0, layer], state.low[0, layer], scatter
        merged.append(_merge_block(there, old_count, new_count, x[layer], *old))
    highs, lows, scatters = zip(*merged, strict=True)

    def first_bad() -> Int[Array, ""]:
        finite = jnp.isfinite(x).all(axis=(0, 2))
        return jnp.min(jnp.where(there & ~finite, places, _NONE))

    # A row that is not finite makes the sum of its block so. To look for it would take another pass over the block.
    sums = jnp.stack(lows).sum() + jnp.stack(highs).sum()
    bad = jax.lax.cond(jnp.isfinite(sums), lambda: jnp.asarray(_NONE, jnp.int32), first_bad)
    added = _State(
        rows=(old_count + new_count)[None],
        high=jnp.stack(highs)[None],
        low=jnp.stack(lows)[None],
        scatter=None if state.scatter is None else jnp.stack(scatters)[None],
        bad=jnp.minimum(state.bad, bad),
    )
    return added, new_count[None]


def _merge_block(
    there: Bool[Array, " row"],
    old_count: Float[Array, ""],
    new_count: Float[Array, ""],
    x: Float[Array, "row dim"],
    high: Float[Array, " dim"],
    low: Float[Array, " dim"],
    scatter: Float[Array, "dim dim"] | None,
) -> tuple[Float[Array, " dim"], Float[Array, " dim"], Float[Array, "dim dim"] | None]:
    zero, one = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
    number = jnp.maximum(new_count, one)
    # The pivot is the elementwise median of three rows. A mean computed here would be rounded where
    # it is returned but not where it is subtracted (XLA contracts a product and a difference), so
    # that the scatter would belong to a different mean.
    last = jnp.maximum(new_count.astype(jnp.int32) - 1, 0)
    a, b, c = x[0], x[last // 2], x[last]
    pivot = jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))
    off = jnp.where(there[:, None], x - pivot[None], zero)
    offset = off.sum(axis=0) / number
    share = new_count / jnp.maximum(old_count + new_count, one)
    delta = (pivot - high) + (offset - low)
    moved = low + delta * share
    # The sum of two floats and its rounding error (Knuth's two-sum).
    total = high + moved
    part = total - high
    lost = (high - (total - part)) + (moved - part)
    first = old_count == 0
    new_high, new_low = jnp.where(first, pivot, total), jnp.where(first, offset, lost)
    if scatter is not None:
        centred = jnp.where(there[:, None], off - offset[None], zero)
        inside = jnp.matmul(centred.T, centred, precision=jax.lax.Precision.HIGHEST)
        scatter = scatter + inside + jnp.outer(delta, delta) * (old_count * share)
    return new_high, new_low, scatter
