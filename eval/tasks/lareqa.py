"""LAReQA: find the sentences that answer a question in a pool of many languages.

    python -m eval lareqa --data data/xquad-r --layers 12

Roy et al., "LAReQA: Language-agnostic answer retrieval from a multilingual pool", EMNLP 2020, as Xie
et al. 2022 measure it: the pool is every candidate sentence of every language, a question is answered
by one sentence in each, and the score is the mean over all questions of the average precision over the
whole pool. With one target left, a question of language q sees of its answers only that in language
a; the mean of 1 / rank for each q and a is a heat map, whose diagonal says how strongly a language
is preferred. *Preference* is the share of questions whose best-ranked answer is in their own language,
*top 10* the share of the first results that are, and *own in pool* what it is without preference.

Questions and candidates are encoded alike, without the paragraph of a candidate: the papers' own encoders
have a head for each and read the paragraph too.

Data: the folder ``xquad-r`` of github.com/google-research-datasets/lareqa, or ``mlqa-r`` of its commit
354d67d1cd066854cdfbf5ad0e6105528976141d (CC BY-SA 4.0).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from eval.data.xquad import Questions, read_xquad
from eval.figures.plots import heat_maps
from eval.methods import Method
from eval.metrics import one_target_precision, precision_of_ranks
from eval.resampling import Queries
from eval.results import Result
from eval.task import Embedded, FittedTask, Key, Score, Texts
from lsar_jax import EncoderSpec
from lsar_jax.corpora.tables import Data
from lsar_jax.retrieval import candidate_ranks, nearest
from lsar_jax.retrieval.preference import language_preference, top_k_share
from lsar_jax.retrieval.search import Metric

__all__ = ["Lareqa", "answer_table"]

# Of a metric's names, and how many first results are looked at.
_SUFFIX: dict[Metric, str] = {"cosine": "", "dot": ", dot"}
_FIRST = 10


@dataclass(frozen=True)
class Lareqa(FittedTask):
    """Answer retrieval from a multilingual pool: mean average precision, and one target at a time.

    Attributes:
      data: the folder of {language}.json files, or tfds:NAME, what lsar_jax.corpora.builders.prepare made of it.
      languages: codes; by default all that the folder has.
      metrics: cosine, and dot without normalising, as in the papers; names of the latter end in dot.
    """

    name = "lareqa"

    out: Path = Path("results/lareqa")
    data: Data = Path("data/xquad-r")
    languages: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ("cosine", "dot")

    _grids: dict[str, Float[np.ndarray, "language language"]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def title(self) -> str:
        """What tables and figures are called."""
        return f"Answers in a pool of {len(self.questions)} languages"

    @cached_property
    def questions(self) -> dict[str, Questions]:
        """Questions and candidates of each language."""
        data = read_xquad(self.data, self.languages)
        if not self.metrics or len(set(self.metrics)) != len(self.metrics):
            raise ValueError(f"--metrics {' '.join(self.metrics)}: cosine, dot or both, each once")
        if len(data) < 2:
            raise ValueError(f"{', '.join(data)}: a pool of many languages needs at least two")
        return data

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return list(self.questions)

    def texts(self) -> Texts:
        """Returns questions, ``q``, and candidate sentences, ``c``."""
        result: dict[Key, list[str]] = {}
        for code, one in self.questions.items():
            result |= {("q", code): list(one.questions), ("c", code): list(one.candidates)}
        return result

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields the scores by each metric."""
        for metric in self.metrics:
            title = f"layer {spec.layer}, {method.label}{_SUFFIX[metric]}"
            yield from self._scores_by(metric, x, title)

    def draw(self, results: Sequence[Result]) -> None:
        """Draws a heat map of one target at a time for each layer, method and metric."""
        title = f"Answers with one target left: mAP, % ({self.encoder})"
        heat_maps(self._grids, self.codes(), "question", "answer", title, self.out / "one_target.png")

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns the metrics for which a terminal is wide enough; the others are in the results."""
        first = _SUFFIX[self.metrics[0]]
        return [*(f"mAP{_SUFFIX[metric]}" for metric in self.metrics), f"other languages{first}", f"preference{first}"]

    @cached_property
    def _answers(self) -> Int[np.ndarray, "query language"]:
        return answer_table(self.questions)

    @cached_property
    def _names(self) -> Int[np.ndarray, " query"]:
        """A number for each question, the same for its translations, which belong together."""
        return np.unique([name for one in self.questions.values() for name in one.ids], return_inverse=True)[1]

    def _scores_by(self, metric: Metric, x: Embedded, title: str) -> Iterator[Score]:
        codes, names, suffix = self.codes(), self._names, _SUFFIX[metric]
        questions, candidates = (np.concatenate([x[group, code] for code in codes]) for group in "qc")
        ranks = candidate_ranks(questions, candidates, self._answers, metric=metric)
        first = nearest(questions, candidates, min(_FIRST, len(candidates)), metric=metric)[1]
        precision = 100 * precision_of_ranks(ranks)
        single = 100 * one_target_precision(ranks)
        asked = np.repeat(np.arange(len(codes)), [len(x["q", code]) for code in codes])
        # Not every question is in every language of MLQA-R.
        grid = np.stack([_means(single[asked == row]) for row in range(len(codes))])
        same = np.eye(len(codes), dtype=bool)
        seen = np.stack([np.isfinite(single[asked == row]).sum(axis=0) for row in range(len(codes))])
        self._grids[title] = grid

        yield Score(f"mAP{suffix}", float(precision.mean()), codes, len(precision), Queries(precision, clusters=names))
        for row, code in enumerate(codes):
            yield Score.of(f"mAP of {code}{suffix}", [code], Queries(precision[asked == row]))
        found = language_preference(ranks, asked, len(candidates))
        of_candidate = np.repeat(np.arange(len(codes)), [len(x["c", code]) for code in codes])
        top = top_k_share(np.asarray(first), of_candidate, asked)
        yield Score(f"own in pool{suffix}", 100 * top.pool_share, codes, len(precision))
        per_query = {"preference": found.preferred, "spread": found.spreads, f"top {_FIRST}": top.shares}
        for name, values in per_query.items():
            queries = Queries(100.0 * values, clusters=names)
            yield Score.of(f"{name}{suffix}", codes, queries, int(np.isfinite(values).sum()))
        for name, cells in (("same language", same), ("other languages", ~same)):
            yield Score(f"{name}{suffix}", float(np.nanmean(grid[cells])), codes, len(precision))
        for row, column in np.argwhere(seen):
            pair, value = [codes[row], codes[column]], float(grid[row, column])
            yield Score(f"one target {pair[0]}-{pair[1]}{suffix}", value, pair, int(seen[row, column]))


def _means(x: Float[np.ndarray, "query language"]) -> Float[np.ndarray, " language"]:
    """Returns the mean of each column but its NaN; NaN where there is nothing else."""
    known = np.isfinite(x)
    return np.where(known, x, 0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)


def answer_table(data: Mapping[str, Questions]) -> Int[np.ndarray, "query language"]:
    """Returns the candidate of the pool that answers each question in each language, -1 for none.

    The questions of one language after those of another; the pool in the same order of languages.
    """
    starts = np.cumsum([0, *(len(one.candidates) for one in data.values())])
    places = [
        {name: int(start) + answer for name, answer in zip(one.ids, one.answers, strict=True)}
        for start, one in zip(starts, data.values(), strict=False)
    ]
    ids = [name for one in data.values() for name in one.ids]
    return np.array([[of_language.get(name, -1) for of_language in places] for name in ids])
