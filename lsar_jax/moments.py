"""The streaming statistic that the moment-based methods are fitted from.

Count, mean and, where asked for, the centred second moment of one language's embeddings.
Blocks of rows are summed on the device in float32 around their own mean, then merged on the host in
float64 with integer counts (Chan, Golub and LeVeque, 1979), so that a large common offset
or many sentences cost no digits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.languages import canonical_keys
from lsar_jax.padding import pad_rows, row_bucket
from lsar_jax.shapes import AnyArray, Embeddings

__all__ = ["Moments", "moments_by_language", "stack_means"]

_BLOCK = 8192


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
    def from_embeddings(cls, x: Embeddings, *, second_moment: bool = False, precise: bool = False) -> "Moments":
        """Returns the moments of the rows of ``x``.

        Args:
          x: ``[n, dim]``, n at least 1, of any float dtype.
          second_moment: whether to keep the scatter, which LIR and whitening need.
          precise: whether to sum blocks in float64 instead of float32.

        Raises:
          ValueError: not such an array, no rows, or a value that is not finite.
        """
        _check(x)
        with jax.enable_x64(precise):
            moments = _block(x[:_BLOCK], second_moment, precise)
            for start in range(_BLOCK, len(x), _BLOCK):
                moments = moments.merge(_block(x[start : start + _BLOCK], second_moment, precise))
        sums = (moments.mean, *(() if moments.scatter is None else (moments.scatter,)))
        if not all(np.isfinite(part).all() for part in sums):
            bad = ~np.isfinite(np.asarray(x)).all(axis=1)
            raise ValueError(
                f"{bad.sum()} of {len(x)} embeddings hold NaN or infinity, the first is row {bad.argmax()}"
                if bad.any()
                else "the embeddings are too large for float32 sums; use precise=True"
            )
        return moments

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
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        scatter = None
        if self.scatter is not None and other.scatter is not None:
            between = np.outer(delta, delta) * (self.count * (other.count / count))
            scatter = self.scatter + other.scatter + between
        return Moments(count, mean, scatter)

    def second_moment(self) -> Float[np.ndarray, "dim dim"]:
        """Returns the mean of ``x x^T``, not centred, ``[dim, dim]`` float64.

        Raises:
          ValueError: the second moment was not kept.
        """
        if self.scatter is None:
            raise ValueError("the second moment was not kept; use Moments.from_embeddings(x, second_moment=True)")
        return self.scatter / self.count + np.outer(self.mean, self.mean)


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
        raise ValueError(f"{len(x)} languages are given ({', '.join(x) or 'none'}); at least {least} are needed")
    result = {}
    for code, value in canonical_keys(x).items():
        try:
            moments = (
                value
                if isinstance(value, Moments)
                else Moments.from_embeddings(value, second_moment=second_moment, precise=precise)
            )
            if second_moment:
                moments.second_moment()
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


def _block(x: Embeddings, second_moment: bool, precise: bool) -> Moments:
    padded = jnp.asarray(pad_rows(x, row_bucket(len(x), _BLOCK)), jnp.float64 if precise else jnp.float32)
    parts = _sums(padded, len(x), second_moment)
    mean, rest = (np.asarray(part, np.float64) for part in parts[:2])
    with np.errstate(invalid="ignore"):  # infinity minus infinity: from_embeddings says so
        mean = mean + rest
    return Moments(len(x), mean, None if parts[2] is None else np.asarray(parts[2], np.float64))


@partial(jax.jit, static_argnames="second_moment")
def _sums(
    x: Float[Array, "row dim"], count: int | Int[Array, ""], second_moment: bool
) -> tuple[Float[Array, " dim"], Float[Array, " dim"], Float[Array, "dim dim"] | None]:
    """Returns the mean in two parts, to be added in float64, and the scatter around it."""
    real = (jnp.arange(x.shape[0]) < count)[:, None]
    number = jnp.asarray(count, x.dtype)
    mean = x.sum(axis=0) / number
    # What rounding left out of the mean is found around it, where float32 is fine enough.
    off = jnp.where(real, x - mean, jnp.zeros((), x.dtype))
    rest = off.sum(axis=0) / number
    if not second_moment:
        return mean, rest, None
    centred = jnp.where(real, off - rest, jnp.zeros((), x.dtype))
    return mean, rest, jnp.matmul(centred.T, centred, precision=jax.lax.Precision.HIGHEST)
