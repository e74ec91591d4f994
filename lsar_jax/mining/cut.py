"""Where a job of mining cuts the scores: at a number, at the estimate, or by the pairs that are known."""

from typing import Literal

import numpy as np
from jaxtyping import Int

from lsar_jax.checks import as_float
from lsar_jax.mining.known_pairs import KnownPairs
from lsar_jax.mining.pairs import Pairs
from lsar_jax.mining.thresholds import best_threshold, estimate_threshold, histogram

__all__ = ["Cut", "check_cut", "choose_threshold"]

Cut = float | Literal["estimate"] | KnownPairs | None


def check_cut(threshold: Cut) -> None:
    """Raises ValueError if a threshold is not a number, ``estimate``, known pairs or None."""
    if isinstance(threshold, KnownPairs):
        least = threshold.least_precision
        if least is not None and not 0 < as_float(least) <= 100:
            raise ValueError(
                f"the precision on known pairs is {least!r:.80}; it must be above 0 and at most 100 percent"
            )
    elif threshold not in (None, "estimate") and np.isnan(as_float(threshold)):
        raise ValueError(f"threshold is {threshold!r:.80}; it must be a number that fits a float, or estimate")


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
