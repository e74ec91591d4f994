"""Thresholds of the scores of mined pairs: by pairs that are known, or by the shape of their distribution.

The scale of a margin depends on the embeddings: without their common mean, cosines are small and their ratios large. So
a threshold holds for one encoder, layer, transform and kind of text, and is to be chosen anew for others.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lsar_jax.checks import finite_numbers, whole_number

__all__ = ["Threshold", "best_threshold", "estimate_threshold", "histogram"]

# A mixture is fitted to so many quantiles of the scores, in so many steps at most, from these shares of right pairs.
_QUANTILES, _STEPS, _STARTS = 2000, 500, (0.6, 0.4, 0.2, 0.08)
_LEAST = 20
# Scores are two groups if the mixture gains so much log-likelihood a score over one normal distribution, without these
# shares of the lowest and the highest scores: long tails, too, are a gain, but no group.
_GAIN, _TAIL = 0.04, 0.03


class Threshold(NamedTuple):
    """The lowest score (``value``) of the accepted pairs, and their precision, recall and F1 in percent."""

    value: float
    precision: float
    recall: float
    f1: float


def best_threshold(
    score: Float[np.ndarray, " pair"],
    right: Bool[np.ndarray, " pair"],
    gold: int,
    *,
    least_precision: float | None = None,
) -> Threshold:
    """Returns the threshold with the best F1, midway between two scores; if several are equally good, the highest.

    Args:
      score: scores of candidate pairs, ``[pair]``, in any order.
      right: whether each is a gold pair, ``[pair]``.
      gold: number of gold pairs, found or not.
      least_precision: return the lowest threshold with at least this precision, in percent, instead.

    Raises:
      ValueError: there are no pairs or no gold pairs, lengths differ, more pairs are right than are gold, a score is
        not finite, or no threshold reaches the precision.

    Example:
      >>> score, right = np.array([1.5, 1.25, 1.0, 0.5]), np.array([True, True, False, False])
      >>> lj.mining.best_threshold(score, right, gold=2)._asdict()
      {'value': 1.125, 'precision': 100.0, 'recall': 100.0, 'f1': 100.0}
    """
    if score.shape != right.shape or not len(score) or not right.sum() <= gold or gold < 1:
        raise ValueError(
            f"{len(score)} scores and {len(right)} answers, {right.sum()} of them right, but {gold} gold pairs; give "
            "an answer for each score, at least one, and all gold pairs"
        )
    finite_numbers("score", score)
    order = np.argsort(-score, kind="stable")
    score = score[order]
    ends, rates = _rates(score, right[order], gold)
    best = int(np.argmax(rates[2]))
    if least_precision is not None:
        if not len(reached := np.flatnonzero(100 * rates[0] >= least_precision)):
            most = int(np.argmax(rates[0]))
            raise ValueError(
                f"no threshold reaches a precision of {least_precision:g}%; the highest is "
                f"{100 * rates[0, most]:.1f}%, of the {ends[most] + 1:,} pairs that score at least "
                f"{score[ends[most]]:.4g}"
            )
        best = int(reached[-1])
    return Threshold(_after(score, int(ends[best])), *(100 * rates[:, best]).tolist())


def _rates(
    score: Float[np.ndarray, " pair"], right: Bool[np.ndarray, " pair"] | Float[np.ndarray, " pair"], total: int | float
) -> tuple[Int[np.ndarray, " end"], Float[np.ndarray, "3 end"]]:
    """The last row of each run of equal scores, best first, with precision, recall and F1 there.

    ``right`` says whether a pair is right, or with what probability, and ``total`` how many are.
    """
    ends = np.append(np.flatnonzero(score[1:] < score[:-1]), len(score) - 1)
    counts, found = ends + 1, np.cumsum(right)[ends]
    return ends, np.array([found / counts, found / total, 2 * found / (counts + total)])


def _after(score: Float[np.ndarray, " pair"], end: int) -> float:
    """Returns a threshold that the scores up to ``end``, best first, reach, and the others do not.

    It is midway between two scores, but the upper where none is between, be it in float32, in which ``mine`` scores:
    numpy compares a float32 array with a Python number rounded to float32.
    """
    upper, lower = float(score[end]), float(score[min(end + 1, len(score) - 1)])
    middle = (upper + lower) / 2
    with np.errstate(over="ignore"):
        return middle if lower < middle and lower < np.float32(middle) <= upper else upper


def estimate_threshold(score: Float[np.ndarray, " pair"]) -> Threshold:
    """Returns the threshold with the best F1 that is expected if no pair is known.

    The scores are taken for a mixture of two normal distributions, of which that with the larger mean holds the
    translations (fitted by expectation maximisation, Dempster, Laird and Rubin 1977; to at most 2,000 quantiles of the
    scores). A pair is right with its probability in the mixture, which gives the expected precision, recall (of the
    translations among the pairs) and F1, in percent. These are what the mixture says, not measured. They are often too
    high for collections with many sentences that are nearly translations. Where nearly all pairs are right, or nearly
    all are wrong, there is no threshold to find: scores are refused that two normal distributions describe hardly
    better than one does (a gain in log-likelihood below 0.04 a score, less the penalty of BIC, Schwarz 1978).

    Args:
      score: scores of mined pairs, ``[pair]``, in any order, in units of their margin; all, and not those above a
        threshold.

    Raises:
      ValueError: there are fewer than 20 scores, one is not finite, or they are all equal or not two groups.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> score = np.concatenate([rng.normal(1.0, 0.02, 700), rng.normal(1.2, 0.04, 300)])
      >>> round(lj.mining.estimate_threshold(score).value, 1)
      1.1
    """
    score = np.sort(finite_numbers("score", score))[::-1]
    whole_number("the number of scores", len(score), _LEAST, 1 << 62, "fewer give no estimate")
    count = min(len(score), _QUANTILES)
    sample = np.quantile(score, (np.arange(count) + 0.5) / count)
    _check_two_groups(sample[int(_TAIL * count) : count - int(_TAIL * count)], len(score))
    share, mean, deviation = max((_mixture(sample, start) for start in _STARTS), key=lambda fit: fit[0])[1:]
    low, high = np.argsort(mean)
    log = _log_density(score, share, mean, deviation)
    right = np.exp(log[high] - np.logaddexp(*log))
    # Of normal distributions, the wider one is more likely on both sides of the other.
    right = np.where(score > mean[high], 1, np.where(score < mean[low], 0, right))
    ends, rates = _rates(score, right, max(float(right.sum()), 1e-12))
    best = int(np.argmax(rates[2]))
    return Threshold(_after(score, int(ends[best])), *(100 * rates[:, best]).tolist())


def _check_two_groups(x: Float[np.ndarray, " sample"], count: int) -> None:
    """Raises ValueError if two normal distributions describe a sample of ``count`` scores hardly better than one."""
    gain = -np.inf
    if x[0] < x[-1]:
        # The mean log-likelihood of one distribution, without the constant that _mixture leaves out.
        one = -np.log(x.std()) - 0.5
        # Two have three parameters more.
        gain = max(_mixture(x, start)[0] for start in _STARTS) - one - 1.5 * np.log(count) / count
    if gain < _GAIN:
        raise ValueError(
            f"the {count:,} scores are not two groups, right and wrong, as where nearly all pairs are right or nearly "
            "all are wrong, so no threshold can be estimated; write all pairs and read some, or give known pairs"
        )


def _mixture(
    x: Float[np.ndarray, " sample"], right: float
) -> tuple[float, Float[np.ndarray, "2"], Float[np.ndarray, "2"], Float[np.ndarray, "2"]]:
    """Log-likelihood, shares, means and deviations of two components, which begin as the lower and the upper scores."""
    least = 1e-3 * float(x.std())
    weight = np.stack([x < np.quantile(x, 1 - right), x >= np.quantile(x, 1 - right)]).astype(float)
    before = -np.inf
    for _ in range(_STEPS):
        mass = weight.sum(axis=1) + 1e-12
        share, mean = mass / mass.sum(), weight @ x / mass
        deviation = np.maximum(np.sqrt((weight * (x - mean[:, None]) ** 2).sum(axis=1) / mass), least)
        log = _log_density(x, share, mean, deviation)
        total = np.logaddexp(*log)
        if (likelihood := float(total.mean())) - before < 1e-9:
            break
        weight, before = np.exp(log - total), likelihood
    return likelihood, share, mean, deviation


def _log_density(
    x: Float[np.ndarray, " _"],
    share: Float[np.ndarray, "2"],
    mean: Float[np.ndarray, "2"],
    deviation: Float[np.ndarray, "2"],
) -> Float[np.ndarray, "2 _"]:
    """The logarithm of the density of each component, up to a constant."""
    distance = (x - mean[:, None]) / deviation[:, None]
    return np.log(share / deviation)[:, None] - distance**2 / 2


def histogram(score: Float[np.ndarray, " pair"], threshold: float, rows: int = 12) -> str:
    """Returns a histogram of the scores as text, a line a bin; the bin of the threshold is marked.

    The first and the last line have the scores beyond the 0.5% and 99.5% quantiles, too.
    """
    low, high = np.quantile(score, [0.005, 0.995])
    edges = np.linspace(low, high, rows + 1)
    counts, _ = np.histogram(np.clip(score, low, high), edges)
    place = int(np.clip(np.searchsorted(edges, threshold, side="right") - 1, 0, rows - 1))
    return "\n".join(
        f"{edge:9.4g} |{'#' * round(40 * count / max(counts.max(), 1)):40} {count:,}{' <- threshold' * (n == place)}"
        for n, (edge, count) in enumerate(zip(edges, counts, strict=False))
    )
