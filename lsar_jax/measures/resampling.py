"""Uncertainty of a mean over queries: bootstrap intervals, and a paired test of two methods.

Queries are resampled with replacement (Efron 1979; percentile intervals at 95%): within each stratum, such as a
language, and as whole clusters, such as the translations of a question. Two methods are compared on the same queries by
exchanging their scores at random (Fisher's randomisation test, which Smucker, Allan and Carterette, CIKM 2007,
recommend for retrieval, and Yeh, COLING 2000, for ratios such as F1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

__all__ = [
    "Interval",
    "QueryScores",
    "critical_value",
    "difference_of",
    "interval",
    "paired_interval",
    "paired_test",
    "simultaneous_intervals",
    "strata_of",
]

# Number of values drawn at a time.
_BLOCK = 1 << 22


class Interval(NamedTuple):
    """A value and its 95% interval over resampled units; NaN ends stand for no interval."""

    value: float
    low: float = nan
    high: float = nan

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not isnan(self.low)

    @property
    def sign(self) -> int:
        """1 or -1 where the interval is above or below zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        value, low, high = (f"{round(number, 1) + 0.0:.1f}" for number in self)  # zero is printed without a sign
        return f"{value} ({low} to {high})" if self.known else value


class _Part(NamedTuple):
    """One stratum: its sorted clusters, and the sum and number of the scores in each."""

    cluster: Int[np.ndarray, " cluster"]
    total: Float[np.ndarray, " cluster"]
    number: Float[np.ndarray, " cluster"]

    @property
    def mean(self) -> float:
        return float(self.total.sum() / self.number.sum())


@dataclass(frozen=True, eq=False)
class QueryScores:
    """The scores of individual queries.

    Attributes:
      values: the scores; NaN values are ignored.
      strata: stratum of each query, from 0, if there are several; the score is the mean of the stratum means.
      clusters: cluster of each query, if they are not independent; a cluster is resampled as a whole.
      varying: whether the number of scores in a cluster may differ between methods, as for mined pairs.
    """

    values: Real[np.ndarray, " query"]
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
        return float(np.mean([part.mean for part in self.parts()]))

    def parts(self) -> list[_Part]:
        """The scores of each stratum, summed by cluster."""
        known = np.isfinite(self.values)
        each = np.arange(len(self.values))
        values = self.values[known]
        strata = (np.zeros_like(each) if self.strata is None else self.strata)[known]
        clusters = (each if self.clusters is None else self.clusters)[known]
        result = []
        for stratum in np.unique(strata):
            inside = strata == stratum
            names, number = np.unique(clusters[inside], return_inverse=True)
            result.append(_Part(names, np.bincount(number, values[inside]), np.bincount(number).astype(float)))
        return result

    def same(self, other: "QueryScores") -> bool:
        """Whether ``other`` has scores of the same queries."""
        if self.varying and other.varying:
            mine, theirs = (set() if q.strata is None else set(q.strata.tolist()) for q in (self, other))
            return mine == theirs
        return len(self.values) == len(other.values) and all(
            a is b or (a is not None and b is not None and np.array_equal(a, b))
            for a, b in ((self.strata, other.strata), (self.clusters, other.clusters))
        )


def strata_of(parts: Sequence[QueryScores]) -> QueryScores:
    """Combines sets of queries without strata, each as a stratum; either all or none have clusters.

    Strata are resampled independently, also where clusters are in several of them; ``difference_of`` draws these
    together.
    """
    strata = np.repeat(np.arange(len(parts)), [len(part.values) for part in parts])
    values = np.concatenate([part.values for part in parts])
    return QueryScores(values, strata, _clusters(parts), any(part.varying for part in parts))


def difference_of(first: Sequence[QueryScores], second: Sequence[QueryScores] = ()) -> QueryScores:
    """Combines sets of queries, whose score is the mean over the means of ``first`` minus the mean over ``second``.

    Either all or none have clusters; unlike strata, the clusters that sets share are resampled together. The score is
    linear in the queries' scores (Efron and Tibshirani 1993, chapter 6): each set's mean, and what a query adds.
    """
    signed = [(part, 1 / len(first)) for part in first] + [(part, -1 / len(second)) for part in second]
    value = sum(weight * part.mean for part, weight in signed)
    numbers = [int(np.isfinite(part.values).sum()) for part, _ in signed]
    values = [
        value + weight * sum(numbers) / number * (part.values - part.mean)
        for (part, weight), number in zip(signed, numbers, strict=True)
    ]
    return QueryScores(np.concatenate(values), clusters=_clusters([part for part, _ in signed]))


def _clusters(parts: Sequence[QueryScores]) -> Int[np.ndarray, " query"] | None:
    clusters = [part.clusters for part in parts if part.clusters is not None]
    return np.concatenate(clusters) if clusters else None


def interval(queries: QueryScores, *, resamples: int = 1000, seed: int = 0) -> tuple[float, float]:
    """Returns the 95% percentile interval of the mean over resampled queries."""
    rng = np.random.default_rng(seed)
    parts = queries.parts()
    means = np.zeros(resamples)
    for part in parts:
        values, several = np.unique(part.total + 1j * part.number, return_counts=True)
        if 4 * len(values) < len(part.total):
            # With few distinct values, such as hits and misses, drawing the count of each is enough.
            for block in _blocks(len(values), resamples):
                drawn = rng.multinomial(len(part.total), several / len(part.total), size=block.stop - block.start)
                means[block] += _ratio(drawn @ values.real, drawn @ values.imag) / len(parts)
        else:
            means += _resampled(rng, [part], resamples)[0] / len(parts)
    return _percentiles(means)


def paired_interval(
    first: QueryScores, second: QueryScores, *, resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Returns the 95% percentile interval of the difference in means over queries that are resampled together."""
    return _percentiles(np.subtract(*_draws(_paired(first, second)[::-1], resamples, seed)))


def simultaneous_intervals(
    pairs: Sequence[tuple[QueryScores, QueryScores]],
    *,
    others: Sequence[tuple[QueryScores, QueryScores]] = (),
    resamples: int = 1000,
    seed: int = 0,
) -> list[tuple[float, float]]:
    """Returns intervals of the differences of several pairs, second minus first, all of which hold in 95% of resamples.

    They are as wide as the largest of the studentised differences asks for (Westfall and Young 1993, section 2.5),
    also of ``others``, pairs that might have been asked for: those from which the pairs were chosen by their scores.
    Pairs with the same clusters are resampled together. Of a pair whose strata have one cluster each, which resampling
    does not vary, the ends are NaN.
    """
    every = (*pairs, *others)
    # A set of queries may be in many pairs: where none lacks a score, it is resampled once for all of them.
    once = {id(of): of for pair in every for of in pair if not of.varying and np.isfinite(of.values).all()}
    means = {key: _draws([of.parts()], resamples, seed)[0] for key, of in once.items()}
    values, drawn, units = [], [], []
    for first, second in every:
        sides = _paired(first, second)
        values.append(float(np.mean([b.mean - a.mean for a, b in zip(*sides, strict=True)])))
        units.append(1 + sum(len(part.total) - 1 for part in sides[0]))
        if id(first) in means and id(second) in means:
            drawn.append(means[id(second)] - means[id(first)])
        else:
            drawn.append(np.subtract(*_draws(sides[::-1], resamples, seed)))
    known = [number for number, count in enumerate(units) if count > 1]
    ends = [(nan, nan)] * len(units)
    if known:
        at_once = np.stack([drawn[number] for number in known])
        errors = at_once.std(axis=1, keepdims=True)
        deviates = np.abs(at_once - at_once.mean(axis=1, keepdims=True)) / np.where(errors > 1e-9, errors, np.inf)
        width = critical_value(deviates.max(axis=0), min(units[number] for number in known)) * errors[:, 0]
        for number, half in zip(known, width.tolist(), strict=True):
            ends[number] = values[number] - half, values[number] + half
    return ends[: len(pairs)]


def critical_value(widest: Float[np.ndarray, " resample"], units: int) -> float:
    """Returns the critical value of simultaneous 95% intervals, in standard errors.

    Args:
      widest: the largest deviate of each resample, in standard errors.
      units: number of resampled units, from which the standard errors were estimated.
    """
    from scipy.stats import norm as normal
    from scipy.stats import t as student

    # The errors are estimated from few units: what is so far out in a normal distribution is further out in Student's,
    # and resampling has the variance of the sample, divided by n. Both are this library's choice.
    limit = student.ppf(normal.cdf(np.quantile(widest, 0.95)), units - 1)
    return float(limit * np.sqrt(units / (units - 1)))


def paired_test(
    first: QueryScores, second: QueryScores, *, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Returns the mean difference, second minus first, and its two-sided p-value, at least 1 / (resamples + 1).

    The two methods' scores in a cluster are exchanged together.
    """
    rng = np.random.default_rng(seed)
    pairs = list(zip(*_paired(first, second), strict=True))
    means = np.zeros(resamples)
    # Not scipy's permutation_test, which takes up to five times as long.
    for a, b in pairs:
        totals, numbers = b.total - a.total, b.number - a.number
        # Exchanging equal scores changes nothing, so only the others are drawn.
        apart = (totals != 0) | (numbers != 0)
        for block in _blocks(int(apart.sum()), resamples):
            exchanged = rng.integers(2, size=(block.stop - block.start, int(apart.sum())), dtype=np.int8)
            total, number = exchanged @ totals[apart], exchanged @ numbers[apart]
            before = _ratio(a.total.sum() + total, a.number.sum() + number)
            means[block] += (_ratio(b.total.sum() - total, b.number.sum() - number) - before) / len(pairs)
    difference = float(np.mean([b.mean - a.mean for a, b in pairs]))
    # Allow for rounding: the sums are taken in different orders.
    as_far = np.abs(means) >= abs(difference) * (1 - 1e-9) - 1e-12
    return difference, float((as_far.sum() + 1) / (resamples + 1))


def _paired(first: QueryScores, second: QueryScores) -> list[list[_Part]]:
    """The strata of both methods, side by side, with the same clusters in the same order."""
    if not first.same(second):
        raise ValueError(f"{len(first.values)} and {len(second.values)} scores are not of the same queries")
    if not first.varying:
        # A query is compared only if both methods have a score for it.
        known = np.isfinite(first.values) & np.isfinite(second.values)
        first, second = (replace(q, values=np.where(known, q.values, np.nan)) for q in (first, second))
    sides: list[list[_Part]] = [[], []]
    for pair in zip(first.parts(), second.parts(), strict=True):
        clusters = np.union1d(*(part.cluster for part in pair))
        for part, side in zip(pair, sides, strict=True):
            whole = _Part(clusters, np.zeros(len(clusters)), np.zeros(len(clusters)))
            places = np.searchsorted(clusters, part.cluster)
            whole.total[places], whole.number[places] = part.total, part.number
            side.append(whole)
    return sides


def _draws(sides: Sequence[Sequence[_Part]], resamples: int, seed: int) -> Float[np.ndarray, "side resample"]:
    """The mean of each side in each resample of the queries, which all sides share."""
    rng = np.random.default_rng(seed)
    return np.mean([_resampled(rng, parts, resamples) for parts in zip(*sides, strict=True)], axis=0)


def _resampled(rng: np.random.Generator, parts: Sequence[_Part], resamples: int) -> Float[np.ndarray, "part resample"]:
    """The means of parts with the same clusters, in each resample of the clusters."""
    means = np.zeros((len(parts), resamples))
    count = len(parts[0].total)
    for block in _blocks(count, resamples):
        drawn = rng.integers(count, size=(block.stop - block.start, count))
        for row, part in zip(means, parts, strict=True):
            row[block] = _ratio(part.total[drawn].sum(axis=1), part.number[drawn].sum(axis=1))
    return means


def _ratio(total: Float[np.ndarray, " n"], number: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The quotients; 0 where the number is 0."""
    return np.divide(total, number, out=np.zeros(np.shape(total)), where=number > 0)


def _percentiles(means: Float[np.ndarray, " resample"]) -> tuple[float, float]:
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _blocks(size: int, resamples: int) -> Iterator[slice]:
    step = max(1, _BLOCK // max(size, 1))
    return (slice(start, min(start + step, resamples)) for start in range(0, resamples, step))
