"""The streaming statistic that the moment-based methods are fitted from.

Moments are the count, the mean and, optionally, the centred second moment of one language's embeddings. They can be
merged, so a corpus can be read in parts, by several devices or machines, and languages can be chosen afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from lsar_jax.arrays import check_floats, pad_rows, row_bucket
from lsar_jax.checks import check_flags
from lsar_jax.mesh import data_mesh, split
from lsar_jax.moments.accumulator import Accumulator, Sums, host_sums, merge_sums
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec

__all__ = ["BLOCK", "NOT_KEPT", "Moments"]

# Rows per block on each device, and blocks that may wait for the devices.
BLOCK = 8192
_WAITING = 2
NOT_KEPT = "the second moment was not kept; use Moments.from_embeddings(x, second_moment=True)"


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
      >>> both = first.merge(lj.Moments.from_embeddings(x[2:], second_moment=True))  # the same as first.update(x[2:])
      >>> both.count, both.mean.tolist(), both.covariance().tolist()
      (3, [2.0, 2.0], [[1.0, 0.0], [0.0, 12.0]])
    """

    count: int
    mean: Float[np.ndarray, " dim"]
    scatter: Float[np.ndarray, "dim dim"] | None = None
    source: EncoderSpec | None = None

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

        Example:
          >>> moments = lj.Moments.from_embeddings(np.arange(8.0).reshape(4, 2))
          >>> moments.count, moments.mean.tolist(), moments.scatter is None
          (4, [3.0, 4.0], True)
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
          precise: whether to sum on the host in float64; see ``lsar_jax.moments``.
          mesh: devices that share the rows of each block; by default, those of the first block if it
            is a jax array, or else all local devices.

        Raises:
          ValueError: there are no blocks, shapes are wrong, widths differ, or a value is not finite
            (the error names the row).

        Example:
          >>> blocks = (np.full((size, 2), float(size)) for size in (1, 3))  # a generator: one block at a time
          >>> lj.Moments.from_blocks(blocks).mean.tolist()
          [2.5, 2.5]
        """
        check_flags(second_moment=second_moment, precise=precise)
        accumulator: Accumulator | None = None
        sums: list[Sums] = []
        on_host = mesh is None and not second_moment
        dim, rows = 0, 0
        for x in blocks:
            check_floats("embeddings", x)
            dim = dim or x.shape[1]
            if x.shape[1] != dim:
                raise ValueError(f"the blocks differ in width: {dim}, then {x.shape[1]}")
            # float32 does not hold the differences of float64 numbers with a large offset.
            if precise or x.dtype.itemsize > 4 or (on_host and isinstance(x, np.ndarray)):
                sums = [reduce(merge_sums, (*sums, host_sums(x, second_moment, rows)))]
                rows += len(x)
                continue
            mesh = mesh or _mesh(x)
            accumulator = accumulator or Accumulator(mesh, 1, second_moment=second_moment)
            most = BLOCK * mesh.devices.size
            for start in range(0, len(x), most):
                part = x[start : start + most]
                accumulator.add(_place(part, mesh), np.arange(rows, rows + len(part)))
                rows += len(part)
                accumulator.wait(_WAITING)
        sums += accumulator.result() if accumulator else []
        if not sums:
            raise ValueError("there are no embeddings")
        return cls(*reduce(merge_sums, sums))

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return len(self.mean)

    def update(self, x: Embeddings, *, precise: bool = False) -> "Moments":
        """Returns the moments of the vectors summed so far and the rows of ``x`` together.

        Args:
          x: ``[n, dim]``, n at least 1.
          precise: whether to sum on the host in float64; see ``lsar_jax.moments``.

        Raises:
          ValueError: as for ``from_embeddings``, or the widths differ.

        Example:
          >>> lj.Moments.from_embeddings(np.zeros((1, 2))).update(np.ones((3, 2))).mean.tolist()
          [0.75, 0.75]
        """
        return self.merge(Moments.from_embeddings(x, second_moment=self.scatter is not None, precise=precise))

    def merge(self, other: "Moments") -> "Moments":
        """Returns the moments of both sets of vectors together.

        Raises:
          ValueError: the widths differ, only one of the two kept its scatter, or they are of different encoders.

        Example:
          >>> one, three = (lj.Moments.from_embeddings(np.full((n, 2), float(n))) for n in (1, 3))
          >>> one.merge(three).count, one.merge(three).mean.tolist()
          (4, [2.5, 2.5])
        """
        if not isinstance(other, Moments):
            raise ValueError(f"moments are merged with moments, not with a {type(other).__name__}")
        if self.dim != other.dim:
            raise ValueError(f"moments of width {self.dim} and {other.dim} cannot be merged")
        if (self.scatter is None) != (other.scatter is None):
            raise ValueError("only one of the two kept its second moment; use second_moment=True for both")
        if self.source and other.source and not self.source.same_space(other.source):
            raise ValueError(f"the moments are of different embeddings: {self.source.difference(other.source)}")
        mine, theirs = (Sums(m.count, m.mean, m.scatter) for m in (self, other))
        return Moments(*merge_sums(mine, theirs), self.source or other.source)

    def second_moment(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the uncentred second moment, the mean of ``x x^T``, ``[dim, dim]`` float64.

        Raises:
          ValueError: the second moment was not kept.
        """
        if self.scatter is None:
            raise ValueError(NOT_KEPT)
        return self.scatter / self.count + np.outer(self.mean, self.mean)

    def covariance(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the sample covariance, divided by ``count - 1``, ``[dim, dim]`` float64.

        Raises:
          ValueError: the second moment was not kept, or there is only one vector.
        """
        if self.scatter is None:
            raise ValueError(NOT_KEPT)
        if self.count < 2:
            raise ValueError("one embedding has no covariance; at least 2 are needed")
        return self.scatter / (self.count - 1)


def _mesh(x: Embeddings) -> Mesh:
    return data_mesh(sorted(x.devices(), key=lambda device: device.id) if isinstance(x, jax.Array) else None)


def _place(x: Embeddings, mesh: Mesh) -> Float[jax.Array, "layer row dim"]:
    """Returns the rows split over the devices, padded to one of a few sizes."""
    devices = mesh.devices.size
    rows = row_bucket(len(x), BLOCK * devices)
    if isinstance(x, np.ndarray) and x.dtype not in (np.float32, np.float16):
        # Also gives the native byte order; bfloat16 is included because it is not numpy's own.
        x = x.astype(np.float32)
    return jax.device_put(pad_rows(x, -(-rows // devices) * devices)[None], split(mesh, axis=1))
