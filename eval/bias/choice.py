"""Which of many layers and methods to use, and how sure that is, by resampling the units of the text.

The best of many noisy scores is too high. So the choice is also made anew in each resample of the units (Efron 1979),
and scored on the units that were not drawn. Since the best is selected by the same scores, the intervals of its
differences from the others are those that hold for the differences of all pairs of candidates at once (as Tukey's do):
they are as many standard errors wide as the largest of these deviates in 95% of the resamples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import norm as normal
from scipy.stats import t as student

from eval.resampling import Queries

__all__ = ["Choice", "Span", "choose"]


class Span(NamedTuple):
    """A value and its 95% interval over resampled units."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value, low, high = (round(one, 1) + 0.0 for one in self)  # zero is printed without a sign
        return f"{value:.1f} ({low:.1f} to {high:.1f})"


class Choice(NamedTuple):
    """The best candidate, and how sure it is; scores are in percent.

    Attributes:
      best: index of the candidate with the highest score.
      score: its score.
      gains: by how much it is above each candidate; the intervals hold for all pairs of candidates at once.
      again: share of the resamples in which it is chosen again.
      elsewhere: mean score, on the units that were not drawn, of what is chosen in each resample.
    """

    best: int
    score: Span
    gains: list[Span]
    again: float
    elsewhere: float

    def as_good(self) -> list[int]:
        """Returns the other candidates that are not significantly worse, in the order of their scores."""
        near = [index for index, gain in enumerate(self.gains) if index != self.best and gain.low <= 0]
        return sorted(near, key=lambda index: self.gains[index].value)


def choose(candidates: Sequence[Queries], *, resamples: int = 1000, seed: int = 0) -> Choice:
    """Returns the candidate with the highest score, and how sure it is.

    Args:
      candidates: scores of the same queries for each candidate; their clusters are the units that are resampled.
      resamples: number of resamples.
      seed: seed of the resampling.

    Raises:
      ValueError: the candidates have scores of different queries.
    """
    first = candidates[0]
    if not all(first.same(other) for other in candidates):
        raise ValueError("the candidates have scores of different queries")
    values = np.stack([one.values for one in candidates])
    clusters = np.arange(values.shape[1]) if first.clusters is None else first.clusters
    strata = np.zeros(values.shape[1], int) if first.strata is None else first.strata
    _, unit = np.unique(clusters, return_inverse=True)
    units = int(unit.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(units, np.full(units, 1 / units), size=resamples)
    weights = np.concatenate([np.ones((1, units)), drawn, drawn == 0]).astype(np.float32)
    scores = _scores(values, unit, strata, weights)
    whole, inside, outside = scores[0], scores[1 : 1 + resamples], scores[1 + resamples :]
    best = int(whole.argmax())
    chosen = inside.argmax(axis=1)
    gain = whole[best] - whole
    width = _widths(inside - whole, units)[best]
    gains = [Span(*map(float, one)) for one in zip(gain, gain - width, gain + width, strict=True)]
    left = outside[np.arange(resamples), chosen]
    return Choice(
        best, _span(whole[best], inside[:, best]), gains, float((chosen == best).mean()), float(np.nanmean(left))
    )


def _widths(deviations: Float[np.ndarray, "draw candidate"], units: int) -> Float[np.ndarray, "candidate candidate"]:
    """Returns the half-widths of intervals of all differences of candidates, which hold at once in 95% of draws."""
    spread = deviations - deviations.mean(axis=0)
    covariance = spread.T @ spread / len(spread)
    variance = np.diag(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance - 2 * covariance, 0))
    widest = np.zeros(len(deviations))
    for one, own in enumerate(error):
        differs = own > 1e-6  # not itself, nor what moves no sentence
        apart = np.abs(deviations[:, [one]] - deviations[:, differs]) / own[differs]
        widest = np.maximum(widest, apart.max(axis=1, initial=0))
    # The errors are estimated from few units: what is so far out in a normal distribution is further out in Student's.
    limit = student.ppf(normal.cdf(np.quantile(widest, 0.95)), units - 1)
    return limit * np.sqrt(units / (units - 1)) * error


def _scores(
    values: Float[np.ndarray, "candidate query"],
    unit: Int[np.ndarray, " query"],
    strata: Int[np.ndarray, " query"],
    weights: Float[np.ndarray, "draw unit"],
) -> Float[np.ndarray, "draw candidate"]:
    """Returns the mean of the weighted means of the strata that have units in a draw; NaN where none has."""
    total, present = np.zeros((len(weights), len(values))), np.zeros((len(weights), 1))
    for stratum in np.unique(strata):
        own = strata == stratum
        units, number = np.unique(unit[own], return_inverse=True)
        sums = np.stack([np.bincount(number, row) for row in values[:, own]]).astype(np.float32)
        drawn = weights[:, units]
        count = drawn @ np.bincount(number).astype(np.float32)[:, None]
        total += drawn @ sums.T / np.maximum(count, 1)
        present += count > 0
    return np.where(present > 0, total / np.maximum(present, 1), np.nan)


def _span(value: float, resampled: Float[np.ndarray, " draw"]) -> Span:
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return Span(float(value), float(low), float(high))
