"""Cross-validation of a text: what methods that were fitted on the other parts change in the part that is left out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lsar_jax.geometry import HubMeasures, expected_anisotropy, hub_measures, isoscore
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.ranking import Languages, pool_precision, probe_accuracy, probe_folds, top1_hits
from lsar_jax.moments import Moments, merge_moments
from lsar_jax.options.user_text import UserText
from lsar_jax.report.measured import (
    UNMEASURED,
    ByLanguage,
    Measured,
    Neighbours,
    Pool,
    Space,
    in_threads,
    read_measured,
    write_measured,
)
from lsar_jax.retrieval.search import nearest_others
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base.sample import sample_rows

__all__ = ["Fold", "Folds", "Search", "measure_layer"]

# Sentences of all languages that are measured together in a fold.
_MEASURED = 2000

# Language -> which of its sentences.
Rows = Mapping[str, Bool[np.ndarray, " _"]]
# Fits all methods on embeddings, whose moments are known.
Fit = Callable[[ByLanguage, Mapping[str, Moments]], list[Method]]
# What was measured of a method in a fold.
_OfFold = tuple[Neighbours, Space, QueryScores | None, Sequence[HubMeasures]]
# Scores a method that was fitted on the whole text by a search in other text.
Search = Callable[[Method], tuple[QueryScores, tuple[float, ...]]]


class Fold(NamedTuple):
    """A part of a text.

    Attributes:
      held_out: its sentences.
      few: the sentences of ``held_out`` that are measured together.
      ids: the numbers of these in the text, language by language.
      pool: these, to search neighbours in.
    """

    held_out: Rows
    few: Rows
    ids: Int[np.ndarray, " sentence"]
    pool: Pool


@dataclass(frozen=True)
class Folds:
    """The parts of a text, ``count`` of them, each of which is measured with methods that were fitted on the others.

    What takes the most time, the ``space`` and the hubs, is measured in the first part, or not at all.
    """

    text: UserText
    count: int
    seed: int
    space: bool = True

    def __iter__(self) -> Iterator[Fold]:
        fold_of, order = self.text.folds(self.count, self.seed), self.text.order(self.seed)
        language = np.repeat(np.arange(len(order)), list(map(len, order.values())))
        for fold in range(self.count):
            held_out = {code: folds == fold for code, folds in fold_of.items()}
            few = {code: _drawn(rows, order[code], self._most) for code, rows in held_out.items()}
            ids = np.flatnonzero(np.concatenate(list(few.values())))
            yield Fold(held_out, few, ids, Pool(language[ids]))

    @property
    def _most(self) -> int:
        """Sentences of a language that are measured together."""
        return max(_MEASURED // len(self.text.codes), 10)

    @cached_property
    def probed(self) -> Int[np.ndarray, " sentence"]:
        """The fold of each sentence of the first pool for the classifier of languages: the same at every layer."""
        first = next(iter(self))
        units = np.concatenate([self.text.units[code][rows] for code, rows in first.few.items()])
        return probe_folds(first.pool.language, units.tolist())

    @property
    def pool(self) -> int:
        """How many held-out sentences are measured together in a fold, nearly."""
        return sum(min(len(sentences) // self.count, self._most) for sentences in self.text.sentences.values())

    @property
    def neighbours(self) -> int:
        """How many neighbours of a sentence are looked at."""
        return Pool(np.zeros(self.pool, int)).k


def measure_layer(
    folds: Folds,
    spec: EncoderSpec,
    fit: Fit,
    x: ByLanguage,
    search: Search | None,
    kept: Path | None = None,
    advance: Callable[[float], object] = lambda share: None,
) -> list[Measured]:
    """Measures every method at a layer by cross-validation; ``search`` takes the place of the text.

    What is measured is written to the file ``kept``, or read from it if it exists. ``advance`` is called with the share
    of the layer that is done.
    """
    # The moments of each fold, which are subtracted from those of the whole text: a fit reads no embeddings again.
    parts = [
        {
            code: Moments.from_embeddings(rows[fold.held_out[code]], second_moment=True, precise=True)
            for code, rows in x.items()
        }
        for fold in folds
    ]
    total = merge_moments(*parts)
    methods = fit(x, total)
    if kept is not None and kept.is_file():
        return read_measured(kept, spec, methods, [fold.pool for fold in folds])
    found: list[list[_OfFold]] = []
    for number, (fold, part) in enumerate(zip(folds, parts, strict=True)):
        others = {code: without(moments, part[code]) for code, moments in total.items()}
        rest = {code: rows[~fold.held_out[code]] for code, rows in x.items()}
        fitted, sample = fit(rest, others), sample_rows(rest)
        found.append([])
        scaled = [method.scaled(sample) for method in fitted]
        probed = folds.probed if folds.space and number == 0 else None
        for of_method in _measure_fold(folds.text, x, scaled, fold, probed):
            found[-1].append(of_method)
            advance((number + len(found[-1]) / len(fitted)) / folds.count)
    measured, elsewhere = [], [(None, ())] * len(methods) if search is None else in_threads(search, methods)
    for method, of_method, (found_by, means) in zip(methods, zip(*found, strict=True), elsewhere, strict=True):
        near, spaces, searches, hubs = zip(*of_method, strict=True)
        found_by = found_by or _joined(searches)
        measured.append(Measured(spec, method, near, spaces[0], found_by, np.asarray(hubs[0]), means))
    if kept is not None:
        write_measured(kept, measured)
    return measured


def _measure_fold(
    text: UserText, x: ByLanguage, methods: Sequence[Method], fold: Fold, probed: Int[np.ndarray, " sentence"] | None
) -> Iterator[_OfFold]:
    """Yields what each method, fitted on the other folds and with a bank of them, makes of a fold.

    The space and the hubs are measured where the folds of the classifier are known.
    """
    # Pairs are searched language by language, a pool of all languages is not: it is kept small.
    searched = fold.held_out if text.pairs else fold.few

    def measure(method: Method) -> _OfFold:
        test = method.transform_languages({code: rows[searched[code]] for code, rows in x.items()})
        pool = np.concatenate([rows[fold.few[code][searched[code]]] for code, rows in test.items()])
        search = measure_search(test, text, searched) if text.aligned else None
        near = fold.pool.search(pool)
        if probed is None:
            return near, UNMEASURED, search, 2 * [HubMeasures(*4 * [nan])]
        scaled = nearest_others(pool.astype(np.float32), fold.pool.k, method.bank)[1]
        hubs = hub_measures(near.rows, len(pool)), hub_measures(scaled, len(pool))
        return near, measure_space(pool, fold.pool.language, probed), search, hubs

    return in_threads(measure, methods)


def measure_search(x: ByLanguage, text: UserText, held_out: Rows) -> QueryScores:
    """Returns the scores of the held-out sentences of aligned text as queries for their translations, in percent.

    With pairs, a score says whether the nearest sentence of the other language is the translation, from and into
    English, and the languages are strata. Otherwise it is the average precision of the translations among the held-out
    sentences of all languages. Units are clusters. ``x`` has the transformed embeddings of these sentences.
    """
    if not text.pairs:
        found = pool_precision(x)
        assert found.clusters is not None, "lines are clusters"
        code = text.codes[0]
        return replace(found, clusters=text.units[code][held_out[code]][found.clusters])
    place = {code: np.cumsum(rows) - 1 for code, rows in held_out.items()}
    values, strata, clusters = [], [], []
    for number, (code, (english, other)) in enumerate(text.pairs.items()):
        inside = held_out[code][other]
        if not inside.any():
            continue
        sides = x["en"][place["en"][english[inside]]], x[code][place[code][other[inside]]]
        values += [100.0 * top1_hits(*sides), 100.0 * top1_hits(*sides[::-1])]
        clusters += 2 * [text.units["en"][english[inside]]]
        strata += 2 * [np.full(inside.sum(), number)]
    return QueryScores(np.concatenate(values), np.concatenate(strata), np.concatenate(clusters))


def measure_space(
    x: Float[np.ndarray, "vector dim"], languages: Languages, probed: Int[np.ndarray, " vector"]
) -> Space:
    """Measures transformed held-out sentences; ``probed`` is the fold of each for the classifier of languages."""
    # Zero is printed without a sign.
    cosine = 100 * float(expected_anisotropy(x)) + 0.0
    return Space(probe_accuracy(x, languages, probed), 100 * isoscore(x), cosine)


def without(whole: Moments, part: Moments) -> Moments:
    """Returns the moments, with scatters, of the vectors of ``whole`` but those of ``part``, which are among them."""
    count, delta = whole.count - part.count, part.mean - whole.mean
    assert whole.scatter is not None
    assert part.scatter is not None
    scatter = whole.scatter - part.scatter - np.outer(delta, delta) * (whole.count * (part.count / count))
    return Moments(count, whole.mean - delta * (part.count / count), scatter)


def _joined(folds: Sequence[QueryScores | None]) -> QueryScores | None:
    """The scores of all folds as one set of queries; None without search."""
    known = [fold for fold in folds if fold is not None]
    if not known:
        return None
    strata, clusters = (
        None if getattr(known[0], name) is None else np.concatenate([getattr(fold, name) for fold in known])
        for name in ("strata", "clusters")
    )
    return QueryScores(np.concatenate([fold.values for fold in known]), strata, clusters)


def _drawn(rows: Bool[np.ndarray, " _"], order: Int[np.ndarray, " _"], most: int) -> Bool[np.ndarray, " _"]:
    """At most so many of the chosen rows: the first in a random order."""
    chosen = np.flatnonzero(rows)
    first = np.zeros_like(rows)
    first[chosen[np.argsort(order[chosen], kind="stable")[:most]]] = True
    return first
