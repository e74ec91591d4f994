"""Language preference in pools of parallel text, by the measures of several papers.

    python -m eval preference
    python -m eval preference --text xquad-r
    python -m eval preference --text mypool/ --queries myquestions/

- On ``udhr``, the half of the declaration that is not fitted on, or on a folder of aligned files, every line is a query
  for its translations among all other lines. With ``--queries``, the queries are the lines of a second folder.
- On ``xquad-r``, questions search the sentences of all languages, as in ``eval lareqa``.
- On ``tatoeba``, which has pairs with English alone, every language has a pool of its sentences and the English ones,
  in which each sentence searches its translation; scores are means over the pools.

``lsar_jax.retrieval.preference`` defines the measures and says what could not be confirmed: *preference*, as which we
also read MLAIRE's language preference rate; *Lang-nDCG*; *spread*; *top 10*, beside *pool share*, its value without
preference; MLAIRE's split by the first result, *relevant, same* to *irrelevant, other*; *MLRS*, and *Max@R* in its
normalised form. A query that is itself in the pool has no relevant candidate in its language, so that the first two and
*relevant, same* are missing. MLRS looks at the first ten candidates whose translation into every language is known: all
lines, and the sentences of XQuAD-R that are answers.

In the pools of English and one other language that the paper of Max@R has, and as means over the languages: *Max@R from
en* and *into en*, of queries in English and in the other language; *English inclination*, the first less the second for
the same question; and *English first*, the share of queries in the other language that find the English answer before
that in their own.

*Hub skewness*, *never found*, *hub mass* and *reciprocal* (``lsar_jax.geometry.hub_measures``) are of the first ten
results; ``--scores cosine csls`` shows the effect of local scaling.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from eval.command import command
from eval.data.pools.multilingual_pool import MultilingualPool, line_pool, read_answers, read_lines, read_pairs_as_pools
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task, Texts
from eval.tasks.udhr import HALF
from lsar_jax.arrays import unit_rows
from lsar_jax.corpora.tables import Data
from lsar_jax.geometry import HubMeasures, hub_measures
from lsar_jax.measures.hubs import mean_hubs
from lsar_jax.measures.metric import Direction
from lsar_jax.measures.query_scores import difference_of, strata_of
from lsar_jax.measures.ranking import Bank, precision_of_ranks
from lsar_jax.retrieval import nearest
from lsar_jax.retrieval.preference import (
    four_way,
    language_ndcg,
    language_preference,
    max_rank,
    rank_shift,
    top_k_share,
)
from lsar_jax.retrieval.search import nearest_others

__all__ = ["COMMAND", "measures", "preference", "read_pools"]

# Results that are looked at.
_FIRST = 10
# Metrics of the table, where they are defined.
_SHOWN: dict[str, Direction] = {
    "mAP": "higher", "preference": "neither", "Lang-nDCG": "higher", "irrelevant, same": "lower", "MLRS": "neither",
    "Max@R": "higher",
}  # fmt: skip


def preference(
    text: str = "udhr", data: Data | None = None, queries: Path | None = None, languages: tuple[str, ...] = ()
) -> Task:
    """Whether search prefers some languages, by the measures of several papers, in any parallel pool.

    Args:
      text: udhr, xquad-r, tatoeba, or text where line i has the same content in all languages: a folder of xx.txt
        files, or data of eval flores and ntrex, such as hub:ID.
      data: the data of xquad-r or tatoeba; by default, data/xquad-r or data/tatoeba.
      queries: folder of queries in the same languages; line i of the text answers line i of the queries.
      languages: language codes; by default, all in the text, on tatoeba the 36 of XTREME.
    """
    texts, pools = read_pools(text, data, queries, languages)
    codes = list(dict.fromkeys(code for pool in pools for code in pool.codes))

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        found, hubs = zip(*(measures(x, pool, method.bank) for pool in pools), strict=True)
        for name, queries in _over_pools(strata_of, found).items():
            yield Score.of(Metric(name, _SHOWN.get(name, "neither"), shown=name in _SHOWN), codes, queries)
        for metric, value in mean_hubs(hubs).items():
            yield Score(metric, value, codes, sum(len(pool.question) for pool in pools))

    return Task(
        name="preference", title=f"Language preference, {text}", languages=codes, parts=[texts], scores=scores,
        own_text={"udhr": HALF} if text == "udhr" else {}, searches=True, least=2,
    )  # fmt: skip


def measures(x: Embedded, pool: MultilingualPool, bank: Bank = None) -> tuple[dict[str, QueryScores], HubMeasures]:
    """Returns the scores of the queries of a pool by each measure that is defined there, in percent, and its hubs."""
    asked, candidates, ranks = pool.search(x, bank)
    language, of_candidate = (_languages(x, keys) for keys in (pool.asked, pool.searched))
    count, k = len(candidates) - pool.itself, min(_FIRST, len(candidates) - pool.itself)
    translation = pool.translations(len(candidates))
    known = np.flatnonzero((translation >= 0).all(axis=1))
    if pool.itself:
        near = top = np.asarray(nearest_others(candidates, k, bank)[1])
        back = None
    else:
        top = np.asarray(nearest(asked, candidates, k, bank=bank)[1])
        near = known[np.asarray(nearest(asked, candidates[known], min(k, len(known)), bank=bank)[1])]
        back = nearest(candidates, asked, min(k, len(asked)), bank=bank)[1]
    split = four_way(top[:, 0], pool.relevant, of_candidate, language)._asdict()
    values: dict[str, Any] = {"mAP": precision_of_ranks(ranks)}
    if ((ranks >= 0).sum(axis=1) > 1).any():
        found = language_preference(ranks, language, count)
        values |= {"preference": found.preferred, "spread": found.spreads}
    values["Lang-nDCG"] = language_ndcg(ranks, language, first=_FIRST)
    values |= {name.replace("_", ", "): of for name, of in split.items() if name != "relevant_same" or not pool.itself}
    values[f"top {k}"] = top_k_share(top, of_candidate, language).shares
    values["pool share"] = (np.bincount(of_candidate)[language] - pool.itself) / count
    if near.shape[1] > 1:
        values["MLRS"] = rank_shift(_cosines(asked, candidates, translation[near, language[:, None]]))
    values["Max@R"] = max_rank(ranks, count).scores
    scores = _queries(values, pool.question) | _with_english(x, pool, bank)
    return scores, hub_measures(top, len(candidates), back)


def _with_english(x: Embedded, pool: MultilingualPool, bank: Bank) -> dict[str, QueryScores]:
    """Scores in the pools of English and one other language, as means over the others."""
    parts = []
    for code in pool.codes if "en" in pool.codes else ():
        if code == "en":
            continue
        pair = pool.narrowed(x, ("en", code))
        _, candidates, ranks = pair.search(x, bank)
        reach = max_rank(ranks, len(candidates) - pair.itself).scores
        english = _languages(x, pair.asked) == 0
        # Of a question in both languages, the query in the other has the difference.
        scores = dict(zip(pair.question[english].tolist(), reach[english].tolist(), strict=True))
        gap = np.array([scores.get(question, np.nan) for question in pair.question.tolist()]) - reach
        first = np.where((ranks >= 0).all(axis=1), ranks[:, 0] < ranks[:, 1], np.nan)
        values = {
            "Max@R from en": np.where(english, reach, np.nan),
            "Max@R into en": np.where(english, np.nan, reach),
            "English inclination": np.where(english, np.nan, gap),
            "English first": np.where(english, np.nan, first),
        }
        parts.append(_queries(values, pair.question))
    return _over_pools(difference_of, parts)  # the languages have the same questions


def _languages(x: Embedded, keys: Any) -> Int[np.ndarray, " row"]:
    """The number of the language of each row."""
    return np.repeat(np.arange(len(keys)), [len(x[key]) for key in keys])


def _cosines(
    asked: Float[np.ndarray, "query dim"],
    candidates: Float[np.ndarray, "candidate dim"],
    ids: Int[np.ndarray, "query k"],
) -> Float[np.ndarray, "query k"]:
    """The cosine of each query with some candidates."""
    rows, columns = (np.asarray(unit_rows(jnp.asarray(of))) for of in (asked, candidates))
    parts = (slice(start, start + 1000) for start in range(0, len(ids), 1000))
    return np.concatenate([np.einsum("qd,qkd->qk", rows[part], columns[ids[part]]) for part in parts])


def _queries(values: dict[str, np.ndarray], question: Int[np.ndarray, " query"]) -> dict[str, QueryScores]:
    """The scores of queries in percent, by measure, without those that no query has."""
    return {name: QueryScores(100.0 * of, clusters=question) for name, of in values.items() if np.isfinite(of).any()}


def _over_pools(
    join: Callable[[Sequence[QueryScores]], QueryScores], parts: Sequence[dict[str, QueryScores]]
) -> dict[str, QueryScores]:
    """Joins the scores of several pools by each measure."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: join([part[name] for part in parts if name in part]) for name in names}


def read_pools(text: str, data: Data | None, queries: Path | None, languages: tuple[str, ...]) -> tuple[Texts, Any]:
    """The texts and the pools that the options name."""
    named = text in ("xquad-r", "tatoeba")
    if unread := {"--queries": queries} if named and queries else {"--data": data} if data and not named else {}:
        [(name, value)] = unread.items()
        raise ValueError(f"{name} is {value}, but --text {text} does not read it; leave it out")
    if text == "tatoeba":
        return read_pairs_as_pools(data or Path("data/tatoeba"), languages)
    if text == "xquad-r":
        texts, pool = read_answers(data or Path("data/xquad-r"), languages)
        return texts, [pool]
    lines, asked = read_lines(text, queries, languages)
    group = "asked" if asked else "pool"
    pool = line_pool(list(lines), len(next(iter(lines.values()))), asked=group)
    return {("pool", c): of for c, of in lines.items()} | {("asked", c): of for c, of in asked.items()}, [pool]


COMMAND = command(preference)
