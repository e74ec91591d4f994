"""One threshold for all pairs of languages of a text: the calibration of the recommended transform, beside cosines.

The scores are of fits without the lines that are scored, but the thresholds are applied with the transform of all text:
so the guarantee of a calibration holds approximately.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from lsar_jax.console.output import console
from lsar_jax.report.measured import Measured, in_threads
from lsar_jax.report.method_comparison import Comparison
from lsar_jax.report.sliders import fit_again, strength_of
from lsar_jax.retrieval.calibration import Calibration, calibrate, digests_of
from lsar_jax.transforms import Transform

__all__ = ["COLUMNS", "TITLE", "calibrations_of", "rows_of"]

# The share of false accepts.
ERROR = 0.05
TITLE = "One threshold for all pairs of languages (5% false accepts): on lines that did not choose it, in percent"
COLUMNS = ["scores", "found", "worst pairs", "false accepts, worst pairs", "which"]


def calibrations_of(found: Comparison, entry: Measured) -> dict[str, Calibration]:
    """Returns the calibrations of scores before and after a transform, by cosine and by CSLS.

    The first two folds calibrate the transform that the others fit; the calibration is then for the transform of all
    folds. A line is printed and there is none where not all lines are in all languages, or too few for the error.
    """
    text, transform, x = found.text, entry.method.transform, found.embedded.at(entry.layer)
    if transform is None:
        return {}
    held_out = [fold.held_out for fold in islice(found.folds, 2)]
    rows = {code: np.any([held[code] for held in held_out], axis=0) for code in x}
    count, needed = min(map(np.sum, rows.values())), round(2 * (1 / ERROR - 1))
    if (loose := text.pairs or not text.aligned) or count < needed:
        few = f"it has {count} held-out lines, and {ERROR:.0%} false accepts need {needed}"
        console.print(f"no calibration of the text: {'it is not aligned in all languages' if loose else few}")
        return {}
    lines = {code: of[rows[code]] for code, of in x.items()}
    again = fit_again(entry.method, {code: of[~rows[code]] for code, of in x.items()}).transform
    assert again is not None, "the method has one"
    fitted = again.at_strength(strength_of(entry))

    def made(scores: tuple[str, Transform, bool]) -> tuple[str, Calibration]:
        name, chosen, scaled = scores
        digests = digests_of(transform if chosen is fitted else chosen, scaled)
        of_fit = calibrate(lines, chosen, local_scaling=scaled)
        return f"{name}, {'CSLS' if scaled else 'cosine'}", replace(of_fit, digests=digests, source=transform.source)

    both = ("original", fitted.at_strength(0)), (entry.method.label, fitted)
    scores = [(*of, scaled) for of in both for scaled in (False, True)]
    return dict(in_threads(made, scores, "choosing thresholds"))


def rows_of(calibrations: Mapping[str, Calibration]) -> list[list[Any]]:
    """The rows of the table, in percent: means over pairs, and the twentieth of the pairs that is the worst."""
    rows = []
    for name, calibration in calibrations.items():
        of_pair = calibration.held_out(ERROR)
        worst = -(-len(of_pair) // 20)
        found = sorted(pair.found for pair in of_pair.values())
        accepted = sorted(of_pair, key=lambda pair: of_pair[pair].false_accepts, reverse=True)[:worst]
        parts = found, found[:worst], [of_pair[pair].false_accepts for pair in accepted]
        rows.append([name, *map(np.mean, parts), ", ".join(f"{a} to {b}" for a, b in accepted[:3])])
    return rows
