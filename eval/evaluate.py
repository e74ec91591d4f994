"""The evaluation loop: encode, transform and score, for each layer and method.

    task = udhr(languages=("de", "en", "th"))
    results, panels = evaluate(task, encoder, layers=(8, 12), fitting=choose(task, FitOptions()))

A task is a value (``eval.task``). What the methods are fitted on is chosen before (``eval.fitting``), and tables and
figures are made after (``eval.command``).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from eval.fitting import Fitting
from eval.task import Key, Panel, Score, Setting, Task, Texts, language_of
from lsar_jax import EncoderSpec, SentenceEncoder
from lsar_jax.embeddings.cache import encode_all
from lsar_jax.encoders.progress import Meter
from lsar_jax.measures.methods import Method
from lsar_jax.measures.results import Result

__all__ = ["Evaluation", "encode_texts", "evaluate", "result_of"]

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
) -> Evaluation:
    """Encodes the texts of a task, fits the methods, and scores the transformed embeddings at each layer.

    Only the methods of one layer are in memory at a time, unless the task has several parts. Embeddings are read from
    the folder ``cache``, and new ones are added to it.
    """
    fitting.check(encoder, layers)
    # A single part is encoded together with the text to fit on; of several, only one is in memory at a time.
    single = len(task.parts) == 1
    texts = {**fitting.texts, **(task.parts[0] if single and not task.every_layer else {})}
    results: list[Result] = []
    panels: dict[str, Any] = {}
    x = dict(encode_texts(encoder, texts, layers, max_length, cache)) if texts else {}
    if task.every_layer:
        panels["layers"] = encode_texts(encoder, task.parts[0], range(encoder.spec.layer + 1), max_length, cache)
        x |= {key: value[list(layers)] for key, value in panels["layers"].items()}
    specs = [replace(encoder.spec, layer=layer) for layer in layers]
    # The methods of each layer, with their scores and seconds, from their fit until the last part is scored.
    measured: list[list[tuple[Method, list[Score], list[float]]]] = [[] for _ in layers]
    # The sentences of all parts up to each.
    ends = np.cumsum([0, *(sum(map(len, part.values())) for part in task.parts)]).tolist()
    test: Encoded = x
    with Meter() as meter:
        for (number, part), (n, spec) in product(enumerate(task.parts), enumerate(specs)):
            if not single and n == 0:
                test = encode_texts(encoder, part, layers, max_length, cache)
            setting = Setting(spec, n == 0, fitting.languages, fitting.paired, fitting.name)
            here = {key: value[n] for key, value in x.items()}
            measured[n] = measured[n] or [(method, [], []) for method in fitting.methods(here, spec)]
            for m, (method, scores, seconds) in enumerate(measured[n], 1):
                rows = {key: test[key][n] for key in part if not task.some or method.takes(key[1])}
                transformed = method.transform_files(rows, language_of)
                started = time.perf_counter()
                for item in task.scores(transformed, method, setting):
                    if isinstance(item, Panel):
                        panels[item.title] = item.values
                    else:
                        scores.append(item)
                seconds.append(time.perf_counter() - started)
                share = (n + m / len(measured[n])) / len(specs)
                where = "" if single else f" on part {number + 1} of {len(task.parts)}"
                done = ends[number] + share * (ends[number + 1] - ends[number])
                meter(f"scored {method.label} at layer {spec.layer}{where}", done, ends[-1])
            if number + 1 < len(task.parts):
                continue
            for method, scores, seconds in measured[n]:
                for score in (*scores, *task.means(scores)):
                    results.append(result_of(task, fitting, spec, method, score, max_length, sum(seconds)))
            for scored in task.of_layer(here, [method for method, *_ in measured[n]], setting):
                if isinstance(scored, Panel):
                    panels[scored.title] = scored.values
                else:
                    results.append(result_of(task, fitting, spec, *scored, max_length))
            measured[n] = []
    return Evaluation(results, panels)


def encode_texts(
    encoder: SentenceEncoder, texts: Texts, layers: Sequence[int], max_length: int, cache: Path | None = None
) -> Encoded:
    """Returns the embeddings of the texts by key, ``[layer, sentence, dim]``."""
    return encode_all(encoder, texts, layers, max_length, {key: language_of(key) for key in texts}, cache)


def result_of(
    task: Task, fitting: Fitting, spec: EncoderSpec, method: Method, score: Score, max_length: int, seconds: float = 0.0
) -> Result:
    """Returns the full record of a score, with everything needed to reproduce it."""
    fits = method.transform.fits if method.transform else ()
    counts = {code: count for fit in fits for code, count in fit.fitted_on}
    steps = tuple(
        f"{fit} on {sum(count for _, count in fit.fitted_on):,} sentences of {len(fit.fitted_on)} languages, {digest}"
        for fit, digest in zip(fits, method.transform.digests if method.transform else (), strict=True)
    )
    metric = asdict(score.metric)
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
        value=score.value,
        n=score.n,
        seed=method.seed if score.seed is None else score.seed,
        seconds=round(seconds, 3),
        low=score.low,
        high=score.high,
        fitted_languages=counts or dict(method.counts),
        options=dict(task.options),
        fits=steps,
        one_map=method.one_map,
        dim=spec.dim,
        final_norm=spec.final_norm,
        prompt=spec.prompt,
        metric=metric.pop("name"),
        **metric,
    )
    if score.queries is None or score.low is not None:
        return replace(result, queries=score.queries)
    return result.resampled(score.queries)
