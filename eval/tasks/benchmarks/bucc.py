"""BUCC: find the pairs of translations hidden in two monolingual collections.

    python -m eval make-bucc --data data/bitext --to data/bucc-made
    python -m eval bucc --data data/bucc-made

Zweigenbaum, Sharoff and Rapp, "Overview of the third BUCC shared task", 2018, with the protocol of XTREME (Hu et al.,
ICML 2020) and Hämmerl et al. 2023: duplicate sentences are encoded once and excluded from scoring; pairs are mined with
the ratio margin over four neighbours in each direction; the best threshold on the sample split is applied to the
training split, and the pairs above it are scored. ``eval.data.bucc`` documents the files and where to get them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eval.command import command
from eval.data.bucc import NOT_ON_HUB, MiningSplit, read_split
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task, Texts
from lsar_jax.corpora.builders.bucc import SPLITS
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code
from lsar_jax.measures.query_scores import strata_of
from lsar_jax.mining import best_threshold, mine

__all__ = ["COMMAND", "bucc"]


_RATES = ("F1", "precision", "recall")


class _Mined(NamedTuple):
    """The pairs mined from one split: score, index of the gold pair or -1, and index of the source sentence."""

    score: Float[np.ndarray, " pair"]
    gold: Int[np.ndarray, " pair"]
    source: Int[np.ndarray, " pair"]
    gold_source: Int[np.ndarray, " gold"]


def bucc(data: Data = Path("data/bucc2018"), languages: tuple[str, ...] = ("de", "fr", "ru", "zh")) -> Task:
    """Bitext mining with distractors: threshold from the sample split, F1 on the training split.

    Args:
      data: folder of the files de-en.sample.de and so on, or tfds:NAME for a dataset that
        lsar_jax.corpora.builders.prepare built from them.
      languages: language codes; by default, as in the shared task.
    """
    codes = list(dict.fromkeys(map(language_code, languages)))
    splits = {(code, split): read_split(data, code, split) for code in codes for split in SPLITS}

    def texts(code: str) -> Texts:
        others = {(f"{split} {code}", code): [*splits[code, split].other] for split in SPLITS}
        return others | {(f"{split} {code}", "en"): [*splits[code, split].english] for split in SPLITS}

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        [code] = {code for _, code in x if code != "en"}
        sample, training = (
            _mine(x[f"{split} {code}", code], x[f"{split} {code}", "en"], splits[code, split]) for split in SPLITS
        )
        tuned = best_threshold(sample.score, sample.gold >= 0, len(sample.gold_source))
        gold = len(training.gold_source)
        for metric, queries in _at(training, tuned.value).items():
            # Precision counts as 0 if no pair reaches the threshold.
            rate = 0.0 if queries is None else queries.mean
            yield Score(Metric(f"{metric} {code}"), rate, [code, "en"], gold, queries)
        yield Score(Metric(f"threshold {code}", "neither", unit=""), tuned.value, [code, "en"], gold)

    return Task(
        name="bucc",
        title=f"BUCC, {len(codes)} languages",
        languages=[*codes, "en"],
        parts=[texts(code) for code in codes],
        scores=scores,
        means=partial(_means, codes),
    )


def _means(codes: Sequence[str], scores: Sequence[Score]) -> Iterator[Score]:
    """Yields the means over languages."""
    by_name = {score.metric.name: score for score in scores}
    for rate in _RATES:
        parts = [by_name[f"{rate} {code}"] for code in codes]
        queries = [score.queries for score in parts if score.queries is not None]
        mean, n = float(np.mean([score.value for score in parts])), sum(score.n for score in parts)
        together = strata_of(queries) if len(queries) == len(parts) else None
        yield Score(Metric(f"{rate} mean", shown=True), mean, [*codes, "en"], n, together)


def _mine(other: Float[np.ndarray, "_ dim"], english: Float[np.ndarray, "_ dim"], split: MiningSplit) -> _Mined:
    """Mines a split by the ratio margin over four neighbours, and marks the gold pairs."""
    pairs = mine(other, english, k=4, margin="ratio", retrieval="max")
    # Duplicate sentences have no id in the collections, but may occur in gold pairs.
    sides = list(split.other.values()), list(split.english.values())
    names = dict.fromkeys([*sides[0], *(first for first, _ in sorted(split.gold))])
    number = {name: i for i, name in enumerate(names)}
    gold = {pair: i for i, pair in enumerate(sorted(split.gold))}
    found = []
    for other_row, english_row, score in zip(*(part.tolist() for part in pairs), strict=True):
        ids = sides[0][other_row], sides[1][english_row]
        if None not in ids:
            found.append((score, gold.get(ids, -1), number[ids[0]]))
    scores, equal, source = np.array(found, np.float64).reshape(-1, 3).T
    return _Mined(scores, equal.astype(int), source.astype(int), np.array([number[name] for name, _ in gold], int))


def _at(found: _Mined, threshold: float) -> dict[str, QueryScores | None]:
    """F1, precision and recall of the pairs that score at least ``threshold``.

    F1 = 2 TP / (mined + gold) is computed as a mean over the mined pairs (right or wrong) and the gold pairs (found or
    not), so that it can be resampled; pairs with the same source sentence form a cluster.
    """
    above = found.score >= threshold
    right, hit = found.gold[above] >= 0, np.zeros(len(found.gold_source))
    hit[found.gold[above][right]] = 1
    both, sources = np.concatenate([right, hit]), np.concatenate([found.source[above], found.gold_source])
    return {
        "F1": QueryScores(100.0 * both, clusters=sources, varying=True),
        "precision": QueryScores(100.0 * right, clusters=found.source[above], varying=True) if above.any() else None,
        "recall": QueryScores(100.0 * hit),
    }


COMMAND = command(bucc, not_on_hub=NOT_ON_HUB)
