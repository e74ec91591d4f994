"""One threshold for all pairs of languages: which translations it finds, and which wrong ones it accepts.

    python -m eval threshold
    python -m eval threshold --text xquad-r
    python -m eval threshold --text tatoeba
    python -m eval threshold --text mylines/

In each pair of languages, every query searches the candidates of the other language, with its right candidate among
them and without it. The threshold is the lowest that at most ``--error`` percent of the queries without a right
candidate reach, over all pairs. *found* is the share of the other queries whose right candidate is first and accepted,
a mean over the pairs; *worst pairs* are the twentieth of the pairs where it is lowest. *false accepts, worst pairs* is
the share of accepted queries without a right candidate where it is highest. A threshold of *each pair* accepts at most
``--error`` percent in it. Intervals draw the lines of all pairs together. *held out* is the mean over 100 halves of the
lines, at the split-conformal threshold that the other half gives (``lsar_jax.retrieval.calibration``), with the middle
95 of these as its interval; it is left out where a half has too few lines for the promise.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
from jaxtyping import Float

from eval.command import command
from eval.data.pools.multilingual_pool import MultilingualPool
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from eval.tasks.language_preference import read_pools
from eval.tasks.udhr import HALF
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.metric import Direction
from lsar_jax.measures.query_scores import difference_of
from lsar_jax.retrieval.calibration import conformal_threshold
from lsar_jax.retrieval.matches import Matches, find_matches

__all__ = ["COMMAND", "one_threshold"]

_HALVES = 100
# One of so many pairs is among the worst.
_WORST = 20


def one_threshold(
    text: str = "udhr", data: Data | None = None, languages: tuple[str, ...] = (), error: float = 5.0
) -> Task:
    """Whether one threshold of the scores serves all pairs of languages.

    Args:
      text: udhr, xquad-r, tatoeba, or a folder of xx.txt files whose line i has the same content in all languages.
      data: the data of xquad-r or tatoeba; by default, data/xquad-r or data/tatoeba.
      languages: language codes; by default, all in the text, on tatoeba the 36 of XTREME.
      error: accepted queries without a right candidate, in percent.
    """
    texts, pools = read_pools(text, data, None, languages)
    codes = list(dict.fromkeys(code for pool in pools for code in pool.codes))

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        found, lines = zip(*(pair for pool in enumerate(pools) for pair in _matches(x, *pool, method)), strict=True)
        for metric, values in _measures(found, lines, error / 100):
            if isinstance(values, QueryScores):
                yield Score.of(metric, codes, values)
            else:
                low, high = np.quantile(values, (0.025, 0.975))
                yield Score(metric, float(np.mean(values)), codes, len(values), low=float(low), high=float(high))

    return Task(
        name="threshold", title=f"One threshold, {text}", languages=codes, parts=[texts], scores=scores, searches=True,
        own_text={"udhr": HALF} if text == "udhr" else {}, options={"error": error}, least=2,
    )  # fmt: skip


def _matches(x: Embedded, number: int, pool: MultilingualPool, method: Method) -> Iterator[tuple[Matches, np.ndarray]]:
    """Yields the matches of each pair of languages of a pool, and the numbers of their lines, others in each pool."""
    starts = np.cumsum([0, *(len(x[key]) for key in pool.searched)])
    ends = np.cumsum([0, *(len(x[key]) for key in pool.asked)])
    for a, b in permutations(range(len(pool.codes)), 2):
        rows = np.arange(ends[a], ends[a + 1])
        known = pool.relevant[rows, b] >= 0
        right = pool.relevant[rows[known], b] - starts[b]
        found = find_matches(x[pool.asked[a]][known], x[pool.searched[b]], right=right, bank=method.bank)
        yield found, number * 1_000_000_000 + pool.question[rows[known]]


def _measures(
    found: Sequence[Matches], lines: Sequence[np.ndarray], error: float
) -> Iterator[tuple[Metric, QueryScores | list[float]]]:
    """Yields the metrics with the scores of queries, whose mean is that over pairs, or the values of the halves."""
    everywhere = _threshold(np.concatenate([of.absent for of in found]), error)
    alone = [_threshold(of.absent, error) for of in found]
    for limit, name in (([everywhere] * len(found), ""), (alone, ", each pair")):
        right = [of.right & (of.score >= at) for of, at in zip(found, limit, strict=True)]
        wrong = [of.absent >= at for of, at in zip(found, limit, strict=True)]
        for metric, values, lowest in ((f"found{name}", right, True), (f"false accepts{name}", wrong, False)):
            parts = [QueryScores(100.0 * of, clusters=line) for of, line in zip(values, lines, strict=True)]
            worst = sorted(parts, key=lambda of: of.mean, reverse=not lowest)[: -(-len(parts) // _WORST)]
            if lowest:
                yield Metric(metric, kind="" if name else "across languages", shown=not name), difference_of(parts)
            direction: Direction = "higher" if lowest else "lower"
            yield Metric(f"{metric}, worst pairs", direction, shown=not name), difference_of(worst)
    if halves := _held_out(found, lines, error):
        yield Metric("false accepts, held out", "lower", shown=True), halves


def _threshold(absent: Float[np.ndarray, " query"], error: float) -> float:
    """The lowest threshold that at most the share ``error`` of these scores reach."""
    place = int(np.ceil((1 - error) * len(absent) - 1e-9)) - 1
    return float(np.nextafter(np.sort(absent)[place].astype(np.float32), np.float32(np.inf)))


def _held_out(found: Sequence[Matches], lines: Sequence[np.ndarray], error: float) -> list[float]:
    """The false accepts, in percent, of one half of the lines at the threshold of the other; none if these are few."""
    rng, absent = np.random.default_rng(0), np.concatenate([of.absent for of in found])
    names, line = np.unique(np.concatenate(lines), return_inverse=True)
    half = len(names) // 2
    values = []
    for _ in range(_HALVES if half >= 1 / error - 1 else 0):
        chosen = rng.permutation(len(names))[line] < half
        limit = conformal_threshold(absent[chosen], error, lines=half)
        values.append(100 * float((absent[~chosen] >= limit).mean()))
    return values


COMMAND = command(one_threshold)
