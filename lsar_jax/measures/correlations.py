"""Uncertainty of a correlation over pairs: its value in resamples, and what each pair contributes to it."""

import numpy as np
from jaxtyping import Float, Int, Real

__all__ = ["pseudo_values", "resampled_correlations"]


def resampled_correlations(
    first: Real[np.ndarray, " pair"],
    second: Real[np.ndarray, " pair"],
    *,
    ranked: bool,
    resamples: int = 1000,
    seed: int = 0,
) -> Float[np.ndarray, " resample"]:
    """Returns Pearson's or, if ``ranked``, Spearman's correlation in each resample of the pairs."""
    drawn = np.random.default_rng(seed).integers(len(first), size=(resamples, len(first)))
    return _correlations(first, second, drawn, ranked)


def pseudo_values(
    first: Real[np.ndarray, " pair"], second: Real[np.ndarray, " pair"], *, ranked: bool
) -> Float[np.ndarray, " pair"]:
    """Returns what each pair contributes to Pearson's or, if ``ranked``, Spearman's correlation.

    These are the pseudo-values of the jackknife (Efron and Tibshirani 1993, chapter 11), shifted so that their mean
    is the correlation. That mean and the correlation have the same error, and two methods the same covariance.
    """
    pairs = np.arange(len(first))
    others = pairs[:-1] + (pairs[:-1] >= pairs[:, None])
    without = _correlations(first, second, others, ranked)
    return _correlations(first, second, pairs[None], ranked) + (len(first) - 1) * (without.mean() - without)


def _correlations(
    first: Real[np.ndarray, " pair"],
    second: Real[np.ndarray, " pair"],
    drawn: Int[np.ndarray, "sample chosen"],
    ranked: bool,
) -> Float[np.ndarray, " sample"]:
    """The correlation in each sample of the pairs."""
    from scipy.stats import rankdata

    sides = [np.asarray(side, np.float64)[drawn] for side in (first, second)]
    if ranked:
        sides = [rankdata(side, axis=1) for side in sides]
    x, y = (side - side.mean(axis=1, keepdims=True) for side in sides)
    norms = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    # The correlation of a constant sample counts as 0.
    return np.clip((x * y).sum(axis=1) / np.where(norms > 0, norms, 1), -1, 1)
