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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eval.encode import encode_all
from eval.fitted import FittedTask
from eval.methods import Method
from eval.named import Data, folder_of
from eval.resampling import Queries, strata_of
from eval.results import Result
from lsar_jax import EncoderSpec
from lsar_jax.builders import Bucc as BuccFiles
from lsar_jax.builders.bucc import SPLITS, Comparable
from lsar_jax.languages import language_code
from lsar_jax.mining import Margin, Retrieval, best_threshold, mine

__all__ = ["Bucc", "Side", "Split", "read_split"]

_NOT_ON_HUB = "BUCC of the Hub has no sample split to tune on; its gold pairs are a bitext: eval bitext --data"
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
    """Mined pairs: score, which gold pair each is (-1 for none), and its source; and the source of each gold pair."""

    score: Float[np.ndarray, " pair"]
    which: Int[np.ndarray, " pair"]
    source: Int[np.ndarray, " pair"]
    gold_source: Int[np.ndarray, " gold"]


@dataclass(frozen=True)
class Bucc(FittedTask):
    """Bitext mining with distractors: threshold from the sample split, F1 on the training split.

    Attributes:
      data: the folder of de-en.sample.de and so on, or tfds:NAME, what lsar_jax.builders.prepare made of it.
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

    def run(self) -> list[Result]:
        """Encodes, fits, mines, scores; prints a table, writes ``results.jsonl`` and a figure."""
        codes = list(dict.fromkeys(language_code(code) for code in self.languages))
        splits = {(code, split): read_split(self.data, code, split) for code in codes for split in SPLITS}
        fit = {("fit", code): text for code, text in self.fit_texts([*codes, "en"]).items()}
        encoder = self.prepare(len(codes) + 1)
        encoded = self.encode(encoder, fit)
        methods = [
            (index, replace(encoder.spec, layer=layer), method)
            for index, layer in enumerate(self.layers)
            for method in self.fitted(encoded, index, replace(encoder.spec, layer=layer))
        ]
        scored: list[list[Result]] = [[] for _ in methods]
        # The embeddings of one language are held at a time.
        for code in codes:
            texts = {(split, code): splits[code, split].other.sentences for split in SPLITS}
            texts |= {(split, "en"): splits[code, split].english.sentences for split in SPLITS}
            x, _ = encode_all(encoder, texts, self.layers, self.max_length, {key: key[1] for key in texts})
            for number, (index, spec, method) in enumerate(methods):
                moved = {key: method(value[index], key[1]) for key, value in x.items()}
                scored[number] += self._score(
                    moved, code, {split: splits[code, split] for split in SPLITS}, method, spec
                )
        results = [
            result
            for (_, spec, method), several in zip(methods, scored, strict=True)
            for result in [*several, *self._means(several, codes, method, spec)]
        ]
        metrics = ["F1 mean", "precision mean", "recall mean"]
        self.report(results, f"BUCC, {len(codes)} languages", metrics, "F1 mean")
        return results

    def _score(
        self,
        x: Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]],
        code: str,
        splits: Mapping[str, Split],
        method: Method,
        spec: EncoderSpec,
    ) -> list[Result]:
        """Returns precision, recall and F1 of a language, and the threshold."""
        started = time.perf_counter()
        sample, training = (self._mine(x[split, code], x[split, "en"], splits[split]) for split in SPLITS)
        tuned = best_threshold(sample.score, sample.which >= 0, len(sample.gold_source))
        queries = _at(training, tuned.value)
        seconds = time.perf_counter() - started
        gold = len(training.gold_source)
        results = []
        for metric, several in queries.items():
            # Without a pair there is nothing to be precise about.
            value = 0.0 if several is None else several.mean
            made = self.result(spec, method, [code, "en"], f"{metric} {code}", value, gold, seconds)
            results.append(made if several is None else made.resampled(several))
        for metric, value in {"threshold": tuned.value, "F1 on the sample": tuned.f1}.items():
            results.append(self.result(spec, method, [code, "en"], f"{metric} {code}", value, gold, seconds))
        return results

    def _means(
        self, results: Sequence[Result], codes: Sequence[str], method: Method, spec: EncoderSpec
    ) -> list[Result]:
        """Returns the means over languages of F1, precision and recall."""
        made = []
        for metric in ("F1", "precision", "recall"):
            of = [r for r in results if r.metric in [f"{metric} {code}" for code in codes]]
            mean, n = float(np.mean([r.value for r in of])), sum(r.n for r in of)
            seconds = sum(r.seconds for r in of)
            one = self.result(spec, method, [*codes, "en"], f"{metric} mean", mean, n, seconds)
            several = [r.queries for r in of if r.queries is not None]
            made.append(one.resampled(strata_of(several)) if len(several) == len(of) else one)
        return made

    def _mine(self, other: Float[np.ndarray, "_ dim"], english: Float[np.ndarray, "_ dim"], split: Split) -> _Found:
        pairs = mine(other, english, k=self.k, margin=self.margin, retrieval=self.retrieval)
        # What the file holds twice is not among the ids, and may be gold.
        names = dict.fromkeys([*split.other.ids, *(source for source, _ in sorted(split.gold))])
        number = {name: i for i, name in enumerate(names)}
        gold = {pair: i for i, pair in enumerate(sorted(split.gold))}
        score, which, sources = [], [], []
        for source, target, value in zip(*(part.tolist() for part in pairs), strict=True):
            ids = split.other.ids[source], split.english.ids[target]
            if None not in ids:
                score.append(value)
                which.append(gold.get(ids, -1))
                sources.append(number[ids[0]])
        gold_sources = np.array([number[source] for source, _ in gold], int)
        return _Found(np.array(score), np.array(which, int), np.array(sources, int), gold_sources)


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


def read_split(data: Data, code: str, split: str) -> Split:
    """Reads one split of a language and English, from BUCC's files or as prepared.

    Args:
      data: the folder of the files, of one folder a pair, or that ``prepare`` wrote; or ``tfds:NAME``.
      code: of the language.
      split: ``sample`` or ``training``.

    Raises:
      FileNotFoundError: no such folder or file.
      ValueError: a line that is not an id and a sentence, an id that comes twice, or gold of an id that is
        not there; file and line are named.
    """
    folder = folder_of(data, _NOT_ON_HUB)
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
