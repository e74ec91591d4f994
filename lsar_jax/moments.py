"""The streaming statistic that the moment-based methods are fitted from.

Count, mean and, where asked for, the centred second moment of one language's embeddings. Moments
merge, so that a corpus may be read in parts, by several devices or by several machines, and any
languages chosen afterwards. ``partial_sums.py`` says how they are summed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from lsar_jax.languages import canonical_keys
from lsar_jax.mesh import data_mesh, split
from lsar_jax.padding import pad_rows, row_bucket
from lsar_jax.partial_sums import PartialSums, Sums, merge_sums
from lsar_jax.shapes import AnyArray, Embeddings

__all__ = ["Moments", "PooledMoments", "moments_by_language", "pool_moments", "stack_means"]

# Rows of a block on each device.
_BLOCK = 8192
_NOT_KEPT = "the second moment was not kept; use Moments.from_embeddings(x, second_moment=True)"


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter (the centred second moment) of a set of vectors.

    Attributes:
      count: number of vectors.
      mean: ``[dim]`` float64.
      scatter: sum of ``(x - mean)(x - mean)^T``, ``[dim, dim]`` float64, or None if not kept.
    """

    count: int
    mean: Float[np.ndarray, " dim"]
    scatter: Float[np.ndarray, "dim dim"] | None = None

    @classmethod
    def from_embeddings(
        cls, x: Embeddings, *, second_moment: bool = False, precise: bool = False, mesh: Mesh | None = None
    ) -> "Moments":
        """Returns the moments of the rows of ``x``.

        Args:
          x: ``[n, dim]``, n at least 1, of any float dtype.
          second_moment: whether to keep the scatter, which LIR and whitening need.
          precise: whether to sum blocks in float64 instead of float32.
          mesh: as in ``from_blocks``.

        Raises:
          ValueError: not such an array, no rows, or a value that is not finite.
        """
        _check(x)
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
        """Returns the moments of all rows of a stream of blocks, of which one is held at a time.

        Args:
          blocks: arrays ``[n, dim]``, n 1 or more and not always the same, of any float dtype.
          second_moment: whether to keep the scatter.
          precise: whether to sum blocks in float64 instead of float32.
          mesh: devices that share each block's rows; by default those of the first block if it is a
            jax array, else all local ones.

        Raises:
          ValueError: no blocks, other shapes, widths that differ, or a value that is not
            finite (which row is said).
        """
        sums, dim = None, 0
        for x in blocks:
            _check(x)
            if sums is None:
                mesh, dim = mesh or _mesh(x), x.shape[1]
                sums = PartialSums(mesh, 1, second_moment=second_moment, precise=precise)
            if x.shape[1] != dim:
                raise ValueError(f"the blocks differ in width: {dim}, then {x.shape[1]}")
            assert mesh is not None
            most = _BLOCK * mesh.devices.size
            for start in range(0, len(x), most):
                part = x[start : start + most]
                sums.add(_place(part, mesh, precise), len(part))
        if sums is None:
            raise ValueError("there are no embeddings")
        return cls.of(sums.result()[0])

    @classmethod
    def of(cls, sums: Sums) -> "Moments":
        """Returns what was summed."""
        return cls(sums.count, sums.mean, sums.scatter)

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return len(self.mean)

    def update(self, x: Embeddings, *, precise: bool = False) -> "Moments":
        """Returns the moments of these vectors and the rows of ``x`` together."""
        return self.merge(Moments.from_embeddings(x, second_moment=self.scatter is not None, precise=precise))

    def merge(self, other: "Moments") -> "Moments":
        """Returns the moments of both sets together.

        Raises:
          ValueError: widths differ, or only one of the two kept its scatter.
        """
        if self.dim != other.dim:
            raise ValueError(f"moments of width {self.dim} and {other.dim} cannot be merged")
        if (self.scatter is None) != (other.scatter is None):
            raise ValueError("only one of the two kept its second moment; use second_moment=True for both")
        return Moments.of(merge_sums(self._sums(), other._sums()))

    def second_moment(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the mean of ``x x^T``, not centred, ``[dim, dim]`` float64.

        Raises:
          ValueError: the second moment was not kept.
        """
        if self.scatter is None:
            raise ValueError(_NOT_KEPT)
        return self.scatter / self.count + np.outer(self.mean, self.mean)

    def covariance(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the sample covariance, divided by ``count - 1``, ``[dim, dim]`` float64.

        Raises:
          ValueError: the second moment was not kept, or there is one vector.
        """
        if self.scatter is None:
            raise ValueError(_NOT_KEPT)
        if self.count < 2:
            raise ValueError("one embedding has no covariance; at least 2 are needed")
        return self.scatter / (self.count - 1)

    def _sums(self) -> Sums:
        return Sums(self.count, self.mean, self.scatter)


@dataclass(frozen=True, eq=False)
class PooledMoments(Mapping[str, Moments]):
    """Counts and means of languages, and one second moment within them: small for many languages.

    A mapping from language to ``Moments`` without a second, in alphabetical order.

    Attributes:
      by_language: count and mean of each language.
      within: sum over languages of their scatter around their own mean, ``[dim, dim]`` float64.
    """

    by_language: dict[str, Moments]
    within: Float[np.ndarray, "dim dim"]

    def __getitem__(self, language: str) -> Moments:
        return self.by_language[language]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_language)

    def __len__(self) -> int:
        return len(self.by_language)

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return len(self.within)

    @property
    def count(self) -> int:
        """The number of vectors of all languages."""
        return sum(m.count for m in self.values())

    @property
    def means(self) -> Float[np.ndarray, "language dim"]:
        """The means, a row a language, float64."""
        return stack_means(self)

    def total(self) -> Moments:
        """Returns the moments of the vectors of all languages together."""
        counts = np.array([m.count for m in self.values()], np.float64)
        mean = counts @ self.means / counts.sum()
        between = self.means - mean
        return Moments(self.count, mean, self.within + between.T @ (counts[:, None] * between))


def pool_moments(x: Mapping[str, Embeddings | Moments], *, least: int = 1, precise: bool = False) -> PooledMoments:
    """Returns the moments of languages with their second moments summed within the languages.

    Args:
      x: from language to embeddings ``[n, dim]`` or to moments that kept their second; what is
        pooled already comes back as it is.
      least: how many languages the method needs.
      precise: whether to sum embeddings in float64.

    Raises:
      ValueError: as ``moments_by_language``.
    """
    if isinstance(x, PooledMoments):
        if len(x) < least:
            raise ValueError(_too_few(x, least))
        return x
    moments = moments_by_language(x, least=least, second_moment=True, precise=precise)
    within = sum(m.scatter for m in moments.values() if m.scatter is not None)
    return PooledMoments({code: Moments(m.count, m.mean) for code, m in moments.items()}, np.asarray(within))


def moments_by_language(
    x: Mapping[str, Embeddings | Moments], *, least: int, second_moment: bool = False, precise: bool = False
) -> dict[str, Moments]:
    """Returns the moments of each language under its BCP 47 code, in alphabetical order.

    Args:
      x: from language to embeddings ``[n, dim]`` or to moments.
      least: how many languages the method needs.
      second_moment: whether the method needs second moments.
      precise: whether to sum in float64.

    Raises:
      ValueError: too few languages, unknown codes, widths that differ, or bad arrays; the
        language is named.
    """
    if not isinstance(x, Mapping):
        raise ValueError(f"expected a mapping from language to embeddings, not a {type(x).__name__}")
    if len(x) < least:
        raise ValueError(_too_few(x, least))
    if second_moment and isinstance(x, PooledMoments):
        raise ValueError("a second moment of each language is needed, and these are pooled over the languages")
    result = {}
    for code, value in canonical_keys(x).items():
        try:
            moments = (
                value
                if isinstance(value, Moments)
                else Moments.from_embeddings(value, second_moment=second_moment, precise=precise)
            )
            if second_moment and moments.scatter is None:
                raise ValueError(_NOT_KEPT)
        except ValueError as error:
            raise ValueError(f"{code}: {error}") from error
        result[code] = moments
    widths = {code: moments.dim for code, moments in result.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(f"the languages differ in width: {widths}")
    return result


def stack_means(moments: Mapping[str, Moments]) -> Float[np.ndarray, "language dim"]:
    """Returns the means, a row a language, in the order of ``moments``, float64."""
    return np.stack([m.mean for m in moments.values()])


def _check(x: AnyArray) -> None:
    if not isinstance(x, jax.Array | np.ndarray) or not jnp.issubdtype(x.dtype, jnp.floating):
        kind = f"{type(x).__module__}.{type(x).__name__} of {getattr(x, 'dtype', 'no dtype')}"
        raise ValueError(f"embeddings are a numpy or jax array of floats, not a {kind}")
    if np.ndim(x) != 2 or 0 in np.shape(x):
        raise ValueError(f"embeddings have shape {np.shape(x)}; expected [n, dim] with n and dim at least 1")


def _mesh(x: Embeddings) -> Mesh:
    return data_mesh(sorted(x.devices(), key=lambda device: device.id) if isinstance(x, jax.Array) else None)


def _place(x: Embeddings, mesh: Mesh, precise: bool) -> Float[jax.Array, "layer row dim"]:
    """Returns the rows over the devices, padded to few sizes."""
    devices = mesh.devices.size
    rows = row_bucket(len(x), _BLOCK * devices)
    with jax.enable_x64(precise):
        if isinstance(x, np.ndarray) and x.dtype not in (np.float32, np.float16):
            # In this machine's order of bytes too; bfloat16 as it is not numpy's own.
            with np.errstate(over="ignore"):  # an infinity is found and said
                x = x.astype(np.float64 if precise else np.float32)
        return jax.device_put(pad_rows(x, -(-rows // devices) * devices)[None], split(mesh, axis=1))


def _too_few(x: Mapping[str, object], least: int) -> str:
    return f"{len(x)} languages are given ({', '.join(x) or 'none'}); at least {least} are needed"
