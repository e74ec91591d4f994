"""Thresholds of the scores of pairs: the best on pairs that are known, and from a calibration.

The scale of a margin depends on the embeddings: without their common mean, cosines are small and their ratios large. So
a threshold holds for one encoder, layer, transform and kind of text, and is to be chosen anew for others.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Array, Bool, Float

from lsar_jax.checks import as_float, finite_numbers
from lsar_jax.languages import code_or_none
from lsar_jax.retrieval.calibration import Calibration
from lsar_jax.transforms import Transform

__all__ = ["Threshold", "bank_of", "best_threshold", "check_threshold", "read_threshold", "threshold_of"]

_Number = TypeVar("_Number", bound=float | None)


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
    score, found, counts = score[order], np.cumsum(right[order]), np.arange(1, len(score) + 1)
    rates = 100 * np.array([found / counts, found / gold, 2 * found / (counts + gold)])
    # A threshold is below all of several equal scores.
    rates[:, :-1][:, score[1:] == score[:-1]] = -1
    best = int(np.argmax(rates[2]))
    if least_precision is not None:
        if not len(reached := np.flatnonzero(rates[0] >= least_precision)):
            most = int(np.argmax(rates[0]))
            raise ValueError(
                f"no threshold reaches a precision of {least_precision:g}%; the highest is {rates[0, most]:.1f}%, of "
                f"the {most + 1:,} pairs that score at least {score[most]:.4g}"
            )
        best = int(reached[-1])
    upper, lower = float(score[best]), float(score[min(best + 1, len(score) - 1)])
    # The upper score where none is between, be it in float32, in which mine scores: numpy compares a float32 array with
    # a Python number rounded to float32.
    with np.errstate(over="ignore"):
        between = lower < (middle := (upper + lower) / 2) and lower < np.float32(middle) <= upper
    return Threshold(middle if between else upper, *rates[:, best].tolist())


def check_threshold(threshold: float) -> None:
    """Raises ValueError unless the threshold is a number that fits a float."""
    if np.isnan(as_float(threshold)):
        raise ValueError(f"threshold is {threshold!r:.80}; it must be a number that fits a float")


def read_threshold(given: _Number | Path, error: float | None) -> tuple[_Number | Calibration, float]:
    """Returns the threshold, which a file has as a calibration, and the error to accept, 5% if None is given."""
    if isinstance(given, Path):
        return Calibration.load(given), 0.05 if error is None else error
    if error is not None:
        raise ValueError(f"--error {error:g} needs a calibration as --threshold, the file that lsar-jax report writes")
    if given is not None:
        check_threshold(given)
    return given, 0.05


def bank_of(calibration: Calibration, transform: Transform | None) -> Float[Array, "row dim"]:
    """Returns the bank that calibrated scores need; raises ValueError if the calibration is not of this transform."""
    if transform is None:
        raise ValueError("a calibration is of the scores of a transform; give that transform, too")
    calibration.check(transform)
    return transform.bank


def threshold_of(
    calibration: Calibration, error: float, languages: Sequence[str | None], candidates: int | None = None
) -> float:
    """Returns the threshold for a pair of languages, or for all pairs if the calibration does not have this one."""
    codes = tuple(code_or_none(code or "") for code in languages)
    pair = next((pair for pair in calibration.pairs if pair == codes), None)
    return calibration.threshold(error, pair=pair, candidates=candidates)
