"""What becomes of single queries at one layer: results by language, and some queries with what they find.

Before is without a transform, after is with that of cross-validation, which was not fitted on the part of the text that
the query and the sentences that it searches are in.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eval.anisotropy import ByLanguage
from eval.bias.measures import Candidate, held_out_rows, neighbours
from lsar_jax import EncoderSpec
from lsar_jax.measures.methods import FITTED, Method, fit_methods
from lsar_jax.measures.resampling import Interval, QueryScores, interval, simultaneous_intervals
from lsar_jax.options.user_text import UserText
from lsar_jax.retrieval.search import nearest_others

__all__ = [
    "HITS",
    "Change",
    "Example",
    "Found",
    "Hit",
    "changes",
    "examples",
    "find",
    "first_results",
    "own_by_language",
    "search_by_language",
]

# The nearest sentences that an example shows.
HITS = 3
# Examples on the page, and how many of them got worse if there are so many.
_EXAMPLES, _WORSE = 5, 2


class Change(NamedTuple):
    """A score before and after, and its gain, with 95% intervals over resampled queries.

    Those of the gains of several languages hold for all of them at once.
    """

    before: Interval
    after: Interval
    gain: Interval


class Hit(NamedTuple):
    """A sentence that was found; ``right`` if it is a translation of the query."""

    text: str
    language: str
    right: bool


class Example(NamedTuple):
    """A query with its nearest sentences.

    Attributes:
      outcome: ``more`` or ``fewer`` of these are translations after than before; without translations, they ``differ``
        or are the ``same``.
    """

    text: str
    language: str
    outcome: str
    before: list[Hit]
    after: list[Hit]


class Found(NamedTuple):
    """What every held-out sentence finds among those of its fold; sentences are numbered language by language.

    Attributes:
      asked: the sentences.
      own: share of the nearest neighbours in the sentence's own language before and after, in percent.
      hits: the nearest sentences before and after.
    """

    asked: Int[np.ndarray, " query"]
    own: Float[np.ndarray, "2 query"]
    hits: Int[np.ndarray, "2 query hit"]


def find(text: UserText, x: ByLanguage, method: Method, spec: EncoderSpec, folds: int, seed: int) -> Found:
    """Searches the held-out sentences of each fold; ``x`` has the embeddings of all sentences at the layer."""
    language = np.repeat(np.arange(len(x)), [len(rows) for rows in x.values()])
    start = dict(zip(x, np.flatnonzero(np.diff(language, prepend=-1)), strict=True))
    asked, own, hits = [], [], []
    for of_fold, few in held_out_rows(text, folds, seed):
        pool = {code: rows[few[code]] for code, rows in x.items()}
        ids = np.concatenate([start[code] + np.flatnonzero(rows) for code, rows in few.items()])
        fitted = _fitted(method, {code: rows[~of_fold[code]] for code, rows in x.items()}, spec)
        moved = (np.concatenate(list(rows.values())) for rows in (pool, fitted.transform_languages(pool)))
        near = np.stack([ids[nearest_others(rows, neighbours(len(ids)))[1]] for rows in moved])
        asked.append(ids)
        own.append(100.0 * (language[near] == language[ids][:, None]).mean(axis=2))
        hits.append(near[..., :HITS])
    return Found(np.concatenate(asked), np.concatenate(own, axis=1), np.concatenate(hits, axis=1))


def own_by_language(text: UserText, found: Found) -> dict[str, Change]:
    """Language -> neighbours of its sentences that are in it, in percent."""
    codes = np.array([code for code, sentences in text.sentences.items() for _ in sentences])[found.asked]
    return changes({code: [QueryScores(values[codes == code]) for values in found.own] for code in text.codes})


def first_results(text: UserText, found: Found) -> dict[str, Change]:
    """Sentences whose nearest one is a translation (``right``), or another one in their language (``own``), in percent.

    These are two of the four ways of ``retrieval.preference.four_way``, of the sentences that have a translation among
    those that they search; empty if there are none.
    """
    language = np.repeat(np.arange(len(text.codes)), [len(text.sentences[code]) for code in text.codes])
    unit = np.concatenate([text.units[code] for code in text.codes])
    some = np.bincount(unit[found.asked])[unit[found.asked]] > 1
    if not text.aligned or not some.any():
        return {}
    asked, first = found.asked[some], found.hits[:, some, 0]
    right = unit[first] == unit[asked]
    own = ~right & (language[first] == language[asked])
    scores = {"right": right, "own": own}
    return changes(
        {name: [QueryScores(100.0 * of, clusters=unit[asked]) for of in pair] for name, pair in scores.items()}
    )


def search_by_language(
    text: UserText, before: Candidate, after: Candidate, yardstick: Sequence[str], folds: int, seed: int
) -> dict[str, Change]:
    """Language -> the score in search of its queries, or of its pairs with English; empty without search."""
    first, second = before.search, after.search
    if first is None or second is None:
        return {}
    if first.strata is not None:
        codes = np.array(list(text.pairs))[first.strata]
    elif text.aligned:
        blocks = ((code, int(rows.sum())) for _, few in held_out_rows(text, folds, seed) for code, rows in few.items())
        codes = np.concatenate([np.repeat(code, count) for code, count in blocks])
    else:
        codes = np.repeat(yardstick, len(first.values) // len(yardstick))
    clusters = np.arange(len(codes)) if first.clusters is None else first.clusters
    parts = {code: codes == code for code in dict.fromkeys(codes.tolist())}
    return changes(
        {
            code: [QueryScores(queries.values[rows], clusters=clusters[rows]) for queries in (first, second)]
            for code, rows in parts.items()
        }
    )


def examples(text: UserText, found: Found, seed: int) -> tuple[dict[str, int], list[Example]]:
    """Draws five queries at random from those whose hits changed, up to two of them from those that got worse.

    Returns the number of queries by outcome too.
    """
    language = np.array([code for code, sentences in text.sentences.items() for _ in sentences])
    sentences = [sentence for of in text.sentences.values() for sentence in of]
    unit = np.concatenate([text.units[code] for code in text.codes])
    right = unit[found.hits] == unit[found.asked][:, None]
    if text.aligned:
        before, after = right.sum(axis=2)
        outcome = np.select([after > before, after < before], ["more", "fewer"], "same")
    else:
        first, second = np.sort(found.hits, axis=2)  # in another order, they are the same sentences
        outcome = np.where((first != second).any(axis=1), "differ", "same")
    rng = np.random.default_rng(seed)
    shuffled = {name: rng.permutation(np.flatnonzero(outcome == name)) for name in ("more", "differ", "fewer", "same")}
    worse = shuffled["fewer"][:_WORSE]
    drawn = [*shuffled["more"], *shuffled["differ"]][: _EXAMPLES - len(worse)]
    drawn = [*drawn, *shuffled["fewer"][: _EXAMPLES - len(drawn)]] or list(shuffled["same"][:_EXAMPLES])
    made = []
    for query in drawn:
        lists = [
            [
                Hit(sentences[hit], str(language[hit]), bool(of))
                for hit, of in zip(hits[query], rights[query], strict=True)
            ]
            for hits, rights in zip(found.hits, right, strict=True)
        ]
        asked = found.asked[query]
        made.append(Example(sentences[asked], str(language[asked]), str(outcome[query]), *lists))
    return {name: len(rows) for name, rows in shuffled.items()}, made


def changes(scores: Mapping[str, Sequence[QueryScores]]) -> dict[str, Change]:
    """Language -> what the scores of the same queries before and after say."""
    gains = simultaneous_intervals([(before, after) for before, after in scores.values()])
    result = {}
    for (code, (before, after)), gain in zip(scores.items(), gains, strict=True):
        first, second = (Interval(queries.mean, *interval(queries)) for queries in (before, after))
        result[code] = Change(first, second, Interval(after.mean - before.mean, *gain))
    return result


def _fitted(method: Method, x: ByLanguage, spec: EncoderSpec) -> Method:
    """The same method, fitted on other embeddings."""
    if method.transform is None:
        return method
    option = FITTED[method.name].varied
    varied = {option: (method.parameters[option],)} if option in method.parameters else {}
    [again] = fit_methods(x, (method.name,), varied, source=spec)
    return again
