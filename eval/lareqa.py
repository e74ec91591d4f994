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

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from eval.figures import heat_maps
from eval.fitted import FittedTask
from eval.methods import Method
from eval.metrics import one_target_precision, precision_of_ranks
from eval.named import Data
from eval.resampling import Queries
from eval.results import Result
from eval.xquad import Questions, read_xquad
from lsar_jax import EncoderSpec
from lsar_jax.preference import language_preference, top_k_share
from lsar_jax.ranks import candidate_ranks
from lsar_jax.retrieval import Metric, nearest

__all__ = ["Lareqa", "answer_table"]

# Of a metric's names, and how many first results are looked at.
_SUFFIX: dict[Metric, str] = {"cosine": "", "dot": ", dot"}
_FIRST = 10


@dataclass(frozen=True)
class Lareqa(FittedTask):
    """Answer retrieval from a multilingual pool: mean average precision, and one target at a time.

    Attributes:
      data: the folder of {language}.json files, or tfds:NAME, what lsar_jax.builders.prepare made of it.
      languages: codes; by default all that the folder has.
      metrics: cosine, and dot without normalising, as in the papers; names of the latter end in dot.
    """

    name = "lareqa"

    out: Path = Path("results/lareqa")
    data: Data = Path("data/xquad-r")
    languages: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ("cosine", "dot")

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints a table, writes ``results.jsonl`` and the heat maps."""
        data = read_xquad(self.data, self.languages)
        if not self.metrics or len(set(self.metrics)) != len(self.metrics):
            raise ValueError(f"--metrics {' '.join(self.metrics)}: cosine, dot or both, each once")
        if len(data) < 2:
            raise ValueError(f"{', '.join(data)}: a pool of many languages needs at least two")
        texts = {("fit", code): text for code, text in self.fit_texts(list(data)).items()}
        for code, one in data.items():
            texts |= {("q", code): list(one.questions), ("c", code): list(one.candidates)}
        encoder = self.prepare(len(data))
        x = self.encode(encoder, texts)
        table = answer_table(data)
        # Translations of a question belong together.
        _, names = np.unique([name for one in data.values() for name in one.ids], return_inverse=True)
        results: list[Result] = []
        panels: dict[str, Float[np.ndarray, "language language"]] = {}
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            for method in self.fitted(x, index, spec):
                moved = {key: method(value[index], key[1]) for key, value in x.items() if key[0] != "fit"}
                for metric in self.metrics:
                    fresh, grid = self._score(moved, list(data), table, names, metric, method, spec)
                    results += fresh
                    panels[f"layer {layer}, {method.label}{_SUFFIX[metric]}"] = grid
        title = f"Answers with one target left: mAP, % ({self.encoder})"
        heat_maps(panels, list(data), "question", "answer", title, self.out / "one_target.png")
        # More columns do not fit a terminal; the rest is in the results.
        own = ("other languages", "preference")
        shown = [
            *(f"mAP{_SUFFIX[metric]}" for metric in self.metrics),
            *(f"{x}{_SUFFIX[self.metrics[0]]}" for x in own),
        ]
        self.report(results, f"Answers in a pool of {len(data)} languages", shown, shown[0])
        return results

    def _score(
        self,
        x: Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]],
        codes: list[str],
        table: Int[np.ndarray, "query language"],
        names: Int[np.ndarray, " query"],
        metric: Metric,
        method: Method,
        spec: EncoderSpec,
    ) -> tuple[list[Result], Float[np.ndarray, "language language"]]:
        """Returns mAP of all questions and of each language, and the heat map of one target at a time."""
        started = time.perf_counter()
        questions, candidates = (np.concatenate([x[group, code] for code in codes]) for group in "qc")
        ranks = candidate_ranks(questions, candidates, table, metric=metric)
        first = nearest(questions, candidates, min(_FIRST, len(candidates)), metric=metric)[1]
        seconds = time.perf_counter() - started
        precision = 100 * precision_of_ranks(ranks)
        single = 100 * one_target_precision(ranks)
        asked = np.repeat(np.arange(len(codes)), [len(x["q", code]) for code in codes])
        # Not every question is in every language of MLQA-R.
        grid = np.stack([_means(single[asked == row]) for row in range(len(codes))])
        same = np.eye(len(codes), dtype=bool)
        seen = np.stack([np.isfinite(single[asked == row]).sum(axis=0) for row in range(len(codes))])

        def entry(languages: list[str], name: str, value: float, n: int) -> Result:
            return self.result(spec, method, languages, f"{name}{_SUFFIX[metric]}", value, n, seconds)

        whole = entry(codes, "mAP", float(precision.mean()), len(precision))
        results = [whole.resampled(Queries(precision, clusters=names))]
        for row, code in enumerate(codes):
            scored = Queries(precision[asked == row])
            made = entry([code], f"mAP of {code}", scored.mean, len(scored.values))
            results.append(made.resampled(scored))
        found = language_preference(ranks, asked, len(candidates))
        of_candidate = np.repeat(np.arange(len(codes)), [len(x["c", code]) for code in codes])
        top = top_k_share(np.asarray(first), of_candidate, asked)
        per_query = {"preference": found.preferred, "spread": found.spreads, f"top {_FIRST}": top.shares}
        results.append(entry(codes, "own in pool", 100 * top.pool_share, len(precision)))
        for name, values in per_query.items():
            queries = Queries(100.0 * values, clusters=names)
            results.append(entry(codes, name, queries.mean, int(np.isfinite(values).sum())).resampled(queries))
        for name, cells in (("same language", same), ("other languages", ~same)):
            results.append(entry(codes, name, float(np.nanmean(grid[cells])), len(precision)))
        for row, column in np.argwhere(seen):
            pair, value = [codes[row], codes[column]], float(grid[row, column])
            results.append(entry(pair, f"one target {pair[0]}-{pair[1]}", value, int(seen[row, column])))
        return results, grid


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
