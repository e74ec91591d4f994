"""Languages in two scripts: which they are, what their neighbours are, and means over pairs of languages.

A language in two scripts tells language from script: its two sides mean the same in the same language. If neighbours
were chosen by language alone, half of them would be in the other script.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from eval.task import Score
from lsar_jax.languages import script_of
from lsar_jax.measures.ranking import own_share
from lsar_jax.measures.resampling import QueryScores
from lsar_jax.retrieval.search import nearest_others

__all__ = ["PairMeans", "fitted_and_all", "script_neighbours", "script_pairs"]

_FIRST = 10

Pair = tuple[str, str]


class PairMeans:
    """Means over pairs of languages of values that each line, or question, has; of all pairs and of the fitted ones."""

    def __init__(self, fitted: Collection[str]) -> None:
        self._fitted = set(fitted)
        self._sums: dict[tuple[str, bool], tuple[list[Pair], Float[np.ndarray, " line"]]] = {}

    def add(self, name: str, pair: Pair, values: Float[np.ndarray, " line"], needs: Collection[str] = ()) -> None:
        """Adds the values of a pair to the mean of a name; it is fitted if the languages that it ``needs`` are too."""
        for fitted in (True, False):
            if not fitted or {*pair, *needs} <= self._fitted:
                pairs, total = self._sums.get((name, fitted), ([], np.zeros(len(values))))
                self._sums[name, fitted] = [*pairs, pair], total + values

    def scores(self, clusters: Int[np.ndarray, " line"] | None = None) -> Iterator[Score]:
        """Yields the mean of each name, called ``NAME over N``, if all its pairs are fitted, once."""
        for (name, fitted), (pairs, total) in self._sums.items():
            if fitted or len(pairs) > len(self._sums.get((name, True), ([],))[0]):
                yield _mean(f"{name} over {len(pairs)}", pairs, total / len(pairs), clusters)

    def difference(
        self, name: str, first: str, second: str, clusters: Int[np.ndarray, " line"] | None = None
    ) -> Iterator[Score]:
        """Yields the mean of ``first`` minus that of ``second``, line by line."""
        seen = set()
        for fitted in (True, False):
            if (first, fitted) in self._sums and (second, fitted) in self._sums:
                (pairs, a), (others, b) = self._sums[first, fitted], self._sums[second, fitted]
                if (counts := (len(pairs), len(others))) not in seen:
                    seen.add(counts)
                    values = a / len(pairs) - b / len(others)
                    yield _mean(f"{name} over {len(pairs)}", [*pairs, *others], values, clusters)


def fitted_and_all(codes: Sequence[str], fitted: Collection[str]) -> list[tuple[str, ...]]:
    """Returns the fitted languages, a pool in which all methods can be compared, and all if there are others."""
    return list(dict.fromkeys((tuple(code for code in codes if code in fitted), tuple(codes))))


def script_pairs(codes: Collection[str]) -> list[Pair]:
    """Returns the languages that are there in their usual script and in another, such as ``("sr", "sr-Latn")``."""
    return [(code.partition("-")[0], code) for code in codes if "-" in code and code.partition("-")[0] in codes]


def script_neighbours(x: Mapping[str, Float[np.ndarray, "line dim"]], fitted: Collection[str]) -> Iterator[Score]:
    """Yields what the ten nearest neighbours of languages in two scripts are; line i is the same in all.

    - *own script*: the share in the line's script, in a pool of its language alone, in both scripts.
    - In the pool of N languages, all or the fitted ones, the shares in the line's script and language, in its language
      in another script, and in its script in another language; and how often the nearest of all is the same line in
      the other script.

    Each share has the one that is expected if neighbours were drawn at random (``..., at random``).
    """
    pairs = script_pairs(x)
    if not pairs:
        return
    lines = len(x[pairs[0][0]])
    k = min(_FIRST, 2 * lines - 1)
    side, line = np.repeat(np.arange(2), lines), np.tile(np.arange(lines), 2)
    own, means = f"own script among {k}", PairMeans(fitted)
    for pair in pairs:
        values = 100 * own_share(np.concatenate([x[code] for code in pair]), side, k).shares
        yield Score.of(f"{own}, {' and '.join(pair)}", pair, QueryScores(values, clusters=line))
        means.add(own, pair, values)
    yield from means.scores(line)
    yield Score(f"{own}, at random", 100 * (lines - 1) / (2 * lines - 1), _codes(pairs), len(pairs))
    for codes in fitted_and_all(list(x), fitted):
        if inside := script_pairs(codes):
            yield from _in_pool({code: x[code] for code in codes}, inside, lines)


def _in_pool(x: Mapping[str, Float[np.ndarray, "line dim"]], pairs: Sequence[Pair], lines: int) -> Iterator[Score]:
    codes, pool = list(x), np.concatenate(list(x.values()))
    where = f"in {len(codes)} languages"
    asked = np.array([codes.index(code) for pair in pairs for code in pair])
    twin = np.array([codes.index(code) for pair in pairs for code in pair[::-1]])
    rows = (asked[:, None] * lines + np.arange(lines)).ravel()
    line = np.tile(np.arange(lines), len(asked))
    k = min(_FIRST, len(pool) - 1)
    near = nearest_others(pool, k)[1][rows]
    scripts, languages = [script_of(code) for code in codes], [code.partition("-")[0] for code in codes]
    # Of each code and each asked one.
    same_script = np.array([[scripts[n] == scripts[m] for n in range(len(codes))] for m in asked])
    same_language = np.array([[languages[n] == languages[m] for n in range(len(codes))] for m in asked])
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
        yield Score.of(f"{name} among {k} {where}", _codes(pairs), QueryScores(values, clusters=line))
        yield Score(f"{name} among {k} {where}, at random", float(expected.mean()), _codes(pairs), len(pairs))
    hit = 100.0 * (near[:, 0] == np.repeat(twin, lines) * lines + line)
    yield Score.of(f"nearest is its other script {where}", _codes(pairs), QueryScores(hit, clusters=line))


def _mean(
    name: str, pairs: Sequence[Pair], values: Float[np.ndarray, " line"], clusters: Int[np.ndarray, " line"] | None
) -> Score:
    return Score.of(name, _codes(pairs), QueryScores(values, clusters=clusters))


def _codes(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(code for pair in pairs for code in pair))
