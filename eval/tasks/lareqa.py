"""LAReQA: find the sentences that answer a question in a pool of many languages.

    python -m eval lareqa --data data/xquad-r --layers 12

Roy et al., "LAReQA: Language-agnostic answer retrieval from a multilingual pool", EMNLP 2020, with the protocol of
Xie et al. 2022. The pool holds every candidate sentence of every language; each question has one answer per language,
and the score is mean average precision over the whole pool. With one target left, all answers to a question in
language q are removed except the one in language a; the mean of 1 / rank for each q and a is drawn as a heat map,
whose diagonal shows how strongly each language is preferred. *Preference* is the share of questions whose best-ranked
answer is in their own language. *Top 10* is the share of the first ten results that are in the question's language, and
*own in pool* is the value of *top 10* that is expected without any preference.

Questions and candidates are encoded alike, without the candidate's paragraph; the papers' own encoders have separate
heads for the two, and also read the paragraph.

Data: the folder ``xquad-r`` of github.com/google-research-datasets/lareqa, or the folder ``mlqa-r`` of that repository
at commit 354d67d1cd066854cdfbf5ad0e6105528976141d (CC BY-SA 4.0).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from eval.data.xquad import NOT_ON_HUB, Questions, read_xquad
from eval.figures.plots import heat_maps
from eval.fitted_task import FittedTask
from eval.methods import Method
from eval.metrics import one_target_precision, precision_of_ranks
from eval.resampling import Queries
from eval.results import Result
from eval.score import Score
from eval.task import Embedded, Key, Texts
from lsar_jax import EncoderSpec
from lsar_jax.corpora.tables import Data, folder_of
from lsar_jax.retrieval import candidate_ranks, nearest
from lsar_jax.retrieval.preference import language_preference, top_k_share
from lsar_jax.retrieval.search import Metric

__all__ = ["Lareqa", "answer_table"]

# Suffix of the metric names of each similarity, and the number of top results examined.
_SUFFIX: dict[Metric, str] = {"cosine": "", "dot": ", dot"}
_FIRST = 10


@dataclass(frozen=True)
class Lareqa(FittedTask):
    """Answer retrieval from a multilingual pool: mean average precision, with all targets and with one at a time.

    Attributes:
      data: folder of {language}.json files, or tfds:NAME for a dataset that lsar_jax.corpora.builders.prepare built
        from them.
      languages: language codes; by default, all in the folder.
      metrics: similarities to rank by: cosine, or dot for the inner product without normalisation, as in the papers.
        The names of scores under dot end in dot.
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
        """The title of tables and figures."""
        return f"Answers in a pool of {len(self.questions)} languages"

    @cached_property
    def questions(self) -> dict[str, Questions]:
        """Questions and candidates of each language."""
        data = read_xquad(self.data, self.languages)
        if not self.metrics or len(set(self.metrics)) != len(self.metrics):
            raise ValueError(f"--metrics is {' '.join(self.metrics)!r}; give cosine, dot or both, each once")
        if len(data) < 2:
            raise ValueError(f"the only language is {', '.join(data)}; a multilingual pool needs at least two")
        return data

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return list(self.questions)

    def pinned(self) -> Self:
        """Returns the task with its Hub datasets pinned; the Hub is not asked for data that it cannot have."""
        folder_of(self.data, NOT_ON_HUB)
        return super().pinned()

    def texts(self) -> Texts:
        """Returns questions as group ``q`` and candidate sentences as group ``c``."""
        result: dict[Key, list[str]] = {}
        for code, one in self.questions.items():
            result |= {("q", code): list(one.questions), ("c", code): list(one.candidates)}
        return result

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields the scores under each similarity metric."""
        for metric in self.metrics:
            title = f"layer {spec.layer}, {method.label}{_SUFFIX[metric]}"
            yield from self._scores_by(metric, x, title)

    def draw(self, results: Sequence[Result]) -> None:
        """Draws a heat map of the scores with one target left, for each layer, method and metric."""
        title = f"Answers with one target left: mAP, % ({self.encoder})"
        heat_maps(self._grids, self.codes(), "question", "answer", title, self.out / "one_target.png")

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns the metrics that fit on a terminal; the others are in the results."""
        first = _SUFFIX[self.metrics[0]]
        return [*(f"mAP{_SUFFIX[metric]}" for metric in self.metrics), f"other languages{first}", f"preference{first}"]

    @cached_property
    def _answers(self) -> Int[np.ndarray, "query language"]:
        return answer_table(self.questions)

    @cached_property
    def _names(self) -> Int[np.ndarray, " query"]:
        """The cluster number of each question; translations of a question share it."""
        return np.unique([name for one in self.questions.values() for name in one.ids], return_inverse=True)[1]

    def _scores_by(self, metric: Metric, x: Embedded, title: str) -> Iterator[Score]:
        codes, names, suffix = self.codes(), self._names, _SUFFIX[metric]
        questions, candidates = (np.concatenate([x[group, code] for code in codes]) for group in "qc")
        ranks = candidate_ranks(questions, candidates, self._answers, metric=metric)
        first = nearest(questions, candidates, min(_FIRST, len(candidates)), metric=metric)[1]
        precision = 100 * precision_of_ranks(ranks)
        single = 100 * one_target_precision(ranks)
        asked = np.repeat(np.arange(len(codes)), [len(x["q", code]) for code in codes])
        # In MLQA-R, not every question exists in every language.
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
    """Returns the mean of each column, ignoring NaN; NaN if the column has no other values."""
    known = np.isfinite(x)
    return np.where(known, x, 0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)


def answer_table(data: Mapping[str, Questions]) -> Int[np.ndarray, "query language"]:
    """Returns the pool index of each question's answer in each language, -1 if it has none.

    Questions and pool are concatenated over the languages, in the same order.
    """
    starts = np.cumsum([0, *(len(one.candidates) for one in data.values())])
    places = [
        {name: int(start) + answer for name, answer in zip(one.ids, one.answers, strict=True)}
        for start, one in zip(starts, data.values(), strict=False)
    ]
    ids = [name for one in data.values() for name in one.ids]
    return np.array([[of_language.get(name, -1) for of_language in places] for name in ids])
