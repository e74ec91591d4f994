"""The evaluation loop: encode, transform and score, for each layer and method.

    task = udhr(languages=("de", "en", "th"))
    results, panels = evaluate(task, encoder, layers=(8, 12), fitting=choose(task, FitOptions()))

A task is a value (``eval.task``). What the methods are fitted on is chosen before (``eval.fitting``), and tables and
figures are made after (``eval.command``).
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from eval.fitting import Fitting
from eval.methods import FileMethod, Method, steps_of
from eval.results import Result
from eval.task import Embedded, Key, Panel, Score, Setting, Task, Texts, language_of
from lsar_jax import EncoderSpec, SentenceEncoder
from lsar_jax.cli.embed import encode_all

__all__ = ["Evaluation", "encode_texts", "evaluate", "result_of"]

# Embeddings at all layers of an evaluation.
Encoded = Mapping[Key, Float[np.ndarray, "layer _ dim"]]


class Evaluation(NamedTuple):
    """What was measured.

    Attributes:
      results: the results, layer by layer and method by method.
      panels: title -> values for figures.
    """

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
) -> Evaluation:
    """Encodes the texts of a task, fits the methods, and scores the transformed embeddings at each layer.

    Args:
      task: what is measured.
      encoder: the encoder, loaded with these layers.
      layers: hidden-state layers; 0 is the embedding output.
      fitting: the methods and their text, as ``eval.fitting.choose`` returns them.
      max_length: maximum number of tokens per sentence.
      cache: folder of embeddings that are read, and to which new ones are added.

    Raises:
      ValueError: an option of a method is out of range, or a saved transform was fitted on other embeddings.
    """
    fitting.check(encoder, layers)
    # A single part is encoded together with the text to fit on; of several, only one is in memory at a time.
    single = len(task.parts) == 1
    panels: dict[str, Any] = {}
    texts = {**fitting.texts, **(task.parts[0] if single else {})}
    if task.every_layer:
        x = encode_texts(encoder, texts, range(encoder.spec.layer + 1), max_length, cache)
        panels["layers"] = {key: x[key] for part in task.parts for key in part}
        x = {key: value[list(layers)] for key, value in x.items()}
    else:
        x = encode_texts(encoder, texts, layers, max_length, cache) if texts else {}
    settings = [
        Setting(replace(encoder.spec, layer=layer), layer == layers[0], fitting.languages, fitting.paired, fitting.name)
        for layer in layers
    ]
    methods = [fitting.methods(_at(x, n), setting.spec) for n, setting in enumerate(settings)]
    scores: list[list[list[Score]]] = [[[] for _ in fitted] for fitted in methods]
    seconds = [[0.0 for _ in fitted] for fitted in methods]
    for part in task.parts:
        measured = x if single else encode_texts(encoder, part, layers, max_length, cache)
        for n, setting in enumerate(settings):
            test = {key: value for key, value in _at(measured, n).items() if key in part}
            for number, method in enumerate(methods[n]):
                moved = _moved(task, test, method)
                started = time.perf_counter()
                scores[n][number] += _scores(task.scores(moved, method, setting), panels)
                seconds[n][number] += time.perf_counter() - started
    results = []
    for n, setting in enumerate(settings):
        for method, found, spent in zip(methods[n], scores[n], seconds[n], strict=True):
            for score in (*found, *task.means(found)):
                results.append(result_of(task, fitting, setting.spec, method, score, max_length, spent))
        for item in task.of_layer(_at(x, n), methods[n], setting):
            if isinstance(item, Panel):
                panels[item.title] = item.values
            else:
                results.append(result_of(task, fitting, setting.spec, *item, max_length))
    return Evaluation(results, panels)


def encode_texts(
    encoder: SentenceEncoder, texts: Texts, layers: Sequence[int], max_length: int, cache: Path | None = None
) -> Encoded:
    """Returns the embeddings of the texts by key, ``[layer, sentence, dim]``."""
    return encode_all(encoder, texts, layers, max_length, {key: language_of(key) for key in texts}, cache)


def result_of(
    task: Task,
    fitting: Fitting,
    spec: EncoderSpec,
    method: Method,
    score: Score,
    max_length: int,
    seconds: float = 0.0,
) -> Result:
    """Returns the full record of a score, with everything needed to reproduce it."""
    fits = method.transform.fits if method.transform else ()
    counts = {code: count for fit in fits for code, count in fit.fitted_on}
    result = Result(
        task=task.name,
        languages=tuple(score.languages),
        encoder=spec.id,
        revision=spec.revision,
        layer=spec.layer,
        pooling=spec.pooling,
        dtype=spec.dtype,
        max_length=max_length,
        transform=method.name,
        parameters={name: value for name, value in method.parameters.items() if name != "seed"},
        fitted_on=fitting.text_of(method) if score.fitted_on is None else score.fitted_on,
        metric=score.metric,
        value=score.value,
        n=score.n,
        seed=method.seed if score.seed is None else score.seed,
        seconds=round(seconds, 3),
        low=score.low,
        high=score.high,
        fitted_languages=dict(method.counts) if isinstance(method, FileMethod) else counts,
        options=dict(task.options),
        fits=() if method.transform is None else steps_of(method.transform),
    )
    return result if score.queries is None else result.resampled(score.queries)


def _at(x: Encoded, index: int) -> Embedded:
    """Returns the embeddings of one layer."""
    return {key: value[index] for key, value in x.items()}


def _moved(task: Task, x: Embedded, method: Method) -> Embedded:
    """Returns the measured embeddings, transformed by a method, in the languages that it is tested on."""
    if isinstance(method, FileMethod):
        return method.moved(x)
    return {key: method(value, language_of(key)) for key, value in x.items() if not task.some or method.takes(key[1])}


def _scores(found: Iterable[Score | Panel], panels: dict[str, Any]) -> list[Score]:
    """Returns the scores, and puts the panels with those of the other methods."""
    scores = []
    for item in found:
        if isinstance(item, Score):
            scores.append(item)
        else:
            panels[item.title] = item.values
    return scores
