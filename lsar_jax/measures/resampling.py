"""Uncertainty of a mean over queries: bootstrap intervals, and a paired test of two methods.

Queries are resampled with replacement (Efron 1979; percentile intervals at 95%): within each stratum, such as a
language, and as whole clusters, such as the translations of a question. Two methods are compared on the same queries by
exchanging their scores at random (Fisher's randomisation test, which Smucker, Allan and Carterette, CIKM 2007,
recommend for retrieval, and Yeh, COLING 2000, for ratios such as F1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsar_jax.measures.query_scores import QueryScores, Stratum

__all__ = ["Interval", "critical_value", "interval", "paired_interval", "paired_test", "simultaneous_intervals"]

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


def _paired(first: QueryScores, second: QueryScores) -> list[list[Stratum]]:
    """The strata of both methods, side by side, with the same clusters in the same order."""
    if not first.same(second):
        raise ValueError(f"{len(first.values)} and {len(second.values)} scores are not of the same queries")
    if not first.varying:
        # A query is compared only if both methods have a score for it.
        known = np.isfinite(first.values) & np.isfinite(second.values)
        first, second = (replace(q, values=np.where(known, q.values, np.nan)) for q in (first, second))
    sides: list[list[Stratum]] = [[], []]
    for pair in zip(first.parts(), second.parts(), strict=True):
        clusters = np.union1d(*(part.cluster for part in pair))
        for part, side in zip(pair, sides, strict=True):
            whole = Stratum(clusters, np.zeros(len(clusters)), np.zeros(len(clusters)))
            places = np.searchsorted(clusters, part.cluster)
            whole.total[places], whole.number[places] = part.total, part.number
            side.append(whole)
    return sides


def _draws(sides: Sequence[Sequence[Stratum]], resamples: int, seed: int) -> Float[np.ndarray, "side resample"]:
    """The mean of each side in each resample of the queries, which all sides share."""
    rng = np.random.default_rng(seed)
    return np.mean([_resampled(rng, parts, resamples) for parts in zip(*sides, strict=True)], axis=0)


def _resampled(
    rng: np.random.Generator, parts: Sequence[Stratum], resamples: int
) -> Float[np.ndarray, "part resample"]:
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
