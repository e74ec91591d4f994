"""BUCC: find the pairs of translations hidden in two monolingual collections.

    python -m eval make-bucc --data data/bitext --to data/bucc-made
    python -m eval bucc --data data/bucc-made

Zweigenbaum, Sharoff and Rapp, "Overview of the third BUCC shared task", 2018, with the protocol of XTREME (Hu et al.,
ICML 2020) and Hämmerl et al. 2023: duplicate sentences are encoded once and excluded from scoring; pairs are mined with
the ratio margin over four neighbours in each direction; the best threshold on the sample split is applied to the
training split, and the pairs above it are scored by precision, recall and F1.

``eval.data.bucc`` documents the files and where to get them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int

from eval.data.bucc import NOT_ON_HUB, MiningSplit, read_split
from eval.fitted_task import FittedTask
from eval.methods import Method
from eval.resampling import Queries, strata_of
from eval.results import Result
from eval.score import Score
from eval.task import Embedded, Texts
from lsar_jax import EncoderSpec
from lsar_jax.corpora.builders.bucc import SPLITS
from lsar_jax.corpora.tables import Data, folder_of
from lsar_jax.languages import language_code
from lsar_jax.mining import best_threshold, mine
from lsar_jax.mining.pairs import Margin, Retrieval

__all__ = ["Bucc"]


class _Found(NamedTuple):
    """The pairs mined from one split, and its gold pairs.

    Attributes:
      score: score of each mined pair.
      which: index of the gold pair that each mined pair equals; -1 if it equals none.
      source: index of the source sentence of each mined pair.
      gold_source: index of the source sentence of each gold pair.
    """

    score: Float[np.ndarray, " pair"]
    which: Int[np.ndarray, " pair"]
    source: Int[np.ndarray, " pair"]
    gold_source: Int[np.ndarray, " gold"]


@dataclass(frozen=True)
class Bucc(FittedTask):
    """Bitext mining with distractors: threshold from the sample split, F1 on the training split.

    Attributes:
      data: folder of the files de-en.sample.de and so on, or tfds:NAME for a dataset that
        lsar_jax.corpora.builders.prepare built from them.
      languages: language codes; by default, those of the shared task.
      k: number of nearest neighbours that a pair's margin is computed from.
      margin: how a pair is scored: ratio, distance or absolute.
      retrieval: how pairs are selected: max, intersection, forward or backward.
    """

    name = "bucc"

    out: Path = Path("results/bucc")
    data: Data = Path("data/bucc2018")
    languages: tuple[str, ...] = ("de", "fr", "ru", "zh")
    k: int = 4
    margin: Margin = "ratio"
    retrieval: Retrieval = "max"

    @property
    def title(self) -> str:
        """The title of tables and figures."""
        return f"BUCC, {len(self._tested)} languages"

    @cached_property
    def splits(self) -> dict[tuple[str, str], MiningSplit]:
        """The collections of each language and split."""
        return {(code, split): read_split(self.data, code, split) for code in self._tested for split in SPLITS}

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return [*self._tested, "en"]

    def pinned(self) -> Self:
        """Returns the task with its Hub datasets pinned; the Hub is not asked for data that it cannot have."""
        folder_of(self.data, NOT_ON_HUB)
        return super().pinned()

    def texts(self) -> Texts:
        """Returns the texts of the first language; ``parts`` yields those of every language."""
        return next(self.parts())

    def parts(self) -> Iterator[Texts]:
        """Yields both splits of one language at a time, so that only its embeddings are in memory."""
        splits = self.splits
        for code in self._tested:
            own = {(f"{split} {code}", code): splits[code, split].other.sentences for split in SPLITS}
            yield own | {(f"{split} {code}", "en"): splits[code, split].english.sentences for split in SPLITS}

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields precision, recall and F1 of each language in this part, and the threshold."""
        for code in dict.fromkeys(code for _, code in x if code != "en"):
            sample, training = (
                self._mine(x[f"{split} {code}", code], x[f"{split} {code}", "en"], self.splits[code, split])
                for split in SPLITS
            )
            tuned = best_threshold(sample.score, sample.which >= 0, len(sample.gold_source))
            gold = len(training.gold_source)
            for metric, several in _at(training, tuned.value).items():
                # Precision counts as 0 if no pair reaches the threshold.
                value = 0.0 if several is None else several.mean
                yield Score(f"{metric} {code}", value, [code, "en"], gold, several)
            for metric, value in {"threshold": tuned.value, "F1 on the sample": tuned.f1}.items():
                yield Score(f"{metric} {code}", value, [code, "en"], gold)

    def means(self, scores: Sequence[Score]) -> Iterator[Score]:
        """Yields F1, precision and recall averaged over languages."""
        for metric in ("F1", "precision", "recall"):
            own = [score for score in scores if score.metric in [f"{metric} {code}" for code in self._tested]]
            queries = [score.queries for score in own if score.queries is not None]
            mean, n = float(np.mean([score.value for score in own])), sum(score.n for score in own)
            together = strata_of(queries) if len(queries) == len(own) else None
            yield Score(f"{metric} mean", mean, [*self._tested, "en"], n, together)

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns the means."""
        return ["F1 mean", "precision mean", "recall mean"]

    @property
    def _tested(self) -> list[str]:
        return list(dict.fromkeys(language_code(code) for code in self.languages))

    def _mine(
        self, other: Float[np.ndarray, "_ dim"], english: Float[np.ndarray, "_ dim"], split: MiningSplit
    ) -> _Found:
        pairs = mine(other, english, k=self.k, margin=self.margin, retrieval=self.retrieval)
        # Duplicate sentences have no id in the collections, but may occur in gold pairs.
        names = dict.fromkeys([*split.other.ids, *(first for first, _ in sorted(split.gold))])
        number = {name: i for i, name in enumerate(names)}
        gold = {pair: i for i, pair in enumerate(sorted(split.gold))}
        score, which, first = [], [], []
        for other_row, english_row, value in zip(*(part.tolist() for part in pairs), strict=True):
            ids = split.other.ids[other_row], split.english.ids[english_row]
            if None not in ids:
                score.append(value)
                which.append(gold.get(ids, -1))
                first.append(number[ids[0]])
        gold_first = np.array([number[name] for name, _ in gold], int)
        return _Found(np.array(score), np.array(which, int), np.array(first, int), gold_first)


def _at(found: _Found, threshold: float) -> dict[str, Queries | None]:
    """Returns F1, precision and recall of the pairs that score at least ``threshold``.

    F1 = 2 TP / (mined + gold) is computed as a mean over the mined pairs (right or wrong) and the gold pairs (found or
    not), so that it can be resampled; pairs with the same source sentence form a cluster.
    """
    kept = found.score >= threshold
    right, hit = found.which[kept] >= 0, np.zeros(len(found.gold_source))
    hit[found.which[kept][right]] = 1
    both, sources = np.concatenate([right, hit]), np.concatenate([found.source[kept], found.gold_source])
    return {
        "F1": Queries(100.0 * both, clusters=sources, varying=True),
        "precision": Queries(100.0 * right, clusters=found.source[kept], varying=True) if kept.any() else None,
        "recall": Queries(100.0 * hit),
    }
