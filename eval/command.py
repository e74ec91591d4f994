"""The command of a task: options, the check of its folder, the loop, the table and the figures.

    COMMAND = command(tatoeba)      # in the file of the task, which eval/commands.toml names

The options of a command are the keyword arguments of the function that makes the task, and the fields of ``Options``.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self

from eval.evaluate import Evaluation, evaluate
from eval.figures.plots import bars, sweep_figure
from eval.fit_options import FitOptions
from eval.fitting import choose
from eval.task import Task
from lsar_jax.console.output import console, print_table
from lsar_jax.corpora.tables import folder_of, pin
from lsar_jax.measures.own_methods import add_methods
from lsar_jax.measures.results import Result, by_method, write_results
from lsar_jax.measures.run_record import recorded
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.transforms.base.blend import Blend

__all__ = ["Options", "command", "report"]

# Layers whose metrics fit into one table.
_FEW = 3
# Options that results record with a task's own.
_OF_TEXT = ("fit_on", "fit_count", "fit_languages", "parallel", "move")


@dataclass(frozen=True)
class Options(FitOptions, EncoderOptions):
    """The options that all tasks share: the encoder, what is fitted on what, and where results are written.

    Attributes:
      layers: hidden-state layers to test, 0 for the embedding output; without a value, all.
      dim: number of dimensions to keep of a Matryoshka embedding, which is normalised again; of the last layer only.
      strengths: strengths from 0 (unchanged) to 1 (as fitted) at which methods are applied, each in a row of its own.
      move: vectors that methods transform: all; or documents, which leaves the queries of a search as they are, as
        SHIFT does for queries in English.
      cache: folder for embeddings, which other tasks read too; by default, none are kept.
      out: folder for the JSON lines and figures.
      overwrite: replace results in the folder that are from other options.
    """

    layers: tuple[int, ...] = (8, 12)
    dim: int | None = None
    strengths: tuple[float, ...] = (1.0,)
    move: Literal["all", "documents"] = "all"
    cache: Path | None = None
    out: Path = Path("results")
    overwrite: bool = False

    # What --help shows, and with these the options of a task's own.
    essential = ("encoder", "layers", "transforms", "ranks", "fit_on", "out")

    def pinned(self) -> Self:
        """Pins every Hub dataset that is read to its current commit."""
        unread = {"out", "encoder"} | (set() if self.reads_text else {"fit_on"})
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in unread}
        pinned: dict[str, Any] = {name: pin(value) for name, value in values.items() if isinstance(value, Path | str)}
        return replace(self, **pinned)


def command(
    make: Callable[..., Task], *, not_on_hub: str = "", rare: Collection[str] = (), **defaults: Any
) -> type[Options]:
    """Returns the options of a task as a dataclass, whose ``run`` evaluates it.

    Args:
      make: makes the task; its keyword arguments are options. An argument ``options`` gets all of them.
      not_on_hub: why the Hub does not have the data; empty if it may.
      rare: options of the task that only ``--help-all`` shows.
      defaults: defaults of this task for shared options; by default, results go to ``results/NAME``.
    """
    name = make.__name__.replace("_", "-")
    defaults = {"out": Path("results") / name, **defaults}
    shared = {item.name: item for item in fields(Options)}
    parameters = inspect.signature(make).parameters
    of_task = [(p.name, p.annotation, field(default=p.default)) for p in parameters.values() if p.name != "options"]

    def made(options: Any) -> Task:
        """The task, with the options that its results record."""
        given = {key: getattr(options, key) for key, *_ in of_task}
        task = make(**given, **({"options": options} if "options" in parameters else {}))
        kept = (*given, *_OF_TEXT, *(["method"] if options.method else []))
        return replace(task, options={key: _plain(getattr(options, key)) for key in kept})

    def run(options: Any) -> Evaluation:
        """Measures, prints a table, and writes ``results.jsonl`` and figures to ``out``."""
        own = add_methods(options.method)
        options = replace(options, method=(*own.values(),))  # with digests, which the record compares
        if not_on_hub:
            folder_of(options.data, not_on_hub)
        with recorded(options):
            # What is fitted on is read at the commit that the results record.
            pinned = replace(options, transforms=(*options.transforms, *own)).pinned()
            return _run(pinned.made(), pinned)

    essential = (*Options.essential, *(key for key, *_ in of_task if key not in rare))
    namespace = {"name": name, "made": made, "run": run, "essential": essential}
    return make_dataclass(
        make.__name__,
        [*of_task, *((key, shared[key].type, field(default=value)) for key, value in defaults.items())],
        bases=(Options,),
        frozen=True,
        namespace=namespace | {"__doc__": make.__doc__, "__module__": make.__module__},
    )


def _run(task: Task, options: Options) -> Evaluation:
    if options.move == "documents" and not task.queries:
        raise ValueError(f"--move is documents, but {task.name} has no queries and documents; omit it")
    for strength in options.strengths:
        Blend.of(strength, 0)
    fitting = choose(task, options)
    console.print(f"loading the encoder {options.encoder}")
    encoder = options.open(max(options.layers, default=None), dim=options.dim)
    layers = options.layers or tuple(range(encoder.spec.layer + 1))
    console.print(f"encoding the text, and fitting and scoring the methods at layers {', '.join(map(str, layers))}")
    shared = {name: getattr(options, name) for name in ("max_length", "cache", "strengths", "move")}
    evaluation = evaluate(task, encoder, layers, fitting, **shared)
    report(task, evaluation, options.out)
    return evaluation


def report(task: Task, evaluation: Evaluation, out: Path) -> None:
    """Writes ``results.jsonl``, and prints and draws the shown metrics; of many layers, the first by layer."""
    results = evaluation.results
    write_results(results, out / "results.jsonl")
    if any(r.shown for r in results):
        _by_layer(task, results, out) if len({r.layer for r in results}) > _FEW else _by_metric(task, results, out)
    console.print("drawing the figures")
    task.draw(results, evaluation.panels, out)
    console.print(f"wrote results and figures to {out}")


def _by_layer(task: Task, results: Sequence[Result], out: Path) -> None:
    """Prints and draws the first shown metric: a method in each row, a layer in each column."""
    first = next(r.metric for r in results if r.shown)
    layers = list(dict.fromkeys(r.layer for r in results))
    rows, curves = [], {}
    for label, row in by_method(r for r in results if r.metric == first).items():
        values = curves[label] = {layer: cell.value for (layer, _), cell in row.items()}
        best = max(values, key=lambda layer: values[layer])
        shown = [f"{values[at]:.0f}" if at in values else "" for at in layers]
        rows.append([label, f"{best}", str(row[best, first]), *shown])
    columns = ["method", "best layer", f"{first} there", *map(str, layers)]
    print_table(f"{task.title}: {first} by layer, in percent", columns, rows)
    sweep_figure(curves, layers, f"{first}, {task.title} ({results[0].encoder})", out / "sweep.png")


def _by_metric(task: Task, results: Sequence[Result], out: Path) -> None:
    """Prints the shown metrics at each layer, and draws the first."""
    first, *metrics = dict.fromkeys(r.metric for r in results if r.shown)
    places = list(product(dict.fromkeys(r.layer for r in results), (first, *metrics)))
    table = by_method(results)
    rows = [[label, *(str(row.get(place, "")) for place in places)] for label, row in table.items()]
    if sum(3 + max(map(len, cells)) for cells in zip(*rows, strict=True)) >= console.width:
        # There is no room for intervals beside the values, but below them.
        rows = [[label, *(cell.replace(" ", "\n", 1) for cell in cells)] for label, *cells in rows]
    print_table(f"{task.title}, in percent", ["method", *(f"{name}, layer {at}" for at, name in places)], rows)
    groups = {
        f"layer {at}": {label: row[at, first] for label, row in table.items() if (at, first) in row}
        for at in dict.fromkeys(at for at, _ in places)
    }
    bars(groups, ylabel=f"{first}, %", title=f"{task.title} ({results[0].encoder})", path=out / "methods.png")


def _plain(value: Any) -> Any:
    """An option as a JSON value."""
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return str(value) if isinstance(value, Path) else value
