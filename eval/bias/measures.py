"""What is measured of a user's text, before and after transforms that were fitted on other sentences of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from eval.anisotropy import ByLanguage
from lsar_jax import EncoderSpec, Moments, merge_moments
from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.geometry import expected_anisotropy, isoscore
from lsar_jax.measures.methods import Method
from lsar_jax.measures.ranking import own_share, pool_precision, probe_accuracy, probe_folds, top1_hits
from lsar_jax.measures.resampling import QueryScores
from lsar_jax.options.user_text import UserText
from lsar_jax.retrieval.preference import fair_share

__all__ = ["Candidate", "Neutrality", "held_out_rows", "measure_layer", "measured_count", "neighbours"]

# Sentences of all languages that are measured together in a fold.
_MEASURED = 2000
# Format of the files of what was measured.
_FORMAT = "lsar_jax.bias.v1"

# Language -> which of its sentences.
Rows = Mapping[str, Bool[np.ndarray, " _"]]
# Fits all methods on embeddings, whose moments are known.
Fit = Callable[[ByLanguage, Mapping[str, Moments]], list[Method]]


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


@dataclass(frozen=True)
class Candidate:
    """A layer and a method, and what was measured of them.

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
        """Its name in tables; of vectors, which have no pooling, no layer is known."""
        if not self.spec.pooling:
            return self.method.label
        return f"layer {self.layer}, {self.method.label}"

    @cached_property
    def score(self) -> float:
        """The score in search, in percent; NaN without search."""
        return float("nan") if self.search is None else self.search.mean

    @property
    def needs_language(self) -> bool:
        """Whether its transform needs the language of each sentence."""
        transform = self.method.transform
        return transform is not None and transform.languages is not None


def measure_layer(
    text: UserText,
    x: ByLanguage,
    paragraphs: ByLanguage,
    spec: EncoderSpec,
    fit: Fit,
    folds: int,
    seed: int,
    kept: Path | None = None,
) -> list[Candidate]:
    """Measures every method at a layer by cross-validation; text that is not aligned is searched in ``paragraphs``.

    What is measured is written to the file ``kept``, or read from it if it exists.
    """
    parts = [_moments(x, of_fold) for of_fold, _ in held_out_rows(text, folds, seed)]
    total = merge_moments(*parts)
    whole = fit(x, total)
    if kept is not None and kept.is_file():
        return _read(kept, spec, whole)
    searches: list[list[QueryScores]] = [[] for _ in whole]
    neutrality: list[list[Neutrality]] = [[] for _ in whole]
    for (of_fold, few), part in zip(held_out_rows(text, folds, seed), parts, strict=True):
        # Pairs are searched language by language, a pool of all languages is not: it is kept small.
        held_out = of_fold if text.pairs else few
        codes = [code for code, rows in few.items() for _ in range(rows.sum())]
        probed = probe_folds(codes, np.concatenate([text.units[code][rows] for code, rows in few.items()]).tolist())
        others = {code: without(moments, part[code]) for code, moments in total.items()}
        for number, method in enumerate(fit({code: rows[~of_fold[code]] for code, rows in x.items()}, others)):
            test = method.transform_languages({code: rows[held_out[code]] for code, rows in x.items()})
            pool = {code: rows[few[code][held_out[code]]] for code, rows in test.items()}
            neutrality[number].append(measure_neutrality(pool, probed))
            if text.aligned:
                searches[number].append(measure_search(test, text, held_out))
    candidates = []
    for method, search, measured in zip(whole, searches, neutrality, strict=True):
        queries = joined(search) if search else None
        if paragraphs:
            queries = pool_precision(method.transform_languages(paragraphs))
        candidates.append(Candidate(spec, method, Neutrality(*np.mean(measured, axis=0).tolist()), queries))
    if kept is not None:
        _write(kept, candidates)
    return candidates


def _write(path: Path, candidates: Sequence[Candidate]) -> None:
    """Writes what was measured of the methods of a layer; all have scores of the same queries."""
    arrays = {"neutrality": np.array([candidate.neutrality for candidate in candidates])}
    if searches := [candidate.search for candidate in candidates if candidate.search is not None]:
        of_queries = {"strata": searches[0].strata, "clusters": searches[0].clusters}
        arrays |= {"values": np.stack([search.values for search in searches])}
        arrays |= {name: array for name, array in of_queries.items() if array is not None}
    save_arrays(path, arrays, format=_FORMAT, header=[candidate.method.label for candidate in candidates])


def _read(path: Path, spec: EncoderSpec, methods: Sequence[Method]) -> list[Candidate]:
    with open_arrays(path, format=_FORMAT, what="measures of a layer") as file:
        if file.header != [method.label for method in methods]:
            raise ValueError(f"{path} has measures of other methods; delete the file")
        strata, clusters = (file.read(name) if name in file.names else None for name in ("strata", "clusters"))
        values = file.read("values") if "values" in file.names else [None] * len(methods)
        searches = [None if value is None else QueryScores(value, strata, clusters) for value in values]
        neutrality = [Neutrality(*row) for row in file.read("neutrality").tolist()]
    return [Candidate(spec, *measured) for measured in zip(methods, neutrality, searches, strict=True)]


def held_out_rows(text: UserText, folds: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yields the sentences that each fold holds out, and those of them that are measured together."""
    fold_of, order = text.folds(folds, seed), text.order(seed)
    most = max(_MEASURED // len(text.codes), 10)
    for fold in range(folds):
        of_fold = {code: of == fold for code, of in fold_of.items()}
        yield of_fold, {code: _drawn(rows, order[code], most) for code, rows in of_fold.items()}


def measured_count(text: UserText, folds: int) -> int:
    """Returns how many held-out sentences are measured together in a fold, nearly."""
    most = max(_MEASURED // len(text.codes), 10)
    return sum(min(len(sentences) // folds, most) for sentences in text.sentences.values())


def neighbours(sentences: int) -> int:
    """Returns how many neighbours are looked at in a pool: ten, but in a small pool at most a third of it."""
    return max(1, min(10, (sentences - 1) // 3))


def measure_search(x: ByLanguage, text: UserText, held_out: Mapping[str, Bool[np.ndarray, " _"]]) -> QueryScores:
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


def joined(folds: Sequence[QueryScores]) -> QueryScores:
    """Returns the scores of all folds as one set of queries."""
    strata, clusters = (
        None if getattr(folds[0], name) is None else np.concatenate([getattr(fold, name) for fold in folds])
        for name in ("strata", "clusters")
    )
    return QueryScores(np.concatenate([fold.values for fold in folds]), strata, clusters)


def measure_neutrality(x: ByLanguage, probed: Int[np.ndarray, " vector"]) -> Neutrality:
    """Measures transformed held-out sentences; ``probed`` is the fold of each for the classifier of languages."""
    pool = np.concatenate(list(x.values()))
    counts = np.array([len(rows) for rows in x.values()])
    share = own_share(pool, np.repeat(np.arange(len(x)), counts), neighbours(len(pool))).share
    identified = probe_accuracy(pool, [code for code, rows in x.items() for _ in rows], probed)
    # Zero is printed without a sign.
    cosine = 100 * float(expected_anisotropy(pool)) + 0.0
    return Neutrality(100 * share, 100 * fair_share(counts), identified, 100 * isoscore(pool), cosine)


def without(whole: Moments, part: Moments) -> Moments:
    """Returns the moments, with scatters, of the vectors of ``whole`` but those of ``part``, which are among them."""
    count, delta = whole.count - part.count, part.mean - whole.mean
    assert whole.scatter is not None
    assert part.scatter is not None
    scatter = whole.scatter - part.scatter - np.outer(delta, delta) * (whole.count * (part.count / count))
    return Moments(count, whole.mean - delta * (part.count / count), scatter)


def _moments(x: ByLanguage, of_fold: Rows) -> dict[str, Moments]:
    """The moments of the sentences of a fold in float64, of which those of other folds are subtracted."""
    return {
        code: Moments.from_embeddings(rows[of_fold[code]], second_moment=True, precise=True) for code, rows in x.items()
    }


def _drawn(rows: Bool[np.ndarray, " _"], order: Int[np.ndarray, " _"], most: int) -> Bool[np.ndarray, " _"]:
    """At most so many of the chosen rows: the first in a random order."""
    chosen = np.flatnonzero(rows)
    first = np.zeros_like(rows)
    first[chosen[np.argsort(order[chosen], kind="stable")[:most]]] = True
    return first
