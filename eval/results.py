"""Reads and writes results as JSON lines, each with everything needed to reproduce it, and tabulates them."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from zipfile import BadZipFile

import jax
import numpy as np

from eval.methods import label
from eval.resampling import Queries, interval
from lsar_jax.files import new_file, write_text

__all__ = ["Result", "by_method", "read_results", "write_results"]

PACKAGES = ("lsar_jax", "jax", "flax", "numpy", "transformers")


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


def _device() -> str:
    devices = jax.devices()
    return f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform}, {os.cpu_count()} host cores)"


@dataclass(frozen=True)
class Result:
    """One measured value and how it was obtained.

    Attributes:
      task: name of the evaluation.
      languages: codes of the languages that the value covers.
      encoder, revision, layer, pooling, dtype: how the embeddings were computed, as in ``EncoderSpec``.
      max_length: maximum number of tokens per sentence.
      transform: name of the method; ``original`` for none.
      parameters: arguments of the method.
      fitted_on: the text that the method was fitted on.
      fitted_languages: number of vectors of each language that the method was fitted on.
      metric: name of the metric. Accuracies and mean average precision are in percent; cosines, shares,
        correlations and other scores are not scaled.
      n: number of queries, vectors or languages measured.
      seed: random seed; None if nothing is random.
      seconds: time that the task spent on scoring this method at this layer, over all of its languages.
      low: lower end of the 95% interval over resampled queries, if queries are scored individually.
      high: upper end of the same interval.
      options: options that are specific to the task, such as its data, k and margin.
      queries: scores of individual queries, stored beside the JSON lines.
      versions: versions of the packages used.
      device: the devices that the task ran on.
    """

    task: str
    languages: tuple[str, ...]
    encoder: str
    revision: str
    layer: int
    pooling: str
    dtype: str
    max_length: int
    transform: str
    parameters: dict[str, int | float | str]
    fitted_on: str
    metric: str
    value: float
    n: int
    seed: int | None
    seconds: float
    low: float | None = None
    high: float | None = None
    fitted_languages: dict[str, int] = field(default_factory=dict)
    options: dict[str, int | float | str | list[str] | None] = field(default_factory=dict)
    queries: Queries | None = field(default=None, repr=False, compare=False)
    versions: dict[str, str] = field(default_factory=lambda: dict(_versions()))
    device: str = field(default_factory=_device)

    def resampled(self, queries: Queries) -> "Result":
        """Adds the scores of individual queries and the interval of their mean."""
        low, high = interval(queries)
        return replace(self, low=low, high=high, queries=queries)


def by_method(results: Iterable[Result]) -> dict[str, dict[tuple[int, str], float]]:
    """Returns method label -> (layer, metric) -> mean over seeds, in the order of the results."""
    table: dict[str, dict[tuple[int, str], list[float]]] = {}
    for r in results:
        table.setdefault(label(r.transform, r.parameters), {}).setdefault((r.layer, r.metric), []).append(r.value)
    return {name: {key: sum(values) / len(values) for key, values in row.items()} for name, row in table.items()}


def write_results(results: Sequence[Result], path: Path) -> None:
    """Writes one JSON line per result, and ``queries.npz`` beside it; the file is never left half-written.

    In ``queries.npz``, array ``i`` holds the scores of line i, ``i.strata`` their strata and ``i.clusters`` their
    clusters.

    Raises:
      ValueError: a value is not finite.
    """
    for result in results:
        if not np.isfinite(result.value):
            name = label(result.transform, result.parameters)
            raise ValueError(f"{result.metric} of {name} at layer {result.layer} is {result.value}")
    # Old lines must never stand beside new scores.
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines, scores = [], {}
    for number, result in enumerate(results):
        lines.append(json.dumps({f.name: getattr(result, f.name) for f in fields(result) if f.name != "queries"}))
        if result.queries is not None:
            scores[f"{number}"] = result.queries.values
            for name in ("strata", "clusters"):
                if (numbers := getattr(result.queries, name)) is not None:
                    scores[f"{number}.{name}"] = numbers
            if result.queries.varying:
                scores[f"{number}.varying"] = np.array(True)
    kept = path.with_name("queries.npz")
    kept.unlink(missing_ok=True)
    if scores:
        with new_file(kept) as partial:
            np.savez_compressed(partial, **scores)  # type: ignore[arg-type]
    write_text(path, "".join(line + "\n" for line in lines))


def read_results(path: Path) -> list[Result]:
    """Reads the results written by ``write_results``.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: a line is not a result, or ``queries.npz`` cannot be read.
    """
    if not path.is_file():
        raise FileNotFoundError(f"results file {path} does not exist")
    kept = path.with_name("queries.npz")
    scores: dict[str, np.ndarray] = {}
    try:
        if kept.is_file():
            with kept.open("rb") as file:
                scores = dict(np.load(file))
    except (OSError, ValueError, BadZipFile) as error:
        raise ValueError(f"{kept} cannot be read: {error}") from error
    results = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        queries = None
        if (values := scores.get(f"{number}")) is not None:
            queries = Queries(
                values, scores.get(f"{number}.strata"), scores.get(f"{number}.clusters"), f"{number}.varying" in scores
            )
        try:
            parts = json.loads(line)
            results.append(Result(**{**parts, "languages": tuple(parts["languages"])}, queries=queries))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number + 1} is not a result: {error!r}") from error
    return results
