"""How sure a mean over queries is: bootstrap intervals, and a paired test of two methods.

Queries are drawn with replacement, within each stratum where the score is a mean of means over strata,
such as languages, and with all that belong together, such as the translations of a question (Efron 1979;
percentile intervals). Two methods are compared on the same queries by
flipping the signs of their differences (Fisher's randomisation test, as Smucker, Allan and Carterette, CIKM
2007, recommend it for retrieval).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Queries", "interval", "paired_test", "resampled_correlations"]

# Values drawn at a time.
_BLOCK = 1 << 22


class _Part(NamedTuple):
    """One stratum: the sum and the number of scores of each cluster."""

    total: Float[np.ndarray, " cluster"]
    number: Float[np.ndarray, " cluster"]


@dataclass(frozen=True, eq=False)
class Queries:
    """A score of each query.

    Attributes:
      values: the scores; NaN is left out.
      strata: from 0; the whole score is the mean over strata of their means. None for one stratum.
      clusters: queries of one number belong together, such as translations of one question, and are
        drawn together. None where each stands for itself.
    """

    values: Float[np.ndarray, " query"]
    strata: Int[np.ndarray, " query"] | None = None
    clusters: Int[np.ndarray, " query"] | None = None

    def __post_init__(self) -> None:
        for name, numbers in (("strata", self.strata), ("clusters", self.clusters)):
            if numbers is not None and numbers.shape != self.values.shape:
                raise ValueError(f"{numbers.shape} {name} for {self.values.shape} values")
        if not np.isfinite(self.values).any():
            raise ValueError("no query has a score")

    @property
    def mean(self) -> float:
        """The mean over strata of their means."""
        return float(np.mean([part.total.sum() / part.number.sum() for part in self.parts()]))

    def parts(self) -> list[_Part]:
        """Returns the scores of each stratum, summed by cluster."""
        known = np.isfinite(self.values)
        values = self.values[known]
        strata = np.zeros(len(values), int) if self.strata is None else self.strata[known]
        clusters = np.arange(len(values)) if self.clusters is None else self.clusters[known]
        result = []
        for stratum in np.unique(strata):
            inside = strata == stratum
            _, number = np.unique(clusters[inside], return_inverse=True)
            result.append(_Part(np.bincount(number, values[inside]), np.bincount(number).astype(float)))
        return result

    def same(self, other: "Queries") -> bool:
        """Whether the other scores are of as many queries, strata and clusters."""
        return len(self.values) == len(other.values) and all(
            a is b or (a is not None and b is not None and np.array_equal(a, b))
            for a, b in ((self.strata, other.strata), (self.clusters, other.clusters))
        )

    def like(self, values: Float[np.ndarray, " query"]) -> "Queries":
        """Returns other scores of the same queries."""
        return Queries(values, self.strata, self.clusters)


def interval(queries: Queries, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> tuple[float, float]:
    """Returns the percentile interval of the mean over resampled queries.

    Args:
      queries: scores.
      level: of the interval, between 0 and 1.
      resamples: how many.
      seed: of the draws.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it must be between 0 and 1")
    rng = np.random.default_rng(seed)
    parts = queries.parts()
    means = np.zeros(resamples)
    for total, count in parts:
        for start, stop in _blocks(len(total), resamples):
            drawn = rng.integers(len(total), size=(stop - start, len(total)))
            means[start:stop] += total[drawn].sum(axis=1) / count[drawn].sum(axis=1) / len(parts)
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def resampled_correlations(
    first: Float[np.ndarray, " pair"],
    second: Float[np.ndarray, " pair"],
    *,
    ranked: bool,
    resamples: int = 1000,
    seed: int = 0,
) -> Float[np.ndarray, " resample"]:
    """Returns Pearson's, or Spearman's, correlation of resampled pairs, for an interval of its quantiles.

    Args:
      first: values.
      second: values of the same pairs.
      ranked: whether to correlate ranks, found again in each resample: Spearman's.
      resamples: how many.
      seed: of the draws.
    """
    from scipy.stats import rankdata

    if first.shape != second.shape:
        raise ValueError(f"shapes differ: {first.shape}, {second.shape}")
    drawn = np.random.default_rng(seed).integers(len(first), size=(resamples, len(first)))
    sides = [np.asarray(side, np.float64)[drawn] for side in (first, second)]
    if ranked:
        sides = [rankdata(side, axis=1) for side in sides]
    x, y = (side - side.mean(axis=1, keepdims=True) for side in sides)
    norms = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    # A resample of one value correlates with nothing.
    return np.clip((x * y).sum(axis=1) / np.where(norms > 0, norms, 1), -1, 1)


def paired_test(first: Queries, second: Queries, *, resamples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """Returns the mean difference, second minus first, and the two-sided p-value of no difference.

    Args:
      first: scores of one method; those that belong together get one sign.
      second: scores of another on the same queries.
      resamples: random assignments of signs; the p-value is at least 1 / (resamples + 1).
      seed: of the signs.

    Raises:
      ValueError: the queries are not the same.
    """
    if not first.same(second):
        raise ValueError(f"{len(first.values)} and {len(second.values)} scores are not of the same queries")
    difference = first.like(second.values - first.values)
    rng = np.random.default_rng(seed)
    parts = difference.parts()
    means = np.zeros(resamples)
    for total, count in parts:
        # Where there is no difference a sign changes nothing.
        apart = total[total != 0]
        for start, stop in _blocks(len(apart), resamples):
            signs = 1 - 2 * rng.integers(2, size=(stop - start, len(apart)), dtype=np.int8)
            means[start:stop] += (signs @ apart) / count.sum() / len(parts)
    # Sums in another order differ in their last digits.
    as_far = np.abs(means) >= abs(difference.mean) * (1 - 1e-9)
    return difference.mean, float((as_far.sum() + 1) / (resamples + 1))


def _blocks(size: int, resamples: int) -> list[tuple[int, int]]:
    step = max(1, _BLOCK // max(size, 1))
    return [(start, min(start + step, resamples)) for start in range(0, resamples, step)]
