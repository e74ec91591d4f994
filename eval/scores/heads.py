"""The scores of meaning and language heads over seeds, from the results of tasks, and the level of chance."""

from collections.abc import Collection, Sequence

import numpy as np

from lsar_jax.measures.results import Result
from train.disentangle.finished import PARTS

__all__ = ["COLUMNS", "TRAINED", "Scores", "chance", "summary"]

# Column for the Tatoeba languages that the heads were trained on.
TRAINED = "Tatoeba (trained)"
# Task -> its column.
COLUMNS = {"tatoeba": "Tatoeba", "bitext": "held-out", "code-switch": "code-switched", "sts17": "STS17"}
# (layer, objective, part) -> column -> one value per seed.
Scores = dict[tuple[int, str, str], dict[str, list[float]]]


def chance(results: Sequence[Result], trained: Collection[str] = ()) -> dict[str, float]:
    """Returns the level of chance, in percent, in each column of retrieval: the mean over languages of 100 / n."""
    counts: dict[str, dict[str, int]] = {}
    for r in results:
        code = r.languages[0]
        if r.metric == f"en-{code} accuracy":
            for column in {COLUMNS[r.task], TRAINED if r.task == "tatoeba" and code in trained else COLUMNS[r.task]}:
                counts.setdefault(column, {})[code] = r.n
    return {column: float(np.mean([100 / n for n in of.values()])) for column, of in counts.items()}


def summary(results: Sequence[Result], trained: Collection[str] = ()) -> Scores:
    """Returns one value per seed; the part of ``original`` is meaning.

    The mean on Tatoeba of the languages trained on, over both directions, is a column of its own.
    """
    grouped: dict[tuple[int, str, str], dict[str, dict[int, list[float]]]] = {}
    of_trained = {f"{way} accuracy" for code in trained for way in (f"en-{code}", f"{code}-en")}
    shown = [r for r in results if r.shown]
    most = {task: max(len(r.languages) for r in shown if r.task == task) for task in {r.task for r in shown}}
    for r in results:
        # The means over all languages, and Spearman's on STS17.
        column = COLUMNS[r.task] if r.shown and len(r.languages) == most[r.task] else ""
        if r.task == "sts17" and r.metric != "Spearman mean":
            column = ""
        if r.task == "tatoeba" and r.metric in of_trained:
            column = TRAINED
        if column:
            part = r.transform if r.transform in PARTS else "meaning"
            objective = str(r.parameters.get("objective", r.transform))
            seeds = grouped.setdefault((r.layer, objective, part), {}).setdefault(column, {})
            seeds.setdefault(-1 if r.seed is None else r.seed, []).append(r.value)
    return {
        key: {name: [float(np.mean(values)) for values in seeds.values()] for name, seeds in columns.items()}
        for key, columns in grouped.items()
    }
