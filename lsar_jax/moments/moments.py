"""The count, the mean and, optionally, the centred second moment of one language's embeddings.

They can be merged, so a corpus can be read in parts, by several devices or machines, and languages can be chosen
afterwards.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from lsar_jax.arrays import check_floats, pad_rows, row_bucket, same_width
from lsar_jax.checks import check_flags, whole_number
from lsar_jax.mesh import data_mesh, shares, split
from lsar_jax.moments.accumulator import Accumulator, Sums, host_sums, merge_sums
from lsar_jax.processes import gather
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec, same_source

__all__ = ["BLOCK", "Moments", "sum_over_processes"]

# Rows per block on each device, and blocks that may wait for the devices.
BLOCK = 8192
_WAITING = 2


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter (the centred second moment) of a set of vectors.

    Attributes:
      count: number of vectors.
      mean: mean of the vectors, ``[dim]`` float64.
      scatter: sum of ``(x - mean)(x - mean)^T``, ``[dim, dim]`` float64, or None if it was not kept.
      source: spec of the encoder whose embeddings were summed, or None for bare arrays.

    Example:
      >>> x = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 6.0]])
      >>> first = lj.Moments.from_embeddings(x[:2], second_moment=True)
      >>> both = first.merge(lj.Moments.from_embeddings(x[2:], second_moment=True))
      >>> both
      Moments(count=3, dim=2, second_moment=True)
      >>> both.mean.tolist(), both.covariance().tolist()
      ([2.0, 2.0], [[1.0, 0.0], [0.0, 12.0]])
    """

    count: int
    mean: Float[np.ndarray, " dim"]
    scatter: Float[np.ndarray, "dim dim"] | None = None
    source: EncoderSpec | None = None

    def __post_init__(self) -> None:
        whole_number("the count", self.count, 1, 1 << 62, "vectors")

    @classmethod
    def from_embeddings(
        cls, x: Embeddings, *, second_moment: bool = False, precise: bool = False, mesh: Mesh | None = None
    ) -> "Moments":
        """Returns the moments of the rows of ``x``.

        Args:
          x: ``[n, dim]``, n at least 1, of any float dtype.
          second_moment: whether to keep the scatter, which LIR, whitening, LEACE and identifiers need.
          precise: whether to sum on the host in float64; see ``lsar_jax.moments``.
          mesh: as in ``from_blocks``.

        Raises:
          ValueError: ``x`` is not such an array, a value is not finite, float32 cannot hold the sums, or a flag is
            not a bool.
        """
        check_floats("embeddings", x)
        return cls.from_blocks([x], second_moment=second_moment, precise=precise, mesh=mesh)

    @classmethod
    def from_blocks(
        cls,
        blocks: Iterable[Embeddings],
        *,
        second_moment: bool = False,
        precise: bool = False,
        mesh: Mesh | None = None,
    ) -> "Moments":
        """Returns the moments of all rows of a stream of blocks, with only one block in memory at a time.

        Args:
          blocks: arrays ``[n, dim]`` of any float dtype; n is at least 1 and may vary.
          second_moment: whether to keep the scatter.
          precise: whether to sum on the host in float64.
          mesh: devices that share the rows of each block; by default, where the first block lies if it
            is a jax array, or else all local devices.

        Raises:
          ValueError: there are no blocks, widths differ, or as for ``from_embeddings``; the error names the row.
        """
        check_flags(second_moment=second_moment, precise=precise)
        accumulator: Accumulator | None = None
        sums: list[Sums] = []
        on_host = mesh is None and not second_moment
        dim, rows = 0, 0
        for x in blocks:
            check_floats("embeddings", x)
            dim = dim or x.shape[1]
            if isinstance(x, jax.core.Tracer):
                raise ValueError("a fit sums numbers; under jit, vmap and grad there are none: use lsar_jax.functional")
            same_width("the blocks", {"the first": dim, "another": x.shape[1]})
            # float32 does not hold the differences of float64 numbers with a large offset.
            if precise or x.dtype.itemsize > 4 or (on_host and isinstance(x, np.ndarray)):
                sums = [reduce(merge_sums, (*sums, host_sums(x, second_moment, rows)))]
                rows += len(x)
                continue
            there = sorted(x.devices(), key=lambda device: device.id) if isinstance(x, jax.Array) else None
            mesh = mesh or data_mesh(there)
            accumulator = accumulator or Accumulator(mesh, 1, second_moment=second_moment)
            most = BLOCK * shares(mesh)
            for start in range(0, len(x), most):
                part = x[start : start + most]
                accumulator.add(_place(part, mesh), np.arange(rows, rows + len(part)))
                rows += len(part)
                accumulator.wait(_WAITING)
        sums += accumulator.result() if accumulator else []
        if not sums:
            raise ValueError("there are no embeddings")
        return cls(*reduce(merge_sums, sums))

    def __repr__(self) -> str:
        kept = "" if self.scatter is None else ", second_moment=True"
        source = "" if self.source is None else f", source={f'{self.source.id}, layer {self.source.layer}'!r}"
        return f"Moments(count={self.count}, dim={self.dim}{kept}{source})"

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return len(self.mean)

    def update(self, x: Embeddings, *, precise: bool = False) -> "Moments":
        """Returns the moments of the vectors summed so far and the rows of ``x``, ``[n, dim]``, together.

        Raises:
          ValueError: as for ``from_embeddings``, or the widths differ.
        """
        return self.merge(Moments.from_embeddings(x, second_moment=self.scatter is not None, precise=precise))

    def merge(self, other: "Moments") -> "Moments":
        """Returns the moments of both sets of vectors together.

        Raises:
          ValueError: the widths differ, only one of the two kept its scatter, or they are of different encoders.
        """
        same_width("the moments", {"the first": self.dim, "the second": other.dim})
        if (self.scatter is None) != (other.scatter is None):
            raise ValueError("only one of the two kept its second moment; use second_moment=True for both")
        source = same_source("the moments", {"the second": other.source, "the first": self.source})
        mine, theirs = (Sums(m.count, m.mean, m.scatter) for m in (self, other))
        return Moments(*merge_sums(mine, theirs), source)

    def second_moment(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the uncentred second moment, the mean of ``x x^T``, ``[dim, dim]`` float64.

        Raises:
          ValueError: the second moment was not kept.
        """
        return self.kept_scatter() / self.count + np.outer(self.mean, self.mean)

    def covariance(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the sample covariance, divided by ``count - 1``, ``[dim, dim]`` float64.

        Raises:
          ValueError: the second moment was not kept, or there is only one vector.
        """
        scatter = self.kept_scatter()
        if self.count < 2:
            raise ValueError("one embedding has no covariance; at least 2 are needed")
        return scatter / (self.count - 1)

    def kept_scatter(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the scatter; raises ValueError if it was not kept."""
        if self.scatter is None:
            raise ValueError("the second moment was not kept; use Moments.from_embeddings(x, second_moment=True)")
        return self.scatter


def sum_over_processes(moments: Moments | None) -> Moments:
    """Returns the moments of the vectors of all processes together; every process must call this.

    They are merged in float64 in the order of the processes, so that all of them get the same numbers. Of several
    languages, sum one after another, in the same order everywhere. A process without vectors gives None.

    Raises:
      ConnectionError: another process has ended.
      ValueError: no process has vectors; or the widths or encoders differ, or only some kept second moments.
    """
    parts = [_read(part) for part in gather(b"" if moments is None else _written(moments)) if part]
    if not parts:
        raise ValueError("there are no embeddings")
    return reduce(Moments.merge, parts)


def _place(x: Embeddings, mesh: Mesh) -> Float[jax.Array, "layer row dim"]:
    parts = shares(mesh)
    rows = row_bucket(len(x), BLOCK * parts)
    if isinstance(x, np.ndarray) and x.dtype not in (np.float32, np.float16):
        # Also gives the native byte order; bfloat16 is included because it is not numpy's own.
        x = x.astype(np.float32)
    return jax.device_put(pad_rows(x, -(-rows // parts) * parts)[None], split(mesh, axis=1))


def _written(moments: Moments) -> bytes:
    source = moments.source.to_dict() if moments.source else None
    header = json.dumps([moments.count, len(moments.mean), source]).encode()
    arrays = [moments.mean] if moments.scatter is None else [moments.mean, moments.scatter]
    return b"\n".join([header, b"".join(np.ascontiguousarray(array, np.float64).tobytes() for array in arrays)])


def _read(written: bytes) -> Moments:
    header, _, numbers = written.partition(b"\n")
    count, dim, source = json.loads(header)
    values = np.frombuffer(numbers, np.float64)
    scatter = values[dim:].reshape(dim, dim) if len(values) > dim else None
    return Moments(count, values[:dim], scatter, EncoderSpec.from_dict(source) if source else None)
