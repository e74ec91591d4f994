"""Results: one JSON line each with all that is needed to get it again, and a table."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

import jax
from rich.console import Console
from rich.table import Table

from eval.methods import label

__all__ = ["Result", "by_method", "console", "print_table", "write_results"]

console = Console(width=110, highlight=False, soft_wrap=True)

PACKAGES = ("lsar_jax", "jax", "flax", "numpy", "transformers")


def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


def _device() -> str:
    devices = jax.devices()
    return f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform}, {os.cpu_count()} host cores)"


@dataclass(frozen=True)
class Result:
    """One number.

    Attributes:
      task: name of the evaluation.
      languages: codes of the languages it is over.
      encoder, revision, layer, pooling, dtype: the embeddings.
      max_length: tokens at most of a sentence.
      transform: the method, ``original`` for none.
      parameters: its arguments.
      fitted_on: the text it was fitted on.
      metric: what ``value`` is: accuracies and mean average precision in percent, cosines, shares,
        correlations and scores as they are.
      n: number of queries, or of vectors or languages that were measured.
      seed: None where nothing is random.
      seconds: spent on scoring.
      versions: of the packages that made it.
      device: where it ran.
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
    versions: dict[str, str] = field(default_factory=_versions)
    device: str = field(default_factory=_device)


def by_method(results: Iterable[Result]) -> dict[str, dict[tuple[int, str], float]]:
    """Returns method label -> (layer, metric) -> value, in the order of the results."""
    table: dict[str, dict[tuple[int, str], float]] = {}
    for r in results:
        table.setdefault(label(r.transform, r.parameters), {})[r.layer, r.metric] = r.value
    return table


def write_results(results: Sequence[Result], path: Path) -> None:
    """Writes one JSON line a result; the file is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(asdict(r)) + "\n" for r in results), encoding="utf-8")
    partial.replace(path)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> None:
    """Prints a table; numbers have one decimal."""
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:.1f}" for cell in row))
    console.print(table)
