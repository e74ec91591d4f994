"""The evaluation loop: encode, transform and score, for each layer and method.

    task = udhr(languages=("de", "en", "th"))
    results, panels = evaluate(task, encoder, layers=(8, 12), fitting=choose(task, FitOptions()))

A task is a value (``eval.task``). What the methods are fitted on is chosen before (``eval.fitting``), and tables and
figures are made after (``eval.command``).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from eval.fitting import Fitting
from eval.task import Embedded, Key, Panel, Score, Setting, Task, Texts, language_of
from lsar_jax import EncoderSpec, SentenceEncoder
from lsar_jax.embeddings.cache import encode_all
from lsar_jax.encoders.progress import Meter
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.results import Result, result_of

__all__ = ["Evaluation", "encode_texts", "evaluate"]

# Embeddings at all layers of an evaluation.
Encoded = Mapping[Key, Float[np.ndarray, "layer _ dim"]]


class Evaluation(NamedTuple):
    """The results, layer by layer and method by method, and the values of figures by title."""

    results: list[Result]
    panels: dict[str, Any]


def evaluate(
    task: Task,
    encoder: SentenceEncoder,
    layers: Sequence[int],
    fitting: Fitting,
    *,
    max_length: int = 128,
    cache: Path | None = None,
    strengths: Sequence[float] = (1.0,),
    move: str = "all",
) -> Evaluation:
    """Encodes the texts of a task, fits the methods, and scores the transformed embeddings at each layer.

    Methods are applied at each strength, to ``all`` vectors or only to ``documents``, which leaves queries unchanged.
    Only the methods of one layer are in memory at a time, unless the task has several parts. Embeddings are read from
    the folder ``cache``, and new ones are added to it.
    """
    fitting.check(encoder, layers)
    # A single part is encoded together with the text to fit on; of several, only one is in memory at a time.
    single = len(task.parts) == 1
    texts = {**fitting.texts, **(task.parts[0] if single and not task.every_layer else {})}
    found = Evaluation([], {})
    x = dict(encode_texts(encoder, texts, layers, max_length, cache)) if texts else {}
    if task.every_layer:
        every = range(encoder.spec.layer + 1)
        found.panels["layers"] = encode_texts(encoder, task.parts[0], every, max_length, cache)
        x |= {key: value[list(layers)] for key, value in found.panels["layers"].items()}
    # The methods of each layer, from their fit until the last part is scored.
    measured: list[list[_Scored]] = [[] for _ in layers]
    sentences = [sum(map(len, part.values())) for part in task.parts]
    with Meter() as meter:
        for (number, part), (n, layer) in product(enumerate(task.parts), enumerate(layers)):
            if n == 0:
                test = x if single else encode_texts(encoder, part, layers, max_length, cache)
            spec = replace(encoder.spec, layer=layer)
            setting = Setting(spec, n == 0, fitting.languages, fitting.paired)
            here = {key: value[n] for key, value in x.items()}
            measured[n] = measured[n] or _unscored(fitting.methods(here, spec), strengths)
            for m, scored in enumerate(measured[n], 1):
                rows = {key: test[key][n] for key in part if not task.some or scored.method.takes(key[1])}
                found.panels.update(_score(task, scored, rows, setting, move))
                done = sum(sentences[:number]) + sentences[number] * (n + m / len(measured[n])) / len(layers)
                where = "" if single else f" on part {number + 1} of {len(task.parts)}"
                meter(f"scored {scored.method.label} at layer {layer}{where}", done, sum(sentences))
            if number + 1 == len(task.parts):
                _finish(task, fitting, measured[n], here, setting, max_length, found)
                measured[n] = []
    return found


class _Scored(NamedTuple):
    """A fitted method, and its scores and seconds so far."""

    method: Method
    scores: list[Score]
    seconds: list[float]


def _unscored(methods: Sequence[Method], strengths: Sequence[float]) -> list[_Scored]:
    """The methods at each strength, without scores."""
    return [_Scored(at, [], []) for method in methods for at in method.at_strengths(strengths)]


def _score(task: Task, scored: _Scored, rows: Embedded, setting: Setting, move: str) -> Iterator[Panel]:
    """Adds the scores of a part, and yields its panels."""
    moved = {key: of for key, of in rows.items() if move == "all" or key[0].split()[0] != task.queries}
    transformed = {**rows, **scored.method.transform_files(moved, language_of)}
    started = time.perf_counter()
    for item in task.scores(transformed, scored.method, setting):
        if isinstance(item, Panel):
            yield item
        else:
            scored.scores.append(item)
    scored.seconds.append(time.perf_counter() - started)


def _finish(
    task: Task, fitting: Fitting, measured: Sequence[_Scored], x: Embedded, setting: Setting, max_length: int,
    found: Evaluation,
) -> None:  # fmt: skip
    """Adds the results of a layer, with the scores that need all parts or all methods."""
    for method, scores, seconds in measured:
        for score in (*scores, *task.means(scores)):
            found.results.append(_result(task, fitting, setting.spec, method, score, max_length, sum(seconds)))
    for scored in task.of_layer(x, [of.method for of in measured], setting):
        if isinstance(scored, Panel):
            found.panels[scored.title] = scored.values
        else:
            found.results.append(_result(task, fitting, setting.spec, *scored, max_length))


def encode_texts(
    encoder: SentenceEncoder, texts: Texts, layers: Sequence[int], max_length: int, cache: Path | None = None
) -> Encoded:
    """Returns the embeddings of the texts by key, ``[layer, sentence, dim]``."""
    return encode_all(encoder, texts, layers, max_length, {key: language_of(key) for key in texts}, cache)


def _result(
    task: Task, fitting: Fitting, spec: EncoderSpec, method: Method, score: Score, max_length: int, seconds: float = 0.0
) -> Result:
    """Returns the full record of a score, with everything needed to reproduce it."""
    values: dict[str, Any] = {} if score.seed is None else {"seed": score.seed}
    result = result_of(
        spec, method, score.metric, task=task.name, languages=tuple(score.languages), max_length=max_length,
        fitted_on=fitting.text_of(method), options=dict(task.options), seconds=round(seconds, 3), value=score.value,
        n=score.n, low=score.low, high=score.high, queries=score.queries, **values,
    )  # fmt: skip
    return result if score.queries is None or score.low is not None else result.resampled(score.queries)
