"""The geometry of sentence embeddings: anisotropy, outlier dimensions, isotropy and hubs.

Anisotropy is the mean cosine of random pairs, and a dimension's contribution is its term in that cosine (Timkey and van
Schijndel, "All Bark and No Bite", EMNLP 2021; Haemmerl et al., "Exploring Anisotropy and Outliers in Multilingual
Language Models", Findings of ACL 2023, who draw 10,000 pairs). The exact mean over all pairs costs less: cosines are
bilinear in unit vectors, so means of unit vectors are enough. A zero vector has cosine 0 to all others. IsoScore
follows Rudman et al., "IsoScore: Measuring the Uniformity of Embedding Space Utilization", Findings of ACL 2022.

Contributions and outliers work under ``jit`` and ``vmap``, for example over layers, but values are not checked there.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import padded_rows
from lsar_jax.checks import whole_number, whole_numbers
from lsar_jax.languages import canonical_keys
from lsar_jax.moments import Moments, moments_by_language, stack_means
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.transforms.methods.outliers import outlier_dimensions

__all__ = [
    "HubMeasures", "LanguageAnisotropy", "anisotropy_by_language", "expected_anisotropy", "expected_contributions",
    "hub_measures", "isoscore", "outlier_dimensions", "pair_contributions", "random_pairs",
]  # fmt: skip

# Rows of two arrays.
RowPairs = Int[AnyArray, "pair 2"]


class LanguageAnisotropy(NamedTuple):
    """The mean cosine of two sentences, from -1 to 1, by the languages that they are drawn from.

    Attributes:
      within: two sentences of one language, averaged over languages.
      across: sentences of two different languages, averaged over pairs of languages.
      overall: two sentences from the pool of all languages.
    """

    within: float
    across: float
    overall: float


class HubMeasures(NamedTuple):
    """How unevenly candidates are found: N_k of a candidate is the number of queries with it among their first k.

    Attributes:
      skewness: of N_k; 0 if all are found alike, large with hubs.
      unfound: share of candidates that no query finds, N_k = 0.
      hub_mass: share of all results that are the 1% of candidates with the largest N_k, rounded up; 0.01 is even.
      reciprocal: share of all results that are mutual, where the query is among the first k of its result.
    """

    skewness: float
    unfound: float
    hub_mass: float
    reciprocal: float


def random_pairs(
    n: int, m: int, count: int = 10_000, seed: int = 0, distinct: bool = True
) -> Int[np.ndarray, "pair 2"]:
    """Returns pairs (i, j) with ``i < n`` and ``j < m``, drawn uniformly with replacement, int32 ``[count, 2]``.

    Args:
      n: number of first vectors.
      m: number of second vectors.
      count: number of pairs; the papers draw 10,000.
      seed: seed of the random numbers; the papers' code sets none.
      distinct: whether to require ``i != j``, for pairs within one set.

    Raises:
      ValueError: a number is out of range, or there is no pair to draw, as with n = m = 1.
    """
    n, m, count = (whole_number(*given, 1, 2**31 - 1, "int32") for given in (("n", n), ("m", m), ("count", count)))
    same = min(n, m) if distinct else 0
    numbers = np.random.default_rng(seed).integers(n * m - same, size=count)
    if distinct:
        # Row by row, the n m pairs have (i, i) at every (m + 1)-th place, with m others in between.
        numbers = numbers + 1 + np.minimum(numbers // m, same - 1)
    return np.stack(np.divmod(numbers, m), axis=1).astype(np.int32)


def pair_contributions(x: Embeddings, y: Float[AnyArray, "other dim"], pairs: RowPairs) -> Float[Array, " dim"]:
    """Returns each dimension's mean term in the cosines of ``x[i]`` and ``y[j]``, float32 ``[dim]``.

    Args:
      x: ``[n, dim]``.
      y: ``[m, dim]``; pass ``x`` again for pairs within one set.
      pairs: (i, j), ``[pair, 2]``, as ``random_pairs`` draws them.

    Raises:
      ValueError: an array is invalid, widths differ, there are no pairs, or an index is out of range.

    Example:
      >>> x = np.random.default_rng(0).normal(size=(200, 8)) + 3 * np.eye(8)[2]
      >>> terms = lj.geometry.pair_contributions(x, x, lj.geometry.random_pairs(200, 200))
      >>> int(terms.argmax()), bool(terms[2] > 0.9 * terms.sum())  # dimension 2 makes nearly all of the anisotropy
      (2, True)
    """
    units = padded_rows({"x": x, "y": y})
    if not isinstance(pairs, jax.core.Tracer):
        low, high = np.asarray(pairs).min(axis=0), np.asarray(pairs).max(axis=0)
        if low.min() < 0 or (high >= (len(x), len(y))).any():
            raise ValueError(f"pairs reach from {low} to {high}; x has {len(x)} rows and y {len(y)}")
    return _pair_means(*units, pairs)


def expected_contributions(x: Embeddings, y: Float[AnyArray, "other dim"] | None = None) -> Float[Array, " dim"]:
    """Returns the exact values that ``pair_contributions`` estimates, the means over all pairs, float32 ``[dim]``.

    Args:
      x: ``[n, dim]``.
      y: ``[m, dim]``, for pairs of a row of ``x`` and a row of ``y``; without it, of two different rows of ``x``.

    Raises:
      ValueError: an array is invalid, there are too few rows, or widths differ.
    """
    if y is None:
        mean, variance = _mean_and_variance(*padded_rows({"x": x}, least=2), len(x))
        # (s^2 - sum u^2) / (n (n-1)) with s = n mean, without a difference of large numbers.
        return mean**2 - variance / len(x)
    units = padded_rows({"x": x, "y": y})
    return _mean_and_variance(units[0], len(x))[0] * _mean_and_variance(units[1], len(y))[0]


def expected_anisotropy(x: Embeddings, y: Float[AnyArray, "other dim"] | None = None) -> float:
    """Returns the mean cosine over all the pairs of ``expected_contributions`` ``[n, dim]``, from -1 to 1."""
    return float(np.asarray(expected_contributions(x, y), np.float64).sum())


def anisotropy_by_language(x: Mapping[str, Embeddings]) -> LanguageAnisotropy:
    """Returns the exact mean cosine within a language, across two languages, and over all sentences.

    Args:
      x: mapping from language to embeddings ``[n, dim]``; at least two languages with two sentences each.

    Raises:
      ValueError: there are too few languages or sentences, a code is unknown, widths differ, or an array is invalid.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 8)) + 5 * np.eye(8)[i] for i, code in enumerate(("de", "en"))}
      >>> cosines = lj.geometry.anisotropy_by_language(x)
      >>> round(cosines.within, 1), abs(round(cosines.across, 1))  # each language has a cone
      (0.8, 0.0)
    """
    x = canonical_keys(x)
    units = {code: rows[: len(x[code])] for code, rows in zip(x, padded_rows(x, least=2), strict=True)}
    moments = moments_by_language(units, least=2)
    means = stack_means(moments)
    counts = np.array([m.count for m in moments.values()])
    # What each sentence contributes when paired with itself: 1, or 0 for a zero vector.
    selves = np.array([int((rows != 0).any(axis=1).sum()) for rows in units.values()])
    sums = means * counts[:, None]
    languages, total = len(means), int(counts.sum())
    within = ((sums**2).sum(axis=1) - selves) / (counts * (counts - 1))
    across = ((means.sum(axis=0) ** 2).sum() - (means**2).sum()) / (languages * (languages - 1))
    overall = ((sums.sum(axis=0) ** 2).sum() - selves.sum()) / (total * (total - 1))
    return LanguageAnisotropy(float(within.mean()), float(across), float(overall))


def isoscore(x: Embeddings) -> float:
    """Returns the IsoScore of the rows: 1 if all directions vary alike, 0 if only one does.

    Rudman et al. scale the variances along the n principal axes to norm sqrt(n) and take their distance to the vector
    of ones, divided by ``sqrt(2 (n - sqrt n))``, as the defect d; the score is
    ``((n - d^2 (n - sqrt n))^2 - n) / (n (n - 1))``. The inner bracket is just the sum of the scaled variances: with
    the covariance C, the score is ``(trace(C)^2 / |C|^2 - 1) / (n - 1)``, which needs no PCA.

    Args:
      x: ``[n, dim]``, dim at least 2; with fewer rows than dimensions, 1 cannot be reached.

    Raises:
      ValueError: the array is invalid, there are fewer than two rows or dimensions, or all rows are the same.

    Example:
      >>> x = np.random.default_rng(0).normal(size=(2000, 4))
      >>> round(lj.geometry.isoscore(x), 1), abs(round(lj.geometry.isoscore(x * [1, 0, 0, 0]), 1))
      (1.0, 0.0)
    """
    covariance = Moments.from_embeddings(x, second_moment=True).covariance()
    # Rows are compared too, because rounding of their mean may give equal rows a nonzero covariance.
    if len(covariance) < 2 or covariance.trace() == 0 or bool((x == x[:1]).all()):
        raise ValueError(f"x has shape {x.shape}; IsoScore needs two dimensions, and rows that differ in float32")
    scaled = covariance / covariance.trace()  # squares of small entries would vanish
    return float((1 / (scaled**2).sum() - 1) / (len(covariance) - 1))


def hub_measures(
    near: Int[AnyArray, "query k"], candidates: int, back: Int[AnyArray, "candidate k"] | None = None
) -> HubMeasures:
    """Returns the hub measures of a search (Radovanović et al., "Hubs in Space", JMLR 2010; arXiv 2605.26575).

    The latter's definition of hub mass could not be confirmed; the 1% is this library's.

    Args:
      near: index of each query's first k candidates, best first, ``[query, k]``.
      candidates: number of candidates.
      back: each candidate's first queries, best first; None if queries and candidates are the same rows.

    Raises:
      ValueError: a number is out of range, or rows are missing.

    Example:
      >>> lj.geometry.hub_measures(np.array([[1], [2], [1], [1]]), 4)[1:]  # three of four find row 1
      (0.5, 0.75, 0.5)
    """
    candidates = whole_number("candidates", candidates, 1, 2**31 - 1, "int32")
    found = whole_numbers("near", near, (None, None), 0, candidates - 1)
    mates = whole_numbers("back", near if back is None else back, (candidates, None), 0, len(found) - 1)
    counts = np.sort(np.bincount(found.ravel(), minlength=candidates))
    off = counts - counts.mean()
    mass = counts[-math.ceil(candidates / 100) :].sum() / found.size
    mutual = np.any([first[found] == np.arange(len(found))[:, None] for first in mates.T], axis=0)
    values = ((off**3).mean() / (off.std() ** 3 or 1.0), (counts == 0).mean(), mass, mutual.mean())
    return HubMeasures(*map(float, values))


@jax.jit
def _pair_means(x: Float[Array, "n dim"], y: Float[Array, "m dim"], pairs: RowPairs) -> Float[Array, " dim"]:
    return (x[pairs[:, 0]] * y[pairs[:, 1]]).mean(axis=0)


@jax.jit
def _mean_and_variance(
    x: Float[Array, "row dim"], count: int | Int[Array, ""]
) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
    """The mean and the sample variance of the first ``count`` rows."""
    real, number = (jnp.arange(x.shape[0]) < count)[:, None], jnp.asarray(count, x.dtype)
    mean = x.sum(axis=0) / number
    # The rounding error of the mean is computed from centred rows, for which float32 is precise enough.
    off = jnp.where(real, x - mean[None], 0.0)
    error = off.sum(axis=0) / number
    squares = jnp.where(real, off - error[None], 0.0) ** 2
    return mean + error, squares.sum(axis=0) / jnp.maximum(number - 1, 1.0)
