"""Single queries before and after a transform: results by language, and some queries with what they find.

After is with a transform of cross-validation, which was not fitted on the part of the text that the query and the
sentences that it searches are in.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.resampling import Interval, interval, simultaneous_intervals
from lsar_jax.options.user_text import UserText
from lsar_jax.report.held_out import Folds
from lsar_jax.report.measured import Measured

__all__ = [
    "HITS", "BeforeAfter", "ExampleQuery", "FoundSentence", "HeldOutSearch", "draw_examples", "first_results",
    "own_by_language", "search_by_language", "search_held_out",
]  # fmt: skip

# The nearest sentences that an example shows.
HITS = 3
# Examples on the page, and how many of them got worse if there are so many.
_EXAMPLES, _WORSE = 5, 2


class BeforeAfter(NamedTuple):
    """A score before and after, and its gain, with 95% intervals over resampled queries.

    The intervals of the gains of several languages hold for all of them at once.
    """

    before: Interval
    after: Interval
    gain: Interval


class FoundSentence(NamedTuple):
    """A sentence that was found; ``right`` if it is a translation of the query."""

    text: str
    language: str
    right: bool


class ExampleQuery(NamedTuple):
    """A query with its nearest sentences.

    Attributes:
      outcome: ``more`` or ``fewer`` of these are translations after than before; without translations, they ``differ``
        or are the ``same``.
    """

    text: str
    language: str
    outcome: str
    before: list[FoundSentence]
    after: list[FoundSentence]


class HeldOutSearch(NamedTuple):
    """The nearest sentences of every held-out sentence in its fold; sentences are numbered language by language.

    Attributes:
      asked: the sentences.
      own: share of the nearest neighbours in the sentence's own language before and after, in percent.
      hits: the nearest sentences before and after.
    """

    asked: Int[np.ndarray, " query"]
    own: Float[np.ndarray, "2 query"]
    hits: Int[np.ndarray, "2 query hit"]


def search_held_out(folds: Folds, before: Measured, after: Measured) -> HeldOutSearch:
    """Returns the held-out sentences of all folds, with the nearest sentences that were found in each."""
    ids = [fold.ids for fold in folds]
    own = [100.0 * np.concatenate([part.own for part in of.parts]) for of in (before, after)]
    hits = [
        np.concatenate([rows[part.rows[:, :HITS]] for rows, part in zip(ids, of.parts, strict=True)])
        for of in (before, after)
    ]
    return HeldOutSearch(np.concatenate(ids), np.stack(own), np.stack(hits))


def own_by_language(text: UserText, found: HeldOutSearch) -> dict[str, BeforeAfter]:
    """Language -> neighbours of its sentences that are in it, in percent."""
    codes = _languages(text)[found.asked]
    return _changes({code: [QueryScores(values[codes == code]) for values in found.own] for code in text.codes})


def first_results(text: UserText, found: HeldOutSearch) -> dict[str, BeforeAfter]:
    """Sentences whose nearest one is a translation (``right``), or another one in their language (``own``), in percent.

    These are two of the four ways of ``retrieval.preference.four_way``, of the sentences that have a translation among
    those that they search; empty if there are none.
    """
    language, unit = _languages(text), np.concatenate([text.units[code] for code in text.codes])
    some = np.bincount(unit[found.asked])[unit[found.asked]] > 1
    if not text.aligned or not some.any():
        return {}
    asked, first = found.asked[some], found.hits[:, some, 0]
    right = unit[first] == unit[asked]
    scores = {"right": right, "own": ~right & (language[first] == language[asked])}
    return _changes(
        {name: [QueryScores(100.0 * of, clusters=unit[asked]) for of in two] for name, two in scores.items()}
    )


def search_by_language(
    folds: Folds, before: Measured, after: Measured, reference: Sequence[str]
) -> dict[str, BeforeAfter]:
    """Language -> the score in search of its queries, or of its pairs with English; empty without search."""
    text, first, second = folds.text, before.search, after.search
    if first is None or second is None:
        return {}
    if first.strata is not None:
        codes = np.array(list(text.pairs))[first.strata]
    elif text.aligned:
        codes = np.concatenate([np.repeat(code, rows.sum()) for fold in folds for code, rows in fold.few.items()])
    else:
        codes = np.repeat(reference, len(first.values) // len(reference))
    clusters = np.arange(len(codes)) if first.clusters is None else first.clusters
    parts = {code: codes == code for code in dict.fromkeys(codes.tolist())}
    return _changes(
        {
            code: [QueryScores(queries.values[rows], clusters=clusters[rows]) for queries in (first, second)]
            for code, rows in parts.items()
        }
    )


def draw_examples(text: UserText, found: HeldOutSearch, seed: int) -> tuple[dict[str, int], list[ExampleQuery]]:
    """Draws five queries at random from those whose hits changed, up to two of them from those that got worse.

    Returns the number of queries by outcome too.
    """
    language, unit = _languages(text), np.concatenate([text.units[code] for code in text.codes])
    sentences = [sentence for of in text.sentences.values() for sentence in of]
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

    def hits(side: int, query: int) -> list[FoundSentence]:
        rows = zip(found.hits[side, query], right[side, query], strict=True)
        return [FoundSentence(sentences[row], str(language[row]), bool(of)) for row, of in rows]

    examples = []
    for query in map(int, drawn):
        asked = found.asked[query]
        parts = str(language[asked]), str(outcome[query]), hits(0, query), hits(1, query)
        examples.append(ExampleQuery(sentences[asked], *parts))
    return {name: len(rows) for name, rows in shuffled.items()}, examples


def _languages(text: UserText) -> np.ndarray:
    """The language of each sentence, language by language."""
    return np.array([code for code, sentences in text.sentences.items() for _ in sentences])


def _changes(scores: Mapping[str, Sequence[QueryScores]]) -> dict[str, BeforeAfter]:
    """Name -> the scores of the same queries before and after."""
    gains = simultaneous_intervals([(before, after) for before, after in scores.values()])
    result = {}
    for (name, (before, after)), gain in zip(scores.items(), gains, strict=True):
        first, second = (Interval(queries.mean, *interval(queries)) for queries in (before, after))
        result[name] = BeforeAfter(first, second, Interval(after.mean - before.mean, *gain))
    return result
