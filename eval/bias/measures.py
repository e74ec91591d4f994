"""What is measured of one's own text, before and after a transform that was fitted on other sentences of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from eval.bias.own_text import OwnText
from eval.metrics import find_own
from eval.resampling import Queries
from eval.tasks.udhr import pool_precision
from lsar_jax.geometry import expected_anisotropy, isoscore
from lsar_jax.retrieval import nearest
from lsar_jax.retrieval.preference import top_k_share

__all__ = ["Neutrality", "joined", "measure_neutrality", "measure_search"]

# Neighbours of a sentence.
_FIRST = 10

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


class Neutrality(NamedTuple):
    """How much of the language is left in a pool of held-out sentences, in percent.

    Attributes:
      own: share of the ten nearest neighbours that are in the sentence's language.
      expected: share of the pool that is in the sentence's language, which is ``own`` without preference.
      identity: accuracy of a linear classifier of the language, fitted on other sentences.
      isoscore: IsoScore of the pool.
      cosine: mean cosine of two of its sentences, times 100.
    """

    own: float
    expected: float
    identity: float
    isoscore: float
    cosine: float


def measure_search(x: ByLanguage, text: OwnText, held_out: Mapping[str, Bool[np.ndarray, " _"]]) -> Queries:
    """Returns the scores of held-out sentences as queries for their translations, in percent.

    With pairs, a score says whether the nearest sentence of the other language is the translation, from and into
    English, and the languages are strata. Otherwise it is the average precision of the translations among the held-out
    sentences of all languages. Units are clusters.

    Args:
      x: language -> transformed embeddings of the held-out sentences.
      text: aligned text.
      held_out: language -> whether each of its sentences is held out.
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
        values += [100.0 * find_own(*sides), 100.0 * find_own(*sides[::-1])]
        clusters += 2 * [text.units["en"][english[inside]]]
        strata += 2 * [np.full(inside.sum(), number)]
    return Queries(np.concatenate(values), np.concatenate(strata), np.concatenate(clusters))


def joined(parts: Sequence[Queries]) -> Queries:
    """Returns the scores of all folds as one set of queries."""
    values, strata, clusters = (
        None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
        for name in ("values", "strata", "clusters")
    )
    assert values is not None, "queries have values"
    return Queries(values, strata, clusters)


def measure_neutrality(fit: ByLanguage, test: ByLanguage) -> Neutrality:
    """Measures held-out sentences.

    Args:
      fit: language -> transformed embeddings that the classifier is fitted on.
      test: language -> transformed embeddings of held-out sentences.
    """
    from sklearn.linear_model import RidgeClassifier

    pool, of_pool = _together(test)
    known, of_known = _together(fit)
    k = min(_FIRST, len(pool) - 1)
    ids = np.asarray(nearest(pool, pool, k + 1)[1])
    itself = ids == np.arange(len(pool))[:, None]
    itself[~itself.any(axis=1), -1] = True  # copies have pushed the sentence out of its own neighbours
    share = top_k_share(ids[~itself].reshape(len(pool), k), of_pool, of_pool)
    middle = known.mean(axis=0)
    scale = np.sqrt(((known - middle) ** 2).mean()) or 1.0
    probe = RidgeClassifier(alpha=1e-3 * len(known)).fit((known - middle) / scale, of_known)
    identity = (probe.predict((pool - middle) / scale) == of_pool).mean()
    cosine = expected_anisotropy(pool)
    return Neutrality(
        100 * share.share, 100 * share.pool_share, 100 * float(identity), 100 * isoscore(pool), 100 * float(cosine)
    )


def _together(x: ByLanguage) -> tuple[Float[np.ndarray, "vector dim"], Int[np.ndarray, " vector"]]:
    return np.concatenate(list(x.values())), np.repeat(np.arange(len(x)), [len(rows) for rows in x.values()])
