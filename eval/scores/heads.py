"""The scores of meaning and language heads over seeds, from the results of tasks, the level of chance, and a test."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from eval.report.tradeoff import over_seeds
from lsar_jax.measures.resampling import paired_test
from lsar_jax.measures.results import Result
from train.disentangle.finished import PARTS

__all__ = ["COLUMNS", "TRAINED", "Scores", "chance", "oracle_tests", "summary"]

# Column for the Tatoeba languages that the heads were trained on.
TRAINED = "Tatoeba (trained)"
# Task -> its column; a language has one of its own, such as "held-out, de".
COLUMNS = {"tatoeba": "Tatoeba", "bitext": "held-out", "code-switch": "code-switched", "sts17": "STS17"}
# (layer, objective, part) -> column -> one value per seed.
Scores = dict[tuple[int, str, str], dict[str, list[float]]]


def chance(results: Sequence[Result], trained: Collection[str] = ()) -> dict[str, float]:
    """Returns the level of chance, in percent, in each column of retrieval: the mean over languages of 100 / n."""
    levels: dict[str, list[float]] = {}
    for column, n in {column: r.n for column, r in _columns(results) if "," in column}.items():
        name, code = column.split(", ")
        for of in (name, TRAINED)[: 1 + (name == "Tatoeba" and code in trained)]:
            levels.setdefault(of, []).append(100 / n)
    return {column: float(np.mean(of)) for column, of in levels.items()}


def summary(results: Sequence[Result], trained: Collection[str] = ()) -> Scores:
    """Returns one value per seed, of retrieval the mean over both directions; the part of ``original`` is meaning.

    The mean on Tatoeba of the languages trained on is a column of its own.
    """
    scores: Scores = {}
    for column, r in _columns(results):
        part = r.transform if r.transform in PARTS else "meaning"
        objective = str(r.parameters.get("objective", r.transform))
        scores.setdefault((r.layer, objective, part), {}).setdefault(column, []).append(r.value)
    for columns in scores.values():
        if of := [columns[name] for code in trained if (name := f"Tatoeba, {code}") in columns]:
            columns[TRAINED] = np.mean(of, axis=0).tolist()
    return scores


def oracle_tests(results: Sequence[Result]) -> list[Result]:
    """Returns ORACLE's p-value in each column of all languages: of the paired test of an objective against its base.

    A query's score is the mean over seeds.
    """
    runs: dict[tuple[int, str, str, str], list[Result]] = {}
    for column, r in _columns(results):
        if "," not in column:
            runs.setdefault((r.layer, r.transform, column, str(r.parameters.get("objective"))), []).append(r)
    tests = []
    for (layer, part, column, name), of in runs.items():
        base = runs.get((layer, part, column, name.partition(" + oracle")[0]))
        if base and base is not of and (queries := over_seeds(base).paired(over_seeds(of))):
            p = paired_test(*queries)[1]
            test = replace(of[0], metric=f"{of[0].metric}, p of ORACLE", value=p, unit="", direction="neither")
            tests.append(replace(test, seed=None, low=None, high=None, queries=None, kind="", shown=False))
    return tests


def _columns(results: Sequence[Result]) -> Iterator[tuple[str, Result]]:
    """The results of both directions and of STS17, with their columns: of each language, and of all of a task."""
    most = {task: max((len(r.languages) for r in results if r.task == task), default=0) for task in COLUMNS}
    for r in results:
        if r.metric in ("Spearman mean", f"en-xx mean over {most[r.task]}, both ways"):
            yield COLUMNS[r.task], r
        elif r.metric.endswith("accuracy, both ways"):
            yield f"{COLUMNS[r.task]}, {r.languages[0]}", r
