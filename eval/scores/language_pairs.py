"""Pairs of languages, and of scripts: means over them, and the neighbours of a language in two scripts.

A language in two scripts tells language from script: its two sides mean the same in the same language. If neighbours
were chosen by language alone, half of them would be in the other script.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from eval.task import Metric, QueryScores, Score
from lsar_jax.languages import script_of
from lsar_jax.retrieval.preference import top_k_share
from lsar_jax.retrieval.search import nearest_others

__all__ = ["PairMeans", "script_neighbours", "script_pairs"]

_FIRST = 10

Pair = tuple[str, str]


class PairMeans:
    """Means over pairs of languages, of all pairs and of the fitted ones, of values that each line has."""

    def __init__(self, fitted: Collection[str], clusters: Int[np.ndarray, " line"] | None = None) -> None:
        self._fitted, self._clusters = set(fitted), clusters
        self._sums: dict[tuple[Metric, bool], tuple[list[Pair], Float[np.ndarray, " line"]]] = {}

    def add(self, metric: Metric, pair: Pair, values: Float[np.ndarray, " line"], needs: Collection[str] = ()) -> None:
        """Adds the values of a pair to a mean; it is fitted if the languages that it ``needs`` are too."""
        for fitted in (True, False):
            if not fitted or {*pair, *needs} <= self._fitted:
                pairs, total = self._sums.get((metric, fitted), ([], np.zeros(len(values))))
                self._sums[metric, fitted] = [*pairs, pair], total + values

    def scores(self) -> Iterator[Score]:
        """Yields each mean, called ``NAME over N``; if all its pairs are fitted, once."""
        for (metric, fitted), (pairs, total) in self._sums.items():
            if fitted or len(pairs) > len(self._sums.get((metric, True), ([],))[0]):
                yield self._mean(metric.over(len(pairs)), pairs, total / len(pairs))

    def difference(self, metric: Metric, first: Metric, second: Metric) -> Iterator[Score]:
        """Yields the mean of ``first`` minus the mean of ``second``, line by line."""
        found: dict[tuple[int, int], Score] = {}
        for fitted in (True, False):
            if (first, fitted) in self._sums and (second, fitted) in self._sums:
                (pairs, a), (others, b) = self._sums[first, fitted], self._sums[second, fitted]
                values = a / len(pairs) - b / len(others)
                mean = self._mean(metric.over(len(pairs)), [*pairs, *others], values)
                found.setdefault((len(pairs), len(others)), mean)
        yield from found.values()

    def _mean(self, metric: Metric, pairs: Sequence[Pair], values: Float[np.ndarray, " line"]) -> Score:
        return Score.of(metric, _codes(pairs), QueryScores(values, clusters=self._clusters))


def script_pairs(codes: Collection[str]) -> list[Pair]:
    """Returns the languages that are there in their usual script and in another, such as ``("sr", "sr-Latn")``."""
    return [(code.partition("-")[0], code) for code in codes if "-" in code and code.partition("-")[0] in codes]


def script_neighbours(
    x: Mapping[str, Float[np.ndarray, "line dim"]], fitted: Collection[str], *, shown: bool = False
) -> Iterator[Score]:
    """Yields what the ten nearest neighbours of languages in two scripts are; line i is the same in all.

    - *own script*: the share in the line's script, in a pool of its language alone, in both scripts.
    - In the pool of N languages, all or the fitted ones, the shares in the line's script and language, in its language
      in another script, and in its script in another language; and how often the nearest of all is the same line in
      the other script.

    Each share has the one that is expected if neighbours were drawn at random (``..., at random``). With ``shown``, the
    table of the task has the first and the last of these.
    """
    pairs = script_pairs(x)
    if not pairs:
        return
    lines = len(x[pairs[0][0]])
    k = min(_FIRST, 2 * lines - 1)
    side, line = np.repeat(np.arange(2), lines), np.tile(np.arange(lines), 2)
    own, means = Metric(f"own script among {k}", "lower", shown=shown), PairMeans(fitted, line)
    for pair in pairs:
        near = nearest_others(np.concatenate([x[code] for code in pair]), k)[1]
        values = 100 * top_k_share(near, side, side).shares
        yield Score.of(Metric(f"{own.name}, {' and '.join(pair)}", "lower"), pair, QueryScores(values, clusters=line))
        means.add(own, pair, values)
    yield from means.scores()
    expected = 100 * (lines - 1) / (2 * lines - 1)
    yield Score(Metric(f"{own.name}, at random", "neither"), expected, _codes(pairs), len(pairs))
    # The fitted languages, a pool in which all methods can be compared, and all if there are others.
    for codes in dict.fromkeys((tuple(code for code in x if code in fitted), tuple(x))):
        if inside := script_pairs(codes):
            yield from _in_pool({code: x[code] for code in codes}, inside, shown)


def _in_pool(x: Mapping[str, Float[np.ndarray, "line dim"]], pairs: Sequence[Pair], shown: bool) -> Iterator[Score]:
    codes, pool, lines = list(x), np.concatenate(list(x.values())), len(x[pairs[0][0]])
    where = f"in {len(codes)} languages"
    asked, twin = (np.array([codes.index(code) for pair in pairs for code in pair[::step]]) for step in (1, -1))
    rows = (asked[:, None] * lines + np.arange(lines)).ravel()
    line = np.tile(np.arange(lines), len(asked))
    k = min(_FIRST, len(pool) - 1)
    near = nearest_others(pool, k)[1][rows]
    scripts, languages = np.array([(script_of(code), code.partition("-")[0]) for code in codes]).T
    # Whether each code has the script, and the language, of each asked one.
    same_script, same_language = (of == of[asked, None] for of in (scripts, languages))
    own = np.arange(len(codes)) == asked[:, None]
    kinds = {
        "own language and script": own,
        "own language, other script": same_language & ~own,
        "own script, other language": same_script & ~same_language,
    }
    of_row = np.repeat(np.arange(len(asked)), lines)
    for name, kind in kinds.items():
        values = 100 * kind[of_row[:, None], near // lines].mean(axis=1)
        expected = 100 * (kind.sum(axis=1) * lines - kind[np.arange(len(asked)), asked]) / (len(pool) - 1)
        metric, by_chance = (Metric(f"{name} among {k} {where}{end}", "neither") for end in ("", ", at random"))
        yield Score.of(metric, _codes(pairs), QueryScores(values, clusters=line))
        yield Score(by_chance, float(expected.mean()), _codes(pairs), len(pairs))
    hit = 100.0 * (near[:, 0] == np.repeat(twin, lines) * lines + line)
    twins = Metric(f"nearest is its other script {where}", shown=shown)
    yield Score.of(twins, _codes(pairs), QueryScores(hit, clusters=line))


def _codes(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(code for pair in pairs for code in pair))
