"""Reads and writes results as JSON lines, each with everything needed to reproduce it, and tabulates them."""

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from io import StringIO
from math import nan
from pathlib import Path
from statistics import fmean as mean
from typing import Any
from zipfile import BadZipFile

import jax
import numpy as np

from lsar_jax.checks import errors_of
from lsar_jax.corpora.by_language import group_by
from lsar_jax.files import new_file, text_sha256, write_text
from lsar_jax.measures.compared_methods import Method, label
from lsar_jax.measures.metric import Direction, Kind, Metric
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.resampling import Interval, interval
from lsar_jax.spec import EncoderSpec

__all__ = ["Result", "by_method", "read_results", "result_of", "write_results"]

_QUERIES = "queries.npz"
# Its array of the digest of the results and all names.
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
      task, languages: name of the evaluation, and codes of the languages that the value covers.
      encoder, revision, layer, pooling, dtype, max_length: how the embeddings were computed, as in ``EncoderSpec``,
        like dim, final_norm and prompt.
      transform, parameters: name of the method, ``original`` for none, and its arguments.
      fitted_on, fitted_languages: the text of the fit, and its number of vectors of each language.
      metric, value: name of the ``Metric``, and its value, in percent or from 0 to 1.
      n: number of queries, vectors or languages measured.
      seconds: time spent on scoring this method at this layer, over all languages.
      low, high: 95% interval over resampled queries, if queries are scored individually.
      queries: scores of individual queries, stored beside the JSON lines.
      fits: each step of the transform, its digest, and the number of sentences and languages that it was fitted on.
      one_map: whether the transform is one affine map, the same for all languages.
      date: day on which the results were written, in UTC; set by ``write_results``.
      direction, kind, column, unit, shown: fields of the ``Metric``; files of old versions lack them.
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
    queries: QueryScores | None = field(default=None, repr=False, compare=False)
    versions: dict[str, str] = field(default_factory=lambda: dict(_versions()))
    device: str = field(default_factory=_device)
    fits: tuple[str, ...] = ()
    date: str = field(default="", compare=False)
    dim: int | None = None
    final_norm: bool = False
    prompt: str = ""
    one_map: bool = False
    direction: Direction = "neither"
    kind: Kind = ""
    column: str = ""
    unit: str = "%"
    shown: bool = False

    @property
    def interval(self) -> Interval:
        """The value with its interval, if it has one."""
        ends = (nan, nan) if self.low is None or self.high is None else (self.low, self.high)
        return Interval(self.value, *ends)

    @property
    def made(self) -> str:
        """The encoder and how it was used, the versions, the device and the date."""
        cut = f" cut to {self.dim}" * (self.dim is not None) + ", final norm on all layers" * self.final_norm
        cut += f", prompt {self.prompt!r}" * (self.prompt != "")
        what = f"Encoder {self.encoder}, revision {self.revision}, {self.pooling} pooling{cut}, {self.dtype}, at most "
        # Of vectors no more is known.
        what = f"{what}{self.max_length} tokens" if self.pooling else f"Vectors {self.encoder}"
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{what}; {versions}; {self.device}; {self.date or 'date not recorded'}"

    def paired(self, other: "Result") -> tuple[QueryScores, QueryScores] | None:
        """Both results' per-query scores; None if their queries differ."""
        mine, theirs = self.queries, other.queries
        return (mine, theirs) if mine is not None and theirs is not None and mine.same(theirs) else None

    def resampled(self, queries: QueryScores) -> "Result":
        """Adds the scores of individual queries and the interval of their mean."""
        low, high = interval(queries)
        return replace(self, low=low, high=high, queries=queries)


def result_of(spec: EncoderSpec, method: Method, metric: Metric, **values: Any) -> Result:
    """Returns the record of a value of a method at a layer; ``values`` are the other fields of ``Result``."""
    fits = method.transform.fits if method.transform else ()
    steps = tuple(
        f"{fit} on {sum(count for _, count in fit.fitted_on):,} sentences of {len(fit.fitted_on)} languages, {digest}"
        for fit, digest in zip(fits, method.transform.digests if method.transform else (), strict=True)
    )
    of_encoder = ("revision", "layer", "pooling", "dtype", "dim", "final_norm", "prompt")
    given = {name: getattr(spec, name) for name in of_encoder} | asdict(metric)
    given |= {
        "encoder": spec.id, "transform": method.name, "metric": given.pop("name"), "seed": method.seed, "fits": steps,
        "parameters": {name: value for name, value in method.parameters.items() if name != "seed"},
        "fitted_languages": {code: count for fit in fits for code, count in fit.fitted_on} or dict(method.counts),
        "one_map": method.one_map,
    }  # fmt: skip
    return Result(**given | values)


def by_method(results: Iterable[Result]) -> dict[str, dict[tuple[int, str], Interval]]:
    """Returns method label -> (layer, metric) -> value and interval, or the mean over seeds, in the results' order."""

    def cell(of: Sequence[Result]) -> Interval:
        return of[0].interval if len(of) == 1 else Interval(mean(r.value for r in of))

    rows = group_by(results, lambda r: label(r.transform, r.parameters)).items()
    places = {name: group_by(row, lambda r: (r.layer, r.metric)) for name, row in rows}
    return {name: {place: cell(of) for place, of in row.items()} for name, row in places.items()}


def write_results(results: Sequence[Result], path: Path) -> None:
    """Writes one JSON line per result, and the scores of queries to ``queries.npz`` beside it.

    In it, array ``i`` holds the scores of line i, ``i.strata`` their strata and ``i.clusters`` their clusters.
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
    """Reads the results written by ``write_results``; raises ValueError if they or ``queries.npz`` are damaged."""
    if not path.is_file():
        raise FileNotFoundError(f"results file {path} does not exist")
    of_queries = path.with_name(_QUERIES)
    try:
        text = path.read_text(encoding="utf-8-sig")
        scores: dict[str, np.ndarray] = {}
        if of_queries.is_file():
            with of_queries.open("rb") as file:
                scores = dict(np.load(file))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason}") from error
    except (OSError, ValueError, KeyError, NotImplementedError, BadZipFile, zlib.error) as error:
        # Not numpy's text, which may advise to trust the file.
        reason = "it is not an archive of numbers" if isinstance(error, ValueError) else error
        raise ValueError(f"{of_queries} cannot be read: {reason}") from error
    names = [name for name in scores if name != _LINES]
    # Files of the first versions have no digest.
    if _LINES in scores and scores[_LINES].tolist() != [text_sha256(text), *names]:
        raise ValueError(f"{of_queries} holds the scores of other results than {path}; run the task again")
    results = []
    for number, line in enumerate(StringIO(text)):
        values, strata, clusters = (scores.get(f"{number}{end}") for end in ("", ".strata", ".clusters"))
        queries = None if values is None else QueryScores(values, strata, clusters, f"{number}.varying" in scores)
        with errors_of(f"{path}, line {number + 1} is not a result", TypeError, ValueError, AttributeError):
            parts = json.loads(line)
            parts |= {name: tuple(parts.get(name, ())) for name in ("languages", "fits")}  # lists in JSON
            results.append(Result(**parts, queries=queries))
    return results
