"""BUCC: find the translations hidden in two monolingual collections.

    python -m eval make-bucc --data data/bitext --to data/bucc-made
    python -m eval bucc --data data/bucc-made

Zweigenbaum, Sharoff and Rapp, "Overview of the third BUCC shared task", 2018, as XTREME (Hu et al., ICML 2020)
and Hämmerl et al. 2023 run it: sentences that a file holds twice are encoded once and count for
nothing; pairs are mined by the ratio margin over four neighbours in each direction; the threshold that is best on
the sample split is applied to the training split; precision, recall and F1 of the pairs above it.

``eval.data.bucc`` says what the files are and where to get them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eval.data.bucc import MiningSplit, read_split
from eval.methods import Method
from eval.resampling import Queries, strata_of
from eval.results import Result
from eval.task import Embedded, FittedTask, Score, Texts
from lsar_jax import EncoderSpec
from lsar_jax.corpora.builders.bucc import SPLITS
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code
from lsar_jax.mining import Margin, Retrieval, best_threshold, mine

__all__ = ["Bucc"]


class _Found(NamedTuple):
    """Mined pairs: score, which gold pair each is (-1 for none), and its source; and the source of each gold pair."""

    score: Float[np.ndarray, " pair"]
    which: Int[np.ndarray, " pair"]
    source: Int[np.ndarray, " pair"]
    gold_source: Int[np.ndarray, " gold"]


@dataclass(frozen=True)
class Bucc(FittedTask):
    """Bitext mining with distractors: threshold from the sample split, F1 on the training split.

    Attributes:
      data: the folder of de-en.sample.de and so on, or tfds:NAME, what lsar_jax.corpora.builders.prepare made of it.
      languages: codes; by default those of the shared task.
      k: nearest neighbours of the margin.
      margin: ratio, distance or absolute.
      retrieval: max, intersection, forward or backward.
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
        """What tables and figures are called."""
        return f"BUCC, {len(self._tested)} languages"

    @cached_property
    def splits(self) -> dict[tuple[str, str], MiningSplit]:
        """The collections of each language and split."""
        return {(code, split): read_split(self.data, code, split) for code in self._tested for split in SPLITS}

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return [*self._tested, "en"]

    def texts(self) -> Texts:
        """Returns the texts of the first language; ``parts`` has those of all."""
        return next(self.parts())

    def parts(self) -> Iterator[Texts]:
        """Yields the two splits of one language after another, so that the embeddings of one language are held."""
        splits = self.splits
        for code in self._tested:
            own = {(f"{split} {code}", code): splits[code, split].other.sentences for split in SPLITS}
            yield own | {(f"{split} {code}", "en"): splits[code, split].english.sentences for split in SPLITS}

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields precision, recall and F1 of each language at hand, and the threshold."""
        for code in dict.fromkeys(code for _, code in x if code != "en"):
            sample, training = (
                self._mine(x[f"{split} {code}", code], x[f"{split} {code}", "en"], self.splits[code, split])
                for split in SPLITS
            )
            tuned = best_threshold(sample.score, sample.which >= 0, len(sample.gold_source))
            gold = len(training.gold_source)
            for metric, several in _at(training, tuned.value).items():
                # Without a pair there is nothing to be precise about.
                value = 0.0 if several is None else several.mean
                yield Score(f"{metric} {code}", value, [code, "en"], gold, several)
            for metric, value in {"threshold": tuned.value, "F1 on the sample": tuned.f1}.items():
                yield Score(f"{metric} {code}", value, [code, "en"], gold)

    def means(self, scores: Sequence[Score]) -> Iterator[Score]:
        """Yields the means over languages of F1, precision and recall."""
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
        # What the file holds twice is not among the ids, and may be gold.
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
    """Returns how good the pairs are whose score is at least ``threshold``.

    F1 = 2 TP / (mined + gold) is the mean over the mined pairs, right or wrong, and the gold pairs, found or not;
    those of one source sentence are drawn together.
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
