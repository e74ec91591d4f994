"""Where to cut the scores of mined pairs: by pairs that are known, or by the shape of their distribution.

The scale of a margin depends on the embeddings: without their common mean, cosines are small and their ratios large. So
a threshold holds for one encoder, layer, transform and kind of text, and is to be chosen anew for others.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float

from lsar_jax.checks import as_float, shown
from lsar_jax.mining.known_pairs import KnownPairs
from lsar_jax.mining.pairs import Pairs, Threshold, best_threshold

__all__ = ["Cut", "check_cut", "choose_threshold", "estimate_threshold", "histogram"]

# A mixture is fitted to so many quantiles of the scores, in so many steps at most, from these shares of right pairs.
_QUANTILES, _STEPS, _STARTS = 2000, 500, (0.6, 0.4, 0.2, 0.08)
_LEAST = 20


Cut = float | Literal["estimate"] | KnownPairs | None


def estimate_threshold(score: Float[np.ndarray, " pair"]) -> Threshold:
    """Returns the threshold with the best F1 that is expected if no pair is known.

    The scores are taken for a mixture of two normal distributions, of which that with the larger mean holds the
    translations (fitted by expectation maximisation, Dempster, Laird and Rubin 1977; to at most 2,000 quantiles of the
    scores). A pair is right with its probability in the mixture, which gives the expected precision, recall (of the
    translations among the pairs) and F1, in percent. These are what the mixture says, not measured. They are often too
    high for collections with many sentences that are nearly translations, and mean nothing where all pairs are right or
    all are wrong: look at the histogram for two groups.

    Args:
      score: scores of mined pairs, ``[pair]``, in any order, in units of their margin; all, and not those above a
        threshold.

    Raises:
      ValueError: there are fewer than 20 scores, one is not finite, or they are all equal.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> score = np.concatenate([rng.normal(1.0, 0.02, 700), rng.normal(1.2, 0.04, 300)])
      >>> round(lj.mining.estimate_threshold(score).value, 1)
      1.1
    """
    score = np.sort(np.asarray(score, np.float64))[::-1]
    if len(score) < _LEAST:
        raise ValueError(f"there are {len(score)} scores, too few to estimate a threshold; give at least {_LEAST}")
    if not np.isfinite(score).all():
        raise ValueError("a score is not finite")
    if score[0] == score[-1]:
        raise ValueError(f"all scores are {score[0]:.6g}, so no threshold can be estimated")
    count = min(len(score), _QUANTILES)
    sample = np.quantile(score, (np.arange(count) + 0.5) / count)
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
    value = score[end] if end == len(score) - 1 else (score[end] + score[end + 1]) / 2
    precision, recall = found[best] / (end + 1), found[best] / total
    return Threshold(float(value), *(100 * float(x) for x in (precision, recall, 2 * found[best] / (end + 1 + total))))


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
    """Of each component, up to a constant."""
    distance = (x - mean[:, None]) / deviation[:, None]
    return np.log(share / deviation)[:, None] - distance**2 / 2


def check_cut(threshold: Cut) -> None:
    """Raises ValueError if a threshold is not a number, ``estimate``, known pairs or None."""
    if isinstance(threshold, KnownPairs):
        threshold.check()
    elif isinstance(threshold, str):
        if threshold != "estimate":
            raise ValueError(f"threshold is {threshold!r}; it must be a number or estimate")
    elif threshold is not None and np.isnan(as_float(threshold)):
        raise ValueError(f"threshold is {shown(threshold)}; it must be a number that fits a float")


def choose_threshold(pairs: Pairs, threshold: Cut, known: set[tuple[int, int]]) -> tuple[float, str]:
    """Returns the lowest score to write, and what to say about it; empty if the threshold is a number.

    Args:
      pairs: all mined pairs.
      threshold: what to choose it by.
      known: the rows of the known pairs, as ``known_rows`` returns them.

    Raises:
      ValueError: no threshold reaches the precision, or there are too few pairs to estimate one.
    """
    if isinstance(threshold, KnownPairs):
        return _by_known(pairs, threshold, known)
    if threshold is not None and threshold != "estimate":
        return float(threshold), ""
    try:
        estimate = estimate_threshold(pairs.score)
    except ValueError:
        if threshold == "estimate":
            raise
        return 0.0, ""
    text = (
        f"estimated threshold {estimate.value:.4g}, which {int((pairs.score >= estimate.value).sum()):,} of "
        f"{len(pairs.score):,} pairs reach: if the scores are two groups, right and wrong, precision "
        f"{estimate.precision:.0f}% and recall {estimate.recall:.0f}%; this is not measured\n"
        f"{histogram(pairs.score, estimate.value)}"
    )
    return estimate.value if threshold == "estimate" else 0.0, text


def _by_known(pairs: Pairs, threshold: KnownPairs, known: set[tuple[int, int]]) -> tuple[float, str]:
    rows = list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))
    right = np.array([pair in known for pair in rows], bool)
    if not right.any():
        raise ValueError(
            f"none of the {len(known):,} known pairs in the inputs was mined; give pairs that are translations"
        )
    chosen = best_threshold(pairs.score.astype(np.float64), right, len(known), precision=threshold.precision)
    sources, targets = ({pair[side] for pair in known} for side in (0, 1))
    written = [pair for pair, score in zip(rows, pairs.score, strict=True) if score >= chosen.value]
    unknown = sum(source not in sources and target not in targets for source, target in written)
    text = (
        f"threshold {chosen.value:.4g}: precision {chosen.precision:.1f}%, recall {chosen.recall:.1f}% on "
        f"{len(known):,} known pairs in the inputs, of {len(threshold.pairs):,}; of the {len(written):,} pairs above "
        f"it, {unknown:,} have no sentence of a known pair and count as wrong; the threshold was chosen on these pairs"
    )
    return chosen.value, text


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
