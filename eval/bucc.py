"""BUCC: find the translations hidden in two monolingual collections.

    python -m eval make-bucc --data data/bitext --to data/bucc-made
    python -m eval bucc --data data/bucc-made

Zweigenbaum, Sharoff and Rapp, "Overview of the third BUCC shared task", 2018, as XTREME (Hu et al., ICML 2020)
and Hämmerl et al. 2023 run it: sentences that a file holds twice are encoded once and count for
nothing; pairs are mined by the ratio margin over four neighbours in each direction; the threshold that is best on
the sample split is applied to the training split; precision, recall and F1 of the pairs above it.

Data: the shared task's files, ``de-en.sample.de``, ``.en`` and ``.gold`` and ``de-en.training.*``, in one folder
or in one a pair (``de-en/``); lines are ``id<tab>sentence`` and ``id<tab>id``. XTREME's names, ``dev`` and
``test``, are read too. Licences of the corpus forbid a copy here: comparable.limsi.fr/bucc2018 has it.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from eval.fitted import FittedTask
from eval.methods import Method
from eval.results import Result
from lsar_jax import EncoderSpec
from lsar_jax.builders import Bucc as BuccFiles
from lsar_jax.builders.bucc import SPLITS, Comparable
from lsar_jax.languages import language_code
from lsar_jax.mining import Margin, Retrieval, Threshold, best_threshold, mine

__all__ = ["Bucc", "Side", "Split", "read_split"]

_SOURCE = "get it from comparable.limsi.fr/bucc2018, or make files of its form with python -m eval make-bucc"


class Side(NamedTuple):
    """One collection: distinct sentences, and the id of each; None for what the file holds twice."""

    sentences: list[str]
    ids: list[str | None]


class Split(NamedTuple):
    """Two collections and the pairs of ids that translate each other."""

    other: Side
    english: Side
    gold: set[tuple[str, str]]


class _Found(NamedTuple):
    """Mined pairs: their scores and whether they are gold."""

    score: Float[np.ndarray, " pair"]
    right: Bool[np.ndarray, " pair"]
    gold: int


@dataclass(frozen=True)
class Bucc(FittedTask):
    """Bitext mining with distractors: threshold from the sample split, F1 on the training split.

    Attributes:
      data: the folder of de-en.sample.de and so on.
      languages: codes; by default those of the shared task.
      k: nearest neighbours of the margin.
      margin: ratio, distance or absolute.
      retrieval: max, intersection, forward or backward.
    """

    name = "bucc"

    out: Path = Path("results/bucc")
    data: Path = Path("data/bucc2018")
    languages: tuple[str, ...] = ("de", "fr", "ru", "zh")
    k: int = 4
    margin: Margin = "ratio"
    retrieval: Retrieval = "max"

    def run(self) -> list[Result]:
        """Encodes, fits, mines, scores; prints a table, writes ``results.jsonl`` and a figure."""
        codes = [language_code(code) for code in self.languages]
        splits = {(code, split): read_split(self.data, code, split) for code in codes for split in SPLITS}
        texts = {("fit", code): text for code, text in self.fit_texts([*codes, "en"]).items()}
        for (code, split), read in splits.items():
            texts[f"{code} {split}", code] = read.other.sentences
            texts[f"{code} {split}", "en"] = read.english.sentences
        encoder = self.prepare(len(codes) + 1)
        x = self.encode(encoder, texts)
        results: list[Result] = []
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            for method in self.fitted(x, index, spec):
                results += self._score({key: value[index] for key, value in x.items()}, splits, method, spec)
        metrics = ["F1 mean", "precision mean", "recall mean"]
        self.report(results, f"BUCC, {len(codes)} languages", metrics, "F1 mean")
        return results

    def _score(
        self,
        x: Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]],
        splits: Mapping[tuple[str, str], Split],
        method: Method,
        spec: EncoderSpec,
    ) -> list[Result]:
        results, scores = [], []
        started = time.perf_counter()
        codes = list(dict.fromkeys(code for code, _ in splits))
        for code in codes:
            sample, training = (
                self._mine(
                    method(x[f"{code} {split}", code], code),
                    method(x[f"{code} {split}", "en"], "en"),
                    splits[code, split],
                )
                for split in ("sample", "training")
            )
            tuned = best_threshold(*sample)
            scores.append(_at(training, tuned.value))
            values = {
                "F1": scores[-1].f1,
                "precision": scores[-1].precision,
                "recall": scores[-1].recall,
                "threshold": tuned.value,
                "F1 on the sample": tuned.f1,
            }
            seconds = time.perf_counter() - started
            for metric, value in values.items():
                results.append(
                    self.result(spec, method, [code, "en"], f"{metric} {code}", value, training.gold, seconds)
                )
        everywhere = sum(len(splits[code, "training"].gold) for code in codes)
        seconds = time.perf_counter() - started
        for metric, several in (
            ("F1", [score.f1 for score in scores]),
            ("precision", [score.precision for score in scores]),
            ("recall", [score.recall for score in scores]),
        ):
            mean = float(np.mean(several))
            results.append(self.result(spec, method, [*codes, "en"], f"{metric} mean", mean, everywhere, seconds))
        return results

    def _mine(self, other: Float[np.ndarray, "_ dim"], english: Float[np.ndarray, "_ dim"], split: Split) -> _Found:
        pairs = mine(other, english, k=self.k, margin=self.margin, retrieval=self.retrieval)
        score, right = [], []
        for source, target, value in zip(*(part.tolist() for part in pairs), strict=True):
            ids = split.other.ids[source], split.english.ids[target]
            if None not in ids:
                score.append(value)
                right.append(ids in split.gold)
        return _Found(np.array(score), np.array(right, bool), len(split.gold))


def _at(found: _Found, threshold: float) -> Threshold:
    """Returns how good the pairs are whose score is at least ``threshold``."""
    kept = found.score >= threshold
    right = int(found.right[kept].sum())
    return Threshold(
        threshold,
        100 * right / max(1, int(kept.sum())),
        100 * right / found.gold,
        200 * right / (int(kept.sum()) + found.gold),
    )


def read_split(folder: Path, code: str, split: str) -> Split:
    """Reads one split of a language and English, from BUCC's files or as prepared.

    Args:
      folder: of the files, of one folder a pair, or that ``lsar_jax.builders.prepare`` wrote.
      code: of the language.
      split: ``sample`` or ``training``.

    Raises:
      FileNotFoundError: no such folder or file.
      ValueError: a line that is not an id and a sentence, an id that comes twice, or gold of an id that is
        not there; file and line are named.
    """
    try:
        known = BuccFiles.known(folder)
        if f"{code}-en" not in known:
            raise FileNotFoundError(f"{folder} has {', '.join(known)}, but no {code}-en")
        read: Comparable = BuccFiles.load(folder, f"{code}-en", split)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {_SOURCE}") from error
    return Split(_side(read.source), _side(read.target), set(read.gold))


def _side(sentences: Mapping[str, str]) -> Side:
    """Returns the distinct sentences, and the ids of those that there are once."""
    counts = Counter(sentences.values())
    names = {text: name for name, text in sentences.items()}
    return Side(list(names), [name if counts[text] == 1 else None for text, name in names.items()])
