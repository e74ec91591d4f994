"""Scores of encoders over seeds: means with error bars, and tests whether two encoders differ by more than seeds do.

A cell is the mean over seeds and the sample standard deviation. As in Table 1 of Wu and Dredze (EMNLP 2020), ``+`` and
``-`` mark means that are more than one standard deviation of the first encoder above or below its mean.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import permutation_test

from lsar_jax.measures.results import Result

__all__ = [
    "AVERAGE", "MEAN", "Spread", "encoder_names", "result_key", "scores_by_test", "seed_test", "sizes",
    "training_of", "transfer_rows", "with_maps",
]  # fmt: skip

# The tests that stand for the mean of those that are not English, and for the mean of all.
MEAN = "other languages"
AVERAGE = "all languages"


class Spread(NamedTuple):
    """Scores over seeds."""

    mean: float
    std: float  # sample standard deviation, NaN for one seed; for a mean over tests, the mean of those of its tests
    of_mean: float = float("nan")  # for a mean over tests, its own standard deviation
    mark: str = ""  # + or - if the mean is beyond one standard deviation of the first encoder

    def __str__(self) -> str:
        own = "" if np.isnan(self.of_mean) else f" ({self.of_mean:.1f})"
        return f"{self.mean:.1f}{self.mark}" + ("" if np.isnan(self.std) else f" ± {self.std:.1f}{own}")


def transfer_rows(results: Sequence[Result]) -> dict[str, dict[str, Spread]]:
    """Returns encoder -> test -> scores over seeds, with marks where an encoder differs from the first."""
    english = {str(result.options["test"]) for result in results if result.languages == ("en",)}
    left_out = {MEAN: {MEAN, AVERAGE, *english}, AVERAGE: {MEAN, AVERAGE}}
    rows: dict[str, dict[str, Spread]] = {}
    for name, by_test in scores_by_test(results).items():
        stds = {test: float(np.std(of, ddof=1)) if len(of) > 1 else float("nan") for test, of in by_test.items()}
        cells = rows[name] = {}
        first = next(iter(rows.values()))
        for test, values in by_test.items():
            within = [std for other, std in stds.items() if test in left_out and other not in left_out[test]]
            cell = Spread(float(np.mean(values)), stds[test])
            if within:
                cell = Spread(cell.mean, float(np.mean(within)), cell.std)
            if test in first and abs(apart := cell.mean - first[test].mean) > first[test].std:
                cell = cell._replace(mark="+" if apart > 0 else "-")
            cells[test] = cell
    return rows


def scores_by_test(results: Sequence[Result]) -> dict[str, dict[str, list[float]]]:
    """Returns encoder -> test -> the scores of its seeds."""
    scores: dict[str, dict[str, list[float]]] = {}
    results = [result for result in results if result.seed is not None]
    for name, result in zip(encoder_names(results), results, strict=True):
        scores.setdefault(name, {}).setdefault(str(result.options["test"]), []).append(result.value)
    return scores


def sizes(results: Sequence[Result]) -> str:
    """Says how much text the encoders of a table were trained and tested on."""
    ways = dict.fromkeys(training_of(result.options) for result in results if result.seed is not None)
    tested = results[0].options["most_tested"]
    tested = "all sentences" if tested is None else f"at most {tested} sentences"
    return f"{', '.join(ways)}, tested on {tested} each"


def training_of(options: Mapping[str, Any]) -> str:
    """Says how an encoder was trained."""
    blocks, passes = options["trained_blocks"], f"{options['epochs']} pass{'' if options['epochs'] == 1 else 'es'}"
    trained = "features" if options["features"] else "all blocks" if blocks is None else f"the last {blocks} blocks"
    most = "all sentences" if options["most"] is None else f"at most {options['most']} sentences"
    return f"{trained} trained on {most} in {passes}"


def seed_test(results: Sequence[Result], first: str, second: str) -> tuple[float, float, float]:
    """Tests whether the means of two encoders over other languages differ by more than their seeds do.

    Returns the difference of their means, second minus first, the two-sided p, and the lowest p that this number of
    seeds can give: 0.1 with three seeds each, 0.008 with five.

    It counts all ways to assign the scores to the two; of more than twenty scores, 200,000 ways are drawn.
    """
    scores = scores_by_test(results)
    sides = [np.array(scores[encoder][MEAN]) for encoder in (first, second)]
    found = permutation_test(sides, lambda a, b, axis: b.mean(axis) - a.mean(axis), n_resamples=200_000, rng=0)
    ways = found.null_distribution
    p, least = float((np.abs(ways) >= abs(found.statistic) - 1e-9).mean()), 2 if len(sides[0]) == len(sides[1]) else 1
    return float(found.statistic), p, least / len(ways)


def with_maps(transform: str) -> str:
    """Returns the end of the name of an encoder with a transform."""
    return "" if transform == "original" else f" + {transform}"


def encoder_names(results: Sequence[Result]) -> list[str]:
    """Returns the name of each result's encoder, with the layer if it has several, and with the maps if any."""
    layers = Counter(encoder for encoder, _ in {(result.encoder, result.layer) for result in results})
    return [f"{r.encoder}{f', layer {r.layer}' * (layers[r.encoder] > 1)}{with_maps(r.transform)}" for r in results]


def result_key(result: Result) -> tuple[str, int, str]:
    """Returns the encoder with its maps, the seed and the test, which identify a result."""
    encoder = f"{result.encoder}, layer {result.layer}, {result.revision}, {result.transform}"
    return encoder, result.seed or 0, str(result.options["test"])
