"""Reads and writes results as JSON lines, each with everything needed to reproduce it, and tabulates them."""

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from zipfile import BadZipFile

import jax
import numpy as np

from eval.methods import label
from eval.resampling import Queries, interval
from lsar_jax.files import new_file, text_sha256, write_text

__all__ = ["Result", "by_method", "read_results", "write_results"]

# Scores of individual queries, stored beside the results; in it, an array of the digest of the results and all names.
_QUERIES = "queries.npz"
_LINES = "lines"
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
      fits: each step of the transform, with its digest and the number of sentences and languages that it was fitted on.
      date: day on which the results were written, in UTC; set by ``write_results``.
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
    options: dict[str, bool | int | float | str | list[str] | None] = field(default_factory=dict)
    queries: Queries | None = field(default=None, repr=False, compare=False)
    versions: dict[str, str] = field(default_factory=lambda: dict(_versions()))
    device: str = field(default_factory=_device)
    fits: tuple[str, ...] = ()
    date: str = field(default="", compare=False)

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
    """Writes one JSON line per result, and ``queries.npz`` beside it; old files are kept until the new ones are whole.

    In ``queries.npz``, array ``i`` holds the scores of line i, ``i.strata`` their strata and ``i.clusters`` their
    clusters.

    Raises:
      ValueError: a value is not finite.
    """
    for result in results:
        if not np.isfinite(result.value):
            name = label(result.transform, result.parameters)
            raise ValueError(f"{result.metric} of {name} at layer {result.layer} is {result.value}")
    path.parent.mkdir(parents=True, exist_ok=True)
    today = datetime.now(UTC).date().isoformat()
    lines: list[str] = []
    scores: dict[str, np.ndarray] = {}
    for number, result in enumerate(results):
        parts = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "queries"}
        lines.append(json.dumps(parts | {"date": result.date or today}) + "\n")
        if (queries := result.queries) is not None:
            arrays = {"": queries.values, ".strata": queries.strata, ".clusters": queries.clusters}
            arrays[".varying"] = np.array(True) if queries.varying else None
            scores |= {f"{number}{end}": array for end, array in arrays.items() if array is not None}
    text, of_queries = "".join(lines), path.with_name(_QUERIES)
    if not scores:
        write_text(path, text)
        of_queries.unlink(missing_ok=True)
        return
    # Both are whole before either replaces an old one; a process killed between the two leaves scores that are not of
    # these lines, which their digest shows.
    with new_file(path) as partial, new_file(of_queries) as partial_scores:
        np.savez_compressed(partial_scores, **scores, **{_LINES: np.array([text_sha256(text), *scores])})  # type: ignore[arg-type]
        partial.write_text(text, encoding="utf-8")


def read_results(path: Path) -> list[Result]:
    """Reads the results written by ``write_results``.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: a line is not a result, or ``queries.npz`` cannot be read.
    """
    if not path.is_file():
        raise FileNotFoundError(f"results file {path} does not exist")
    of_queries = path.with_name(_QUERIES)
    scores: dict[str, np.ndarray] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason}") from error
    try:
        if of_queries.is_file():
            with of_queries.open("rb") as file:
                scores = dict(np.load(file))
    except (OSError, ValueError, KeyError, NotImplementedError, BadZipFile, zlib.error) as error:
        raise ValueError(f"{of_queries} cannot be read: {error}") from error
    names = [name for name in scores if name != _LINES]
    # Files of the first versions have no digest.
    if _LINES in scores and scores[_LINES].tolist() != [text_sha256(text), *names]:
        raise ValueError(f"{of_queries} holds the scores of other results than {path}; run the task again")
    results = []
    for number, line in enumerate(text.splitlines()):
        values, strata, clusters = (scores.get(f"{number}{end}") for end in ("", ".strata", ".clusters"))
        queries = None if values is None else Queries(values, strata, clusters, f"{number}.varying" in scores)
        try:
            parts = json.loads(line)
            for name in ("languages", "fits"):  # tuples are lists in JSON
                if isinstance(parts.get(name, []), list):
                    parts[name] = tuple(parts.get(name, []))
            result = Result(**parts, queries=queries)
            for name, kind in get_type_hints(Result).items():
                if name != "queries" and not _is(getattr(result, name), kind):
                    raise TypeError(f"{name} is {getattr(result, name)!r:.80}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path}, line {number + 1} is not a result: {error!r}") from error
        results.append(result)
    return results


def _is(value: Any, kind: Any) -> bool:
    """Whether a value that was read from JSON has the type of a field."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(value, part) for part in parts)
    if origin is dict:
        return isinstance(value, dict) and all(_is(k, parts[0]) and _is(v, parts[1]) for k, v in value.items())
    if origin in (list, tuple):
        return isinstance(value, origin) and all(_is(item, parts[0]) for item in value)
    numbers = (int, float) if kind is float else kind
    return isinstance(value, numbers) and not (isinstance(value, bool) and kind in (int, float))
