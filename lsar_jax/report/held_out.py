"""Cross-validation of a text: what methods that were fitted on the other parts change in the part that is left out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.geometry import expected_anisotropy, isoscore
from lsar_jax.measures.methods import Method
from lsar_jax.measures.ranking import pool_precision, probe_accuracy, probe_folds, top1_hits
from lsar_jax.measures.resampling import QueryScores
from lsar_jax.moments import Moments, merge_moments
from lsar_jax.options.user_text import UserText
from lsar_jax.report.neighbours import ByLanguage, Pool
from lsar_jax.spec import EncoderSpec

__all__ = ["Folds", "Measured", "Neutrality", "measure_layer"]

# Sentences of all languages that are measured together in a fold.
_MEASURED = 2000
# Format of the files of what was measured.
_FORMAT = "lsar_jax.bias.v1"

# Language -> which of its sentences.
Rows = Mapping[str, Bool[np.ndarray, " _"]]
# Fits all methods on embeddings, whose moments are known.
Fit = Callable[[ByLanguage, Mapping[str, Moments]], list[Method]]


@dataclass(frozen=True)
class Folds:
    """The parts of a text, ``count`` of them, each of which is measured with methods that were fitted on the others."""

    text: UserText
    count: int
    seed: int

    def __iter__(self) -> Iterator[tuple[Rows, Rows]]:
        """Yields the sentences that each fold holds out, and those of them that are measured together."""
        fold_of, order = self.text.folds(self.count, self.seed), self.text.order(self.seed)
        for fold in range(self.count):
            held_out = {code: of == fold for code, of in fold_of.items()}
            yield held_out, {code: _drawn(rows, order[code], self._most) for code, rows in held_out.items()}

    @property
    def _most(self) -> int:
        """Sentences of a language that are measured together."""
        return max(_MEASURED // len(self.text.codes), 10)

    @property
    def pool(self) -> int:
        """How many held-out sentences are measured together in a fold, nearly."""
        return sum(min(len(sentences) // self.count, self._most) for sentences in self.text.sentences.values())

    @property
    def neighbours(self) -> int:
        """How many neighbours of a sentence are looked at."""
        return Pool(np.zeros(self.pool, int)).k


class Neutrality(NamedTuple):
    """How much of the language is left in a pool of held-out sentences, in percent.

    Attributes:
      own: share of the nearest neighbours that are in the sentence's language.
      expected: the same without preference: the share of the other sentences that are in its language.
      identified: sentences of which a linear classifier, fitted on others of them, identifies the language.
      isoscore: IsoScore of the pool.
      cosine: mean cosine of two of its sentences, times 100.
    """

    own: float
    expected: float
    identified: float
    isoscore: float
    cosine: float


@dataclass(frozen=True, eq=False)
class Measured:
    """A layer, a method and its rank, and what was measured of them.

    Attributes:
      method: fitted on the whole text.
      neutrality: the mean over the folds.
      search: the scores of queries, in percent; None if there is nothing aligned to search.
    """

    spec: EncoderSpec
    method: Method
    neutrality: Neutrality
    search: QueryScores | None

    @property
    def layer(self) -> int:
        """The layer."""
        return self.spec.layer

    @property
    def label(self) -> str:
        """Its name in tables; vectors, which have no pooling, have no known layer."""
        return f"layer {self.layer}, {self.method.label}" if self.spec.pooling else self.method.label

    @cached_property
    def score(self) -> float:
        """The score in search, in percent; NaN without search."""
        return float("nan") if self.search is None else self.search.mean

    @property
    def moves(self) -> bool:
        """Whether there is a transform: the original embeddings have none."""
        return self.method.transform is not None

    @property
    def needs_language(self) -> bool:
        """Whether its transform needs the language of each sentence."""
        return self.method.transform is not None and self.method.transform.languages is not None


def measure_layer(
    folds: Folds, spec: EncoderSpec, fit: Fit, x: ByLanguage, reference: ByLanguage, kept: Path | None = None
) -> list[Measured]:
    """Measures every method at a layer by cross-validation; text that is not aligned is searched in ``reference``.

    What is measured is written to the file ``kept``, or read from it if it exists.
    """
    # The moments of each fold, which are subtracted from those of the whole text: a fit reads no embeddings again.
    parts = [
        {code: Moments.from_embeddings(of[rows[code]], second_moment=True, precise=True) for code, of in x.items()}
        for rows, _ in folds
    ]
    total = merge_moments(*parts)
    methods = fit(x, total)
    if kept is not None and kept.is_file():
        return _read(kept, spec, methods)
    scored: list[list[tuple[Neutrality, QueryScores | None]]] = [[] for _ in methods]
    for rows, part in zip(folds, parts, strict=True):
        others = {code: without(moments, part[code]) for code, moments in total.items()}
        fitted = fit({code: of[~rows[0][code]] for code, of in x.items()}, others)
        for scores, found in zip(scored, _measure_fold(folds.text, x, fitted, *rows), strict=True):
            scores.append(found)
    measured = []
    for method, scores in zip(methods, scored, strict=True):
        search = pool_precision(method.transform_languages(reference)) if reference else _joined([s for _, s in scores])
        neutrality = Neutrality(*np.mean([of for of, _ in scores], axis=0).tolist())
        measured.append(Measured(spec, method, neutrality, search))
    if kept is not None:
        _write(kept, measured)
    return measured


def _measure_fold(
    text: UserText, x: ByLanguage, methods: Sequence[Method], held_out: Rows, few: Rows
) -> Iterator[tuple[Neutrality, QueryScores | None]]:
    """Yields what each method, fitted on the other folds, makes of a fold."""
    # Pairs are searched language by language, a pool of all languages is not: it is kept small.
    searched = held_out if text.pairs else few
    codes = [code for code, rows in few.items() for _ in range(rows.sum())]
    probed = probe_folds(codes, np.concatenate([text.units[code][rows] for code, rows in few.items()]).tolist())
    for method in methods:
        test = method.transform_languages({code: rows[searched[code]] for code, rows in x.items()})
        pool = {code: rows[few[code][searched[code]]] for code, rows in test.items()}
        yield measure_neutrality(pool, probed), measure_search(test, text, searched) if text.aligned else None


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


def measure_neutrality(x: ByLanguage, probed: Int[np.ndarray, " vector"]) -> Neutrality:
    """Measures transformed held-out sentences; ``probed`` is the fold of each for the classifier of languages."""
    vectors = np.concatenate(list(x.values()))
    pool = Pool(np.repeat(np.arange(len(x)), [len(rows) for rows in x.values()]))
    own = float(pool.search(vectors).own.mean())
    identified = probe_accuracy(vectors, [code for code, rows in x.items() for _ in rows], probed)
    # Zero is printed without a sign.
    cosine = 100 * float(expected_anisotropy(vectors)) + 0.0
    return Neutrality(100 * own, 100 * pool.fair, identified, 100 * isoscore(vectors), cosine)


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


def _write(path: Path, measured: Sequence[Measured]) -> None:
    """Writes what was measured of the methods of a layer; all have scores of the same queries."""
    arrays = {"neutrality": np.array([of.neutrality for of in measured])}
    if searches := [of.search for of in measured if of.search is not None]:
        queries = {"strata": searches[0].strata, "clusters": searches[0].clusters}
        arrays |= {"values": np.stack([search.values for search in searches])}
        arrays |= {name: array for name, array in queries.items() if array is not None}
    save_arrays(path, arrays, format=_FORMAT, header=[of.method.label for of in measured])


def _read(path: Path, spec: EncoderSpec, methods: Sequence[Method]) -> list[Measured]:
    with open_arrays(path, format=_FORMAT, what="measures of a layer") as file:
        if file.header != [method.label for method in methods]:
            raise ValueError(f"{path} has measures of other methods; delete the file")
        strata, clusters = (file.read(name) if name in file.names else None for name in ("strata", "clusters"))
        values = file.read("values") if "values" in file.names else [None] * len(methods)
        searches = [None if value is None else QueryScores(value, strata, clusters) for value in values]
        neutrality = [Neutrality(*row) for row in file.read("neutrality").tolist()]
    return [Measured(spec, *of) for of in zip(methods, neutrality, searches, strict=True)]


def _drawn(rows: Bool[np.ndarray, " _"], order: Int[np.ndarray, " _"], most: int) -> Bool[np.ndarray, " _"]:
    """At most so many of the chosen rows: the first in a random order."""
    chosen = np.flatnonzero(rows)
    first = np.zeros_like(rows)
    first[chosen[np.argsort(order[chosen], kind="stable")[:most]]] = True
    return first
