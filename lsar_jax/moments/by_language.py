"""The moments of several languages, with a second moment for each language or one pooled over all of them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from lsar_jax.checks import check_flags, whole_number
from lsar_jax.languages import canonical_keys
from lsar_jax.mesh import check_process
from lsar_jax.moments.moments import NOT_KEPT, Moments
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec, check_source

__all__ = ["PooledMoments", "common_source", "moments_by_language", "pool_moments", "stack_means", "too_few"]


@dataclass(frozen=True, eq=False)
class PooledMoments(Mapping[str, Moments]):
    """The count and mean of each language, and one within-language second moment pooled over the languages.

    For many languages, this is much smaller than a second moment for each. It is a mapping from language to
    ``Moments`` without a scatter, in alphabetical order.

    Attributes:
      by_language: count and mean of each language.
      within: sum of the languages' scatters, each around its own mean, ``[dim, dim]`` float64.
    """

    by_language: dict[str, Moments]
    within: Float[np.ndarray, "dim dim"]

    def __repr__(self) -> str:
        return f"PooledMoments({len(self)} languages, count={self.count}, dim={self.dim})"

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
        """The total number of vectors."""
        return sum(m.count for m in self.values())

    @property
    def means(self) -> Float[np.ndarray, "language dim"]:
        """The means in float64, one row per language."""
        return stack_means(self)

    def total(self) -> Moments:
        """Returns the moments of the vectors of all languages together."""
        counts = np.array([m.count for m in self.values()], np.float64)
        mean = counts @ self.means / counts.sum()
        between = self.means - mean
        return Moments(self.count, mean, self.within + between.T @ (counts[:, None] * between))


def pool_moments(x: Mapping[str, Embeddings | Moments], *, least: int = 1, precise: bool = False) -> PooledMoments:
    """Returns the moments of each language, with the within-language second moments pooled.

    Args:
      x: mapping from language to embeddings ``[n, dim]`` or to moments with second moments;
        ``PooledMoments`` are returned unchanged.
      least: the number of languages that the method needs.
      precise: whether to sum embeddings in float64.

    Raises:
      ValueError: there are fewer than ``least`` languages, a code is unknown, widths or encoders differ, an array is
        invalid, or moments have no second moment.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> pooled = lj.pool_moments({code: rng.normal(size=(20, 4)) for code in ("de", "en", "fr")})
      >>> list(pooled), pooled.count, pooled.means.shape, pooled.within.shape
      (['de', 'en', 'fr'], 60, (3, 4), (4, 4))
    """
    check_process()
    if isinstance(x, PooledMoments):
        if len(x) < least:
            raise ValueError(too_few(x, least))
        return x
    moments = moments_by_language(x, least=least, second_moment=True, precise=precise)
    within = sum(m.scatter for m in moments.values() if m.scatter is not None)
    return PooledMoments({code: replace(m, scatter=None) for code, m in moments.items()}, np.asarray(within))


def moments_by_language(
    x: Mapping[str, Embeddings | Moments], *, least: int, second_moment: bool = False, precise: bool = False
) -> dict[str, Moments]:
    """Returns the moments of each language under its BCP 47 code, in alphabetical order.

    Args:
      x: mapping from language to embeddings ``[n, dim]`` or to moments.
      least: the number of languages that the method needs.
      second_moment: whether the method needs second moments.
      precise: whether to sum embeddings in float64.

    Raises:
      ValueError: there are too few languages, a code is unknown, widths or encoders differ, an array is invalid, or
        moments have no second moment of each language; the error names the language.
    """
    check_process()
    check_flags(precise=precise)
    if not isinstance(x, Mapping):
        raise ValueError(f"expected a mapping from language to embeddings, not a {type(x).__name__}")
    if len(x) < least:
        raise ValueError(too_few(x, least))
    if second_moment and isinstance(x, PooledMoments):
        raise ValueError("a second moment of each language is needed, but these are pooled over the languages")
    result = {}
    for code, value in canonical_keys(x).items():
        try:
            if not isinstance(value, Moments):
                value = Moments.from_embeddings(value, second_moment=second_moment, precise=precise)
            whole_number("the count", value.count, 1, 1 << 62, "vectors")
            if not np.isfinite(value.mean).all():
                raise ValueError("the mean is not finite")
            if second_moment and value.scatter is None:
                raise ValueError(NOT_KEPT)
        except ValueError as error:
            raise ValueError(f"{code}: {error}") from error
        result[code] = value
    widths = {code: moments.dim for code, moments in result.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(f"the languages differ in width: {widths}")
    common_source(result)
    return result


def common_source(moments: Mapping[str, Moments], given: EncoderSpec | None = None) -> EncoderSpec | None:
    """Returns ``given``, or else the spec of the encoder of the moments; None if neither is known.

    Raises:
      ValueError: the languages, or ``given``, are of different encoders, or ``given`` is not a spec.
    """
    check_source(given)
    known = {code: m.source for code, m in moments.items() if m.source is not None}
    first = next(iter(known), "")
    for code, source in known.items():
        if not source.same_space(known[first]):
            difference = source.difference(known[first])
            raise ValueError(f"the moments of {code} are of other embeddings than those of {first}: {difference}")
    spec = known[first] if known else None
    if given and spec and not given.same_space(spec):
        raise ValueError(f"the moments are of other embeddings than source says: {spec.difference(given)}")
    return given or spec


def stack_means(moments: Mapping[str, Moments]) -> Float[np.ndarray, "language dim"]:
    """Returns the means in float64, in the order of ``moments``."""
    return np.stack([m.mean for m in moments.values()])


def too_few(x: Collection[str], least: int) -> str:
    """Returns the error that these are too few languages."""
    given = "1 language is given" if len(x) == 1 else f"{len(x)} languages are given"
    return f"{given} ({', '.join(x) or 'none'}); at least {least} are needed"
