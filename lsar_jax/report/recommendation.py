"""Which of many layers and methods to use, and how sure that is, by resampling the units of the text.

The best of many noisy scores is too high. So the choice is also made anew in each resample of the units (Efron 1979),
and scored on the units that were not drawn. Since the best is selected by the same scores, the intervals of its
differences from the others are those that hold for the differences of all pairs of candidates at once (as Tukey's do):
they are as many standard errors wide as the largest of these deviates in 95% of the resamples.

A candidate may be preferred for what scores do not say, as a map that needs no language is: the best of those is chosen
if it is not significantly worse than the best of all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.resampling import Interval, critical_value

__all__ = ["Recommendation", "recommend"]


class Recommendation(NamedTuple):
    """The recommended candidate, and how sure it is; scores are in percent.

    Attributes:
      best, score: its index and score.
      gains: by how much it is above each candidate; the intervals hold for all pairs of candidates at once.
      again: share of the resamples in which it is chosen again.
      elsewhere: mean score, on the units that were not drawn, of what is chosen in each resample.
      top: index of the candidate with the highest score, another one if that is neither preferred nor significantly
        better.
    """

    best: int
    score: Interval
    gains: list[Interval]
    again: float
    elsewhere: float
    top: int

    def as_good(self) -> list[int]:
        """The other candidates that are not significantly worse, in the order of their scores."""
        near = [index for index, gain in enumerate(self.gains) if index != self.best and gain.low <= 0]
        return sorted(near, key=lambda index: self.gains[index].value)


def recommend(
    candidates: Sequence[QueryScores], preferred: Sequence[bool] = (), *, resamples: int = 1000, seed: int = 0
) -> Recommendation:
    """Chooses the candidate with the highest score, and measures how sure that is.

    All have scores of the same queries, whose clusters are the units that are resampled. Of the ``preferred`` ones, by
    default all, the best is chosen unless another candidate is significantly better.
    """
    first = candidates[0]
    values = np.stack([queries.values for queries in candidates])
    clusters = np.arange(values.shape[1]) if first.clusters is None else first.clusters
    strata = np.zeros(values.shape[1], int) if first.strata is None else first.strata
    _, unit = np.unique(clusters, return_inverse=True)
    units = int(unit.max()) + 1
    drawn = np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), size=resamples)
    weights = np.concatenate([np.ones((1, units)), drawn, drawn == 0]).astype(np.float32)
    whole, inside, outside = np.split(_scores(values, unit, strata, weights), [1, 1 + resamples])
    widths = _widths(inside - whole, units)
    chosen = _chosen(np.concatenate([whole, inside]), widths, np.array(preferred or [True] * len(candidates)))
    [whole], (best, *again) = whole, chosen.tolist()
    width, gain = widths[best], whole[best] - whole
    gains = [Interval(*map(float, span)) for span in zip(gain, gain - width, gain + width, strict=True)]
    score = Interval(float(whole[best]), *map(float, np.nanquantile(inside[:, best], [0.025, 0.975])))
    elsewhere = float(np.nanmean(outside[np.arange(resamples), again]))
    return Recommendation(best, score, gains, float(np.equal(again, best).mean()), elsewhere, int(whole.argmax()))


def _chosen(
    scores: Float[np.ndarray, "draw candidate"],
    widths: Float[np.ndarray, "candidate candidate"],
    preferred: Bool[np.ndarray, " candidate"],
) -> Int[np.ndarray, " draw"]:
    """The choice in each draw: the best of the preferred, or the best of all if it is better by more than a width."""
    draw, top = np.arange(len(scores)), scores.argmax(axis=1)
    best = np.where(preferred, scores, -np.inf).argmax(axis=1)
    return np.where(scores[draw, top] - scores[draw, best] > widths[top, best], top, best)


def _widths(deviations: Float[np.ndarray, "draw candidate"], units: int) -> Float[np.ndarray, "candidate candidate"]:
    """The half-widths of intervals of all differences of candidates, which hold at once in 95% of draws."""
    spread = deviations - deviations.mean(axis=0)
    covariance = spread.T @ spread / len(spread)
    variance = np.diag(covariance)
    errors = np.sqrt(np.maximum(variance[:, None] + variance - 2 * covariance, 0))
    widest = np.zeros(len(deviations))
    for candidate, error in enumerate(errors):
        differs = error > 1e-6  # not the candidate itself, nor a method that moves no sentence
        apart = np.abs(deviations[:, [candidate]] - deviations[:, differs]) / error[differs]
        widest = np.maximum(widest, apart.max(axis=1, initial=0))
    return critical_value(widest, units) * errors


def _scores(
    values: Float[np.ndarray, "candidate query"],
    unit: Int[np.ndarray, " query"],
    strata: Int[np.ndarray, " query"],
    weights: Float[np.ndarray, "draw unit"],
) -> Float[np.ndarray, "draw candidate"]:
    """The mean of the weighted means of the strata that have units in a draw; NaN where none has."""
    total, present = np.zeros((len(weights), len(values))), np.zeros((len(weights), 1))
    for stratum in np.unique(strata):
        inside = strata == stratum
        units, number = np.unique(unit[inside], return_inverse=True)
        sums = np.stack([np.bincount(number, row) for row in values[:, inside]]).astype(np.float32)
        drawn = weights[:, units]
        count = drawn @ np.bincount(number).astype(np.float32)[:, None]
        total += drawn @ sums.T / np.maximum(count, 1)
        present += count > 0
    return np.where(present > 0, total / np.maximum(present, 1), np.nan)
