"""How sure a mean over queries is: bootstrap intervals, and a paired test of two methods.

Queries are drawn with replacement, within each stratum where the score is a mean of means over strata,
such as languages (Efron 1979; percentile intervals). Two methods are compared on the same queries by
flipping the signs of their differences (Fisher's randomisation test, as Smucker, Allan and Carterette, CIKM
2007, recommend it for retrieval).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Queries", "interval", "paired_test"]

# Values drawn at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class Queries:
    """A score of each query.

    Attributes:
      values: the scores; NaN is left out.
      strata: from 0; the whole score is the mean over strata of their means. None for one stratum.
    """

    values: Float[np.ndarray, " query"]
    strata: Int[np.ndarray, " query"] | None = None

    def __post_init__(self) -> None:
        if self.strata is not None and self.strata.shape != self.values.shape:
            raise ValueError(f"{self.strata.shape} strata for {self.values.shape} values")
        if not np.isfinite(self.values).any():
            raise ValueError("no query has a score")

    @property
    def mean(self) -> float:
        """The mean over strata of their means."""
        return float(np.mean([part.mean() for part in self.parts()]))

    def parts(self) -> list[Float[np.ndarray, "_"]]:
        """Returns the scores of each stratum."""
        known = np.isfinite(self.values)
        if self.strata is None:
            return [self.values[known]]
        return [self.values[known & (self.strata == stratum)] for stratum in np.unique(self.strata[known])]


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
    for part in parts:
        for start, stop in _blocks(len(part), resamples):
            drawn = rng.integers(len(part), size=(stop - start, len(part)))
            means[start:stop] += part[drawn].mean(axis=1) / len(parts)
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def paired_test(first: Queries, second: Queries, *, resamples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """Returns the mean difference, second minus first, and the two-sided p-value of no difference.

    Args:
      first: scores of one method.
      second: scores of another on the same queries.
      resamples: random assignments of signs; the p-value is at least 1 / (resamples + 1).
      seed: of the signs.

    Raises:
      ValueError: the queries are not the same.
    """
    if len(first.values) != len(second.values) or not np.array_equal(_strata(first), _strata(second)):
        raise ValueError(f"{len(first.values)} and {len(second.values)} scores are not of the same queries")
    difference = Queries(second.values - first.values, first.strata)
    rng = np.random.default_rng(seed)
    parts = difference.parts()
    means = np.zeros(resamples)
    for part in parts:
        for start, stop in _blocks(len(part), resamples):
            signs = 1 - 2 * rng.integers(2, size=(stop - start, len(part)), dtype=np.int8)
            means[start:stop] += (signs @ part) / len(part) / len(parts)
    # Sums in another order differ in their last digits.
    as_far = np.abs(means) >= abs(difference.mean) * (1 - 1e-9)
    return difference.mean, float((as_far.sum() + 1) / (resamples + 1))


def _blocks(size: int, resamples: int) -> list[tuple[int, int]]:
    step = max(1, _BLOCK // max(size, 1))
    return [(start, min(start + step, resamples)) for start in range(0, resamples, step)]


def _strata(queries: Queries) -> Int[np.ndarray, " query"]:
    return np.zeros(len(queries.values), np.int64) if queries.strata is None else queries.strata
