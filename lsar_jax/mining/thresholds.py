"""Where to cut the scores of mined pairs: by pairs that are known, or by the shape of their distribution.

The scale of a margin depends on the embeddings: without their common mean, cosines are small and their ratios large. So
a threshold holds for one encoder, layer, transform and kind of text, and is to be chosen anew for others.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.checks import as_float, finite_numbers, shown, whole_number
from lsar_jax.mining.known_pairs import KnownPairs
from lsar_jax.mining.pairs import Pairs, Threshold, best_threshold, threshold_after

__all__ = ["Cut", "check_cut", "choose_threshold", "estimate_threshold", "histogram"]

# A mixture is fitted to so many quantiles of the scores, in so many steps at most, from these shares of right pairs.
_QUANTILES, _STEPS, _STARTS = 2000, 500, (0.6, 0.4, 0.2, 0.08)
_LEAST = 20
# Scores are two groups if the mixture gains so much log-likelihood a score over one normal distribution, without these
# shares of the lowest and the highest scores: long tails, too, are a gain, but no group.
_GAIN, _TAIL = 0.04, 0.03


Cut = float | Literal["estimate"] | KnownPairs | None


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
    ends = np.append(np.flatnonzero(score[1:] < score[:-1]), len(score) - 1)
    found, total = np.cumsum(right)[ends], max(float(right.sum()), 1e-12)
    best = int(np.argmax(2 * found / (ends + 1 + total)))
    end = ends[best]
    rates = found[best] / (end + 1), found[best] / total, 2 * found[best] / (end + 1 + total)
    return Threshold(threshold_after(score, int(end)), *(100 * float(rate) for rate in rates))


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


def check_cut(threshold: Cut) -> None:
    """Raises ValueError if a threshold is not a number, ``estimate``, known pairs or None."""
    if isinstance(threshold, KnownPairs):
        threshold.check()
    elif threshold not in (None, "estimate") and np.isnan(as_float(threshold)):
        raise ValueError(f"threshold is {shown(threshold)}; it must be a number that fits a float, or estimate")


def choose_threshold(pairs: Pairs, threshold: Cut, known: Int[np.ndarray, "known 2"]) -> tuple[float, str]:
    """Returns the lowest score to write, and what to say about it; empty if the threshold is a number.

    Args:
      pairs: all mined pairs.
      threshold: what to choose it by.
      known: the rows of the known pairs, as ``known_rows`` returns them.

    Raises:
      ValueError: no threshold reaches the precision, or none can be estimated.
    """
    if isinstance(threshold, KnownPairs):
        return _by_known(pairs, threshold, known)
    if threshold is not None and threshold != "estimate":
        return float(threshold), ""
    try:
        estimate = estimate_threshold(pairs.score)
    except ValueError as error:
        if threshold == "estimate":
            raise
        return 0.0, f"no threshold is estimated: {error}"
    text = (
        f"estimated threshold {estimate.value:.6f}, which {int((pairs.score >= estimate.value).sum()):,} of "
        f"{len(pairs.score):,} pairs reach: if the groups are right and wrong, precision "
        f"{estimate.precision:.0f}% and recall {estimate.recall:.0f}%; this is not measured\n"
        f"{histogram(pairs.score, estimate.value)}"
    )
    return estimate.value if threshold == "estimate" else 0.0, text


def _by_known(pairs: Pairs, threshold: KnownPairs, known: Int[np.ndarray, "known 2"]) -> tuple[float, str]:
    # A pair as one number: source << 32 | target.
    numbers, every = (left.astype(np.int64) << 32 | right for left, right in (known.T, (pairs.source, pairs.target)))
    right = np.isin(every, numbers)
    if not right.any():
        raise ValueError(
            f"none of the {len(known):,} known pairs in the inputs was mined; give pairs that are translations"
        )
    chosen = best_threshold(pairs.score, right, len(known), least_precision=threshold.least_precision)
    written = pairs.score >= chosen.value
    count, places = int(written.sum()), (pairs.source[written], pairs.target[written])
    unknown = int(np.logical_and(*(~np.isin(rows, known[:, n]) for n, rows in enumerate(places))).sum())
    low, high = _interval(chosen.precision / 100, count)
    text = (
        f"threshold {chosen.value:.6f}: precision {chosen.precision:.1f}% (95% interval {low:.1f} to {high:.1f}), "
        f"recall {chosen.recall:.1f}% on {len(known):,} known pairs in the inputs, of {len(threshold.pairs):,}; of the "
        f"{count:,} pairs above it, {unknown:,} have no sentence of a known pair and count as wrong; the threshold was "
        "chosen on these pairs"
    )
    return chosen.value, text


def _interval(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share of ``count``, in percent: the score interval of Wilson, JASA 1927."""
    z = 1.96
    middle, half = share + z**2 / (2 * count), z * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return 100 * (middle - half) / (1 + z**2 / count), 100 * (middle + half) / (1 + z**2 / count)


def histogram(score: Float[np.ndarray, " pair"], threshold: float, rows: int = 12) -> str:
    """Returns the numbers of scores in equal steps, a line each, of which the one with the threshold is marked.

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
