"""Uncertainty of a mean over queries: bootstrap intervals, and a paired test of two methods.

Queries are resampled with replacement (Efron 1979; percentile intervals). If the score is a mean of stratum means, for
example over languages, queries are resampled within each stratum. If they form clusters, such as the translations of a
question, whole clusters are resampled. Two methods are compared on the same queries by exchanging their scores at
random (Fisher's randomisation test, which Smucker, Allan and Carterette, CIKM 2007, recommend for retrieval, and Yeh,
COLING 2000, for ratios such as F1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Queries", "interval", "paired_interval", "paired_test", "resampled_correlations", "strata_of"]

# Number of values drawn at a time.
_BLOCK = 1 << 22


class _Part(NamedTuple):
    """One stratum: its sorted clusters, and the sum and number of the scores in each."""

    cluster: Int[np.ndarray, " cluster"]
    total: Float[np.ndarray, " cluster"]
    number: Float[np.ndarray, " cluster"]


@dataclass(frozen=True, eq=False)
class Queries:
    """The scores of individual queries.

    Attributes:
      values: the scores; NaN values are ignored.
      strata: stratum of each query, from 0; the overall score is the mean of the stratum means. None for one stratum.
      clusters: cluster of each query. Queries in one cluster, such as translations of a question, are resampled
        together. None if the queries are independent.
      varying: whether the number of scores in a cluster may differ between methods, as for mined pairs.
    """

    values: Float[np.ndarray, " query"]
    strata: Int[np.ndarray, " query"] | None = None
    clusters: Int[np.ndarray, " query"] | None = None
    varying: bool = False

    def __post_init__(self) -> None:
        for name, numbers in (("strata", self.strata), ("clusters", self.clusters)):
            if numbers is not None and numbers.shape != self.values.shape:
                raise ValueError(f"{name} has shape {numbers.shape}; it must be that of values, {self.values.shape}")
        if not np.isfinite(self.values).any():
            raise ValueError("no query has a score")

    @property
    def mean(self) -> float:
        """The mean of the stratum means."""
        return float(np.mean([part.total.sum() / part.number.sum() for part in self.parts()]))

    def parts(self) -> list[_Part]:
        """Returns the scores of each stratum, summed by cluster."""
        known = np.isfinite(self.values)
        every = np.arange(len(self.values))
        values = self.values[known]
        strata = (np.zeros_like(every) if self.strata is None else self.strata)[known]
        clusters = (every if self.clusters is None else self.clusters)[known]
        result = []
        for stratum in np.unique(strata):
            inside = strata == stratum
            names, number = np.unique(clusters[inside], return_inverse=True)
            result.append(_Part(names, np.bincount(number, values[inside]), np.bincount(number).astype(float)))
        return result

    def same(self, other: "Queries") -> bool:
        """Returns whether ``other`` has scores of the same queries."""
        mine, theirs = ((q.values, q.strata, q.clusters) for q in (self, other))
        if self.varying and other.varying:
            present = (set() if q.strata is None else set(q.strata.tolist()) for q in (self, other))
            return next(present) == next(present)
        return len(mine[0]) == len(theirs[0]) and all(
            a is b or (a is not None and b is not None and np.array_equal(a, b))
            for a, b in zip(mine[1:], theirs[1:], strict=True)
        )


def strata_of(parts: Sequence[Queries]) -> Queries:
    """Combines several sets of queries, each as a stratum of its own.

    Args:
      parts: scores without strata, for example one set per language; either all or none have clusters.
    """
    strata = np.repeat(np.arange(len(parts)), [len(part.values) for part in parts])
    clusters = [part.clusters for part in parts if part.clusters is not None]
    together = np.concatenate(clusters) if clusters else None
    varying = any(part.varying for part in parts)
    return Queries(np.concatenate([part.values for part in parts]), strata, together, varying)


def interval(queries: Queries, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> tuple[float, float]:
    """Returns the percentile interval of the mean over resampled queries.

    Args:
      queries: scores of the queries.
      level: confidence level, between 0 and 1.
      resamples: number of resamples.
      seed: seed of the resampling.
    """
    rng = np.random.default_rng(seed)
    parts = queries.parts()
    means = np.zeros(resamples)
    for _, total, count in parts:
        kinds, several = np.unique(total + 1j * count, return_counts=True)
        if 4 * len(kinds) < len(total):
            # With few distinct values, such as hits and misses, drawing the count of each is enough.
            for start, stop in _blocks(len(kinds), resamples):
                drawn = rng.multinomial(len(total), several / len(total), size=stop - start)
                means[start:stop] += _ratio(drawn @ kinds.real, drawn @ kinds.imag) / len(parts)
            continue
        for start, stop in _blocks(len(total), resamples):
            drawn = rng.integers(len(total), size=(stop - start, len(total)))
            means[start:stop] += _ratio(total[drawn].sum(axis=1), count[drawn].sum(axis=1)) / len(parts)
    return _percentiles(means, level)


def resampled_correlations(
    first: Float[np.ndarray, " pair"],
    second: Float[np.ndarray, " pair"],
    *,
    ranked: bool,
    resamples: int = 1000,
    seed: int = 0,
) -> Float[np.ndarray, " resample"]:
    """Returns the correlation in each resample of the pairs; the quantiles of the correlations give an interval.

    Args:
      first: one value per pair.
      second: the other value of each pair.
      ranked: whether to compute Spearman's correlation, with new ranks in each resample, instead of Pearson's.
      resamples: number of resamples.
      seed: seed of the resampling.
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
    # The correlation of a constant resample counts as 0.
    return np.clip((x * y).sum(axis=1) / np.where(norms > 0, norms, 1), -1, 1)


def paired_test(first: Queries, second: Queries, *, resamples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """Returns the mean difference, second minus first, and its two-sided p-value.

    Args:
      first: scores of one method; the scores in a cluster are exchanged together.
      second: scores of the other method on the same queries; with ``varying``, cluster sizes may differ.
      resamples: number of random exchanges of the two methods' scores; p is at least 1 / (resamples + 1).
      seed: seed of the exchanges.

    Raises:
      ValueError: the queries differ.
    """
    rng = np.random.default_rng(seed)
    pairs = _paired(first, second)
    means = np.zeros(resamples)
    for a, b in pairs:
        totals, numbers = b.total - a.total, b.number - a.number
        # Exchanging equal scores changes nothing, so only the others are drawn.
        apart = (totals != 0) | (numbers != 0)
        for start, stop in _blocks(int(apart.sum()), resamples):
            moved = rng.integers(2, size=(stop - start, int(apart.sum())), dtype=np.int8)
            total, number = moved @ totals[apart], moved @ numbers[apart]
            ours = _ratio(a.total.sum() + total, a.number.sum() + number)
            means[start:stop] += (_ratio(b.total.sum() - total, b.number.sum() - number) - ours) / len(pairs)
    difference = float(np.mean([b.total.sum() / b.number.sum() - a.total.sum() / a.number.sum() for a, b in pairs]))
    # Allow for rounding: the sums are taken in different orders.
    as_far = np.abs(means) >= abs(difference) * (1 - 1e-9) - 1e-12
    return difference, float((as_far.sum() + 1) / (resamples + 1))


def paired_interval(
    first: Queries, second: Queries, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Returns the percentile interval of the difference in means over resampled queries.

    Args:
      first: scores of one method.
      second: scores of the other method on the same queries; both are resampled together.
      level: confidence level, between 0 and 1.
      resamples: number of resamples.
      seed: seed of the resampling.

    Raises:
      ValueError: the queries differ.
    """
    rng = np.random.default_rng(seed)
    pairs = _paired(first, second)
    means = np.zeros(resamples)
    for a, b in pairs:
        for start, stop in _blocks(len(a.total), resamples):
            drawn = rng.integers(len(a.total), size=(stop - start, len(a.total)))
            one, other = (_ratio(part.total[drawn].sum(axis=1), part.number[drawn].sum(axis=1)) for part in (a, b))
            means[start:stop] += (other - one) / len(pairs)
    return _percentiles(means, level)


def _paired(first: Queries, second: Queries) -> list[tuple[_Part, _Part]]:
    """Returns the strata of both methods, each pair with the same clusters in the same order."""
    if not first.same(second):
        raise ValueError(f"{len(first.values)} and {len(second.values)} scores are not of the same queries")
    if not first.varying:
        # A query is compared only if both methods have a score for it.
        known = np.isfinite(first.values) & np.isfinite(second.values)
        first, second = (replace(q, values=np.where(known, q.values, np.nan)) for q in (first, second))
    result = []
    for a, b in zip(first.parts(), second.parts(), strict=True):
        every = np.union1d(a.cluster, b.cluster)
        result.append((_spread(a, every), _spread(b, every)))
    return result


def _spread(part: _Part, clusters: Int[np.ndarray, " union"]) -> _Part:
    total, number = np.zeros(len(clusters)), np.zeros(len(clusters))
    places = np.searchsorted(clusters, part.cluster)
    total[places], number[places] = part.total, part.number
    return _Part(clusters, total, number)


def _ratio(total: Float[np.ndarray, " n"], number: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Returns total / number; 0 if the number is 0."""
    return np.where(number > 0, total / np.where(number > 0, number, 1), 0)


def _percentiles(means: Float[np.ndarray, " resample"], level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it must be between 0 and 1")
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def _blocks(size: int, resamples: int) -> list[tuple[int, int]]:
    step = max(1, _BLOCK // max(size, 1))
    return [(start, min(start + step, resamples)) for start in range(0, resamples, step)]
