"""What is measured of one's own text, before and after a transform that was fitted on other sentences of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from eval.bias.own_text import OwnText
from eval.metrics import find_own, language_probe, own_share
from eval.resampling import Queries
from eval.tasks.udhr import pool_precision
from lsar_jax.geometry import expected_anisotropy, isoscore

__all__ = ["MEASURED", "Neutrality", "joined", "measure_neutrality", "measure_search", "neighbours"]

# Sentences of all languages that are measured together in a fold.
MEASURED = 2000
_FIRST = 10

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


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


def neighbours(sentences: int) -> int:
    """Returns how many neighbours are looked at in a pool: ten, but in a small pool at most a third of it."""
    return max(1, min(_FIRST, (sentences - 1) // 3))


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


def measure_neutrality(x: ByLanguage, units: Mapping[str, Int[np.ndarray, " _"]]) -> Neutrality:
    """Measures held-out sentences.

    Args:
      x: language -> transformed embeddings of held-out sentences.
      units: language -> unit of each of them; the classifier is not tested on a unit that it was fitted on.
    """
    pool = np.concatenate(list(x.values()))
    counts = np.array([len(rows) for rows in x.values()])
    language = np.repeat(np.arange(len(x)), counts)
    share = own_share(pool, language, neighbours(len(pool))).share
    expected = float(np.average((counts - 1) / (len(pool) - 1), weights=counts))
    codes = [code for code, rows in x.items() for _ in rows]
    identified = language_probe(pool, codes, np.concatenate(list(units.values())).tolist())
    # Zero is printed without a sign.
    cosine = 100 * float(expected_anisotropy(pool)) + 0.0
    return Neutrality(100 * share, 100 * expected, identified, 100 * isoscore(pool), cosine)
