"""The moments of several languages, with a second moment for each language or one pooled over all of them."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import same_width
from lsar_jax.checks import check_flags, errors_of
from lsar_jax.languages import canonical_keys
from lsar_jax.mesh import check_process
from lsar_jax.moments.moments import Moments
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec, check_source, same_source

__all__ = [
    "LanguageData",
    "PooledMoments",
    "check_number",
    "common_source",
    "covariances",
    "moments_by_language",
    "pool_moments",
    "stack_means",
]

#: What transforms are fitted on, by language.
LanguageData = Mapping[str, Embeddings | Moments]


class PooledMoments(dict[str, Moments]):
    """The count and mean of each language, and one within-language second moment pooled over the languages.

    For many languages, this is much smaller than a second moment for each. It is a mapping from language to
    ``Moments`` without a scatter, in alphabetical order.

    Attributes:
      within: sum of the languages' scatters, each around its own mean, ``[dim, dim]`` float64.
    """

    def __init__(self, by_language: Mapping[str, Moments], within: Float[np.ndarray, "dim dim"]) -> None:
        super().__init__(by_language)
        self.within = within

    def __repr__(self) -> str:
        return f"PooledMoments({len(self)} languages, count={self.count}, dim={self.dim})"

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


def pool_moments(x: LanguageData, *, least: int = 1, precise: bool = False) -> PooledMoments:
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
        check_number(x, least)
        return x
    moments = moments_by_language(x, least=least, second_moment=True, precise=precise)
    within = sum(m.kept_scatter() for m in moments.values())
    return PooledMoments({code: replace(m, scatter=None) for code, m in moments.items()}, np.asarray(within))


def moments_by_language(
    x: LanguageData,
    *,
    least: int,
    second_moment: bool = False,
    precise: bool = False,
    embeddings: bool = False,
) -> dict[str, Moments]:
    """Returns the moments of each language under its BCP 47 code, in alphabetical order.

    Args:
      x: mapping from language to embeddings ``[n, dim]`` or to moments.
      least: the number of languages that the method needs.
      second_moment: whether the method needs second moments.
      precise: whether to sum embeddings in float64.
      embeddings: whether the method needs the embeddings themselves, so that moments do not suffice.

    Raises:
      ValueError: there are too few languages, a code is unknown, widths or encoders differ, an array is invalid, or
        moments are not what the method needs; the error names the language.
    """
    check_process()
    check_flags(precise=precise)
    if not isinstance(x, Mapping):
        raise ValueError(f"expected a mapping from language to embeddings, not a {type(x).__name__}")
    check_number(x, least)
    if second_moment and isinstance(x, PooledMoments):
        raise ValueError("a second moment of each language is needed, but these are pooled over the languages")
    result = {}
    for code, value in canonical_keys(x).items():
        with errors_of(code):
            if not isinstance(value, Moments):
                value = Moments.from_embeddings(value, second_moment=second_moment, precise=precise)
            elif embeddings:
                raise ValueError("moments do not suffice; give the embeddings themselves")
            elif second_moment:
                value.kept_scatter()
        result[code] = value
    same_width("the languages", {code: moments.dim for code, moments in result.items()})
    common_source(result)
    return result


def common_source(moments: Mapping[str, Moments], given: EncoderSpec | None = None) -> EncoderSpec | None:
    """Returns ``given``, or else the spec of the encoder of the moments; None if neither is known.

    Raises:
      ValueError: the languages, or ``given``, are of different encoders, or ``given`` is not a spec.
    """
    check_source(given)
    sources = {code: m.source for code, m in moments.items()} | {"source": given}
    return same_source("the moments", sources)


def covariances(moments: Mapping[str, Moments]) -> list[Float[np.ndarray, "dim dim"]]:
    """Returns the covariance of each language.

    Raises:
      ValueError: a language has no second moment or too few vectors; the error names it.
    """
    result = []
    for code, m in moments.items():
        with errors_of(code):
            result.append(m.covariance())
    return result


def stack_means(moments: Mapping[str, Moments]) -> Float[np.ndarray, "language dim"]:
    """Returns the means in float64, in the order of ``moments``."""
    return np.stack([m.mean for m in moments.values()])


def check_number(languages: Collection[str], least: int) -> None:
    """Raises ValueError if there are too few languages."""
    if len(languages) < least:
        given = "1 language is given" if len(languages) == 1 else f"{len(languages)} languages are given"
        raise ValueError(f"{given} ({', '.join(languages) or 'none'}); at least {least} are needed")
