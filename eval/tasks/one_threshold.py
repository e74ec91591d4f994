"""One threshold for all pairs of languages: which translations it finds, and which wrong ones it accepts.

    python -m eval threshold
    python -m eval threshold --text xquad-r
    python -m eval threshold --text tatoeba
    python -m eval threshold --text mylines/

In each pair of languages, every query searches the candidates of the other language, with its right candidate among
them and without it. The threshold is split-conformal (``lsar_jax.retrieval.calibration``): over all pairs, ``--error``
percent of the queries without a right candidate are accepted. *found* is the share of the other queries whose right
candidate is first and accepted, a mean over the pairs; *worst pairs* are the twentieth of the pairs where it is lowest.
*false accepts, worst pairs* is the share of accepted queries without a right candidate where it is highest. Thresholds
of *each pair* make it ``--error`` everywhere. *held out* is the mean over 100 halves of the lines, which choose a
threshold for the other half each, with the middle 95 of these as its interval.
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
from lsar_jax.measures.query_scores import strata_of
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
        pairs = [pair for pool in pools for pair in _matches(x, pool, method)]
        for metric, values in _measures([of for of, _ in pairs], [lines for _, lines in pairs], error / 100):
            if isinstance(values, QueryScores):
                yield Score.of(metric, codes, values)
            else:
                low, high = np.quantile(values, (0.025, 0.975))
                yield Score(metric, float(np.mean(values)), codes, len(values), low=float(low), high=float(high))

    return Task(
        name="threshold", title=f"One threshold, {text}", languages=codes, parts=[texts], scores=scores, searches=True,
        own_text={"udhr": HALF} if text == "udhr" else {}, options={"error": error}, least=2,
    )  # fmt: skip


def _matches(x: Embedded, pool: MultilingualPool, method: Method) -> Iterator[tuple[Matches, np.ndarray]]:
    """Yields the matches of each pair of languages of a pool, and the numbers of their lines."""
    starts = np.cumsum([0, *(len(x[key]) for key in pool.searched)])
    ends = np.cumsum([0, *(len(x[key]) for key in pool.asked)])
    for a, b in permutations(range(len(pool.codes)), 2):
        rows = np.arange(ends[a], ends[a + 1])
        known = pool.relevant[rows, b] >= 0
        right = pool.relevant[rows[known], b] - starts[b]
        found = find_matches(x[pool.asked[a]][known], x[pool.searched[b]], right=right, bank=method.bank)
        yield found, pool.question[rows[known]]


def _measures(
    found: Sequence[Matches], lines: Sequence[np.ndarray], error: float
) -> Iterator[tuple[Metric, QueryScores | list[float]]]:
    """Yields the metrics with the scores of queries, a stratum a pair, or the values of the halves."""
    everywhere = conformal_threshold(np.concatenate([of.absent for of in found]), error)
    alone = [conformal_threshold(of.absent, error) for of in found]
    for limit, name in (([everywhere] * len(found), ""), (alone, ", each pair")):
        right = [of.right & (of.score >= at) for of, at in zip(found, limit, strict=True)]
        wrong = [of.absent >= at for of, at in zip(found, limit, strict=True)]
        for metric, values, lowest in ((f"found{name}", right, True), (f"false accepts{name}", wrong, False)):
            parts = [QueryScores(100.0 * of, clusters=line) for of, line in zip(values, lines, strict=True)]
            worst = sorted(parts, key=lambda of: of.mean, reverse=not lowest)[: -(-len(parts) // _WORST)]
            if lowest:
                yield Metric(metric, kind="" if name else "across languages", shown=not name), strata_of(parts)
            direction: Direction = "higher" if lowest else "lower"
            yield Metric(f"{metric}, worst pairs", direction, shown=not name), strata_of(worst)
    yield Metric("false accepts, held out", "lower", shown=True), _held_out(found, lines, error)


def _held_out(found: Sequence[Matches], lines: Sequence[np.ndarray], error: float) -> list[float]:
    """The false accepts, in percent, of one half of the lines at the threshold of the other half."""
    rng = np.random.default_rng(0)
    line, absent = np.concatenate(lines), np.concatenate([of.absent for of in found])
    values, count = [], int(line.max()) + 1
    for _ in range(_HALVES):
        chosen: Float[np.ndarray, " line"] = rng.permutation(count)[line] < count / 2
        values.append(100 * float((absent[~chosen] >= conformal_threshold(absent[chosen], error)).mean()))
    return values


COMMAND = command(one_threshold)
