"""Which of many layers and methods to use, and how sure that is, by resampling the units of the text.

The best of many noisy scores is too high. So the choice is also made anew in each resample of the units (Efron 1979),
and scored on the units that were not drawn; and the intervals of its differences from all other candidates hold for all
of them at once: they are as many standard errors wide as the largest of the differences deviates in 95% of the
resamples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eval.resampling import Queries

__all__ = ["Choice", "Span", "choose"]


class Span(NamedTuple):
    """A value and its 95% interval over resampled units."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} ({self.low:.1f} to {self.high:.1f})"


class Choice(NamedTuple):
    """The best candidate, and how sure it is; scores are in percent.

    Attributes:
      best: index of the candidate with the highest score.
      score: its score.
      gains: by how much it is above each candidate; the intervals hold for all candidates at once.
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
    deviations = inside[:, [best]] - inside - gain
    error = deviations.std(axis=0)
    differs = error > 1e-9  # not the best itself, nor what moves no sentence
    widest = np.abs(deviations[:, differs] / error[differs]).max(axis=1, initial=0)
    width = np.quantile(widest, 0.95) * error
    gains = [Span(*map(float, one)) for one in zip(gain, gain - width, gain + width, strict=True)]
    left = outside[np.arange(resamples), chosen]
    return Choice(
        best, _span(whole[best], inside[:, best]), gains, float((chosen == best).mean()), float(np.nanmean(left))
    )


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
