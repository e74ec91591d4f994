"""How do the heads of train.disentangle depend on the kind and amount of text that they were trained on?

    python -m train.disentangle --objective dream --data data/bitext --share 0.25 --out results/text/messages-4 ...
    python -m train.disentangle --objective dream --data data/sentences --out results/text/sentences ...
    python -m eval training-text results/text/*

All runs have one encoder and layer, and differ in text and objective. Each is tested by its meaning embeddings (higher
is better) and by its language embeddings (lower is better): on Tatoeba, on the part of it in the languages that were
trained on, on the pairs held out of each text (whatever text the heads were trained on), and on STS17.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from matplotlib.figure import Figure

from eval.data.tatoeba import XTREME_36
from eval.methods import Method, saved_method
from eval.results import Result, write_results
from eval.run_record import recorded
from eval.task import Task
from eval.tasks.bitext import Bitext
from eval.tasks.sts17 import Sts17
from eval.tasks.tatoeba import Tatoeba
from lsar_jax import EncoderSpec
from lsar_jax.cli.console import console, print_table
from lsar_jax.corpora.tables import Data
from train.curves import save_figure
from train.disentangle.finished import PARTS, TrainedRun, check_comparable, check_text
from train.marks import COLOURS

__all__ = ["TrainingText"]

_TRAINED = "Tatoeba (trained)"
_ORIGINAL = ("original", "", 0)

# Objective and text -> number of training pairs -> column -> percentage.
Curves = Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]


@dataclass(frozen=True)
class TrainingText:
    """The accuracy of heads against the text that they were trained on.

    Attributes:
      runs: output folders of train.disentangle, with one encoder and layer.
      tatoeba: the data of Tatoeba: a folder, hub:ID or tfds:NAME.
      sts17: the data of STS17: a folder or hub:ID.
      texts: parallel texts whose held-out pairs are tested, with the held-out options of the runs.
      languages: languages of Tatoeba to test.
      out: folder for the JSON lines and the figure.
      overwrite: replace results in the folder that are from other options.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    tatoeba: Data = Path("data/tatoeba")
    sts17: Data = Path("data/sts17")
    texts: tuple[Data, ...] = (Path("data/bitext"), Path("data/sentences"))
    languages: tuple[str, ...] = XTREME_36
    out: Path = Path("results/training-text")
    overwrite: bool = False

    def run(self) -> list[Result]:
        """Encodes the texts once, scores all heads, prints the table, and writes ``results.jsonl`` and the figure.

        Raises:
          FileNotFoundError: a folder is not a finished run, or data do not exist.
          ValueError: the runs differ in encoder, layer, languages or held-out pairs; or runs of one objective and
            text have other training options, or the same seed.
        """
        with recorded(self):
            return self._evaluate()

    def _evaluate(self) -> list[Result]:
        if not self.runs:
            raise ValueError("give at least one output folder of train.disentangle")
        runs = [TrainedRun.load(folder) for folder in self.runs]
        check_comparable(runs, across_texts=True)
        for run in runs:
            check_text(run.config["data"], run)
        first = runs[0].config
        spec = EncoderSpec.from_dict(first["encoder_spec"])
        tasks = {column: task.pinned() for column, task in self._tasks(runs[0]).items()}
        self.out.mkdir(parents=True, exist_ok=True)
        encoder = next(iter(tasks.values())).prepare(2)
        results: list[Result] = []
        rows: dict[tuple[str, str, int], dict[str, list[float]]] = {}
        for column, task in tasks.items():
            x = {key: value[0] for key, value in task.encode(encoder, task.texts()).items()}
            for key, part, method in [(_ORIGINAL, "m", Method("original", {}, None)), *_heads(runs)]:
                scores = list(task.scores(task.moved(x, method), method, spec))
                results += [replace(task.result(spec, method, score, 0.0), fitted_on=key[1]) for score in scores]
                for name, values in _columns(column, scores, sorted(first["pairs"])).items():
                    rows.setdefault(key, {}).setdefault(f"{name}, {part}", []).append(float(np.mean(values)))
        write_results(results, self.out / "results.jsonl")
        means = {key: {name: float(np.mean(values)) for name, values in row.items()} for key, row in rows.items()}
        names = list(dict.fromkeys(name for row in means.values() for name in row))
        for part, word in (("m", "meaning"), ("l", "language")):
            columns = [name for name in names if name.endswith(f", {part}")]
            table: list[list[str | float]] = [
                [f"{objective}, {text}, {pairs:,}" if text else objective, *(row[name] for name in columns)]
                for (objective, text, pairs), row in means.items()
                if columns[0] in row
            ]
            heads = ["objective, text, training pairs", *(name.removesuffix(f", {part}") for name in columns)]
            print_table(f"Layer {spec.layer}, by {word}, in percent", heads, table)
        curves: dict[tuple[str, str], dict[int, Mapping[str, float]]] = {}
        for (objective, text, pairs), row in means.items():
            curves.setdefault((objective, text), {})[pairs] = row
        _draw(curves, names, f"{spec.id}, layer {spec.layer}", self.out / "training-text.png")
        console.print(f"wrote results and the figure to {self.out}")
        return results

    def _tasks(self, run: TrainedRun) -> dict[str, Task]:
        options = run.config
        shared: dict[str, Any] = {
            **{option: options[option] for option in ("encoder", "revision", "pooling", "dtype", "max_length")},
            "layers": (run.layer,), "transforms": ("original",), "out": self.out,
        }  # fmt: skip
        held = {name: options[name] for name in ("held_out", "split_seed")}
        trained = tuple(sorted(options["pairs"]))
        return {
            "STS17": Sts17(**shared, data=self.sts17),
            **{
                f"held-out {Path(text).name}": Bitext(**shared, **held, data=text, languages=trained)
                for text in self.texts
            },
            "Tatoeba": Tatoeba(**shared, data=self.tatoeba, languages=self.languages),
        }


def _heads(runs: Sequence[TrainedRun]) -> Iterator[tuple[tuple[str, str, int], str, Method]]:
    """Yields (objective, text, training pairs), the part and the method of each head."""
    for run in runs:
        text, pairs = run.text, run.pairs
        for seed in run.seeds:
            for part, head in zip(PARTS, run.heads(seed), strict=True):
                method = saved_method(head)
                told: dict[str, int | float | str] = {"text": text, "pairs": pairs, "folder": str(run.folder)}
                yield (run.objective, text, pairs), part[0], replace(method, parameters=method.parameters | told)


def _columns(column: str, scores: Sequence[Any], trained: Sequence[str]) -> dict[str, list[float]]:
    """Returns the values whose mean is shown in each column of a task."""
    values = {score.metric: score.value for score in scores}
    if column == "STS17":
        return {column: [values["Spearman mean"]]}
    every = {code for score in scores for code in score.languages}
    own = {code: [values[f"en-{code} accuracy"], values[f"{code}-en accuracy"]] for code in every}
    shown = {column: [value for several in own.values() for value in several]}
    if column == "Tatoeba" and (both := [code for code in trained if code in own]):
        shown[_TRAINED] = [value for code in both for value in own[code]]
    return shown


def _draw(curves: Curves, names: Sequence[str], title: str, path: Path) -> None:
    """Draws each column against the number of pairs: a colour for each objective, a marker and line for each text."""
    objectives = list(dict.fromkeys(objective for objective, text in curves if text))
    texts = list(dict.fromkeys(text for _, text in curves if text))
    columns = -(-len(names) // 2)
    figure = Figure(figsize=(3.4 * columns + 2.4, 6.4), layout="constrained")
    axes = figure.subplots(2, columns, squeeze=False, sharex=True)
    for axis in axes.ravel()[len(names) :]:
        axis.set_axis_off()
    # The first row is by meaning, the second by language.
    ordered = [name for part in "ml" for name in names if name.endswith(f", {part}")]
    for axis, name in zip(axes.ravel(), ordered, strict=False):
        for (objective, text), row in curves.items():
            if name not in next(iter(row.values())):
                continue
            if not text:
                axis.axhline(row[0][name], color="0.5", lw=1, ls=":", label="without heads")
                continue
            axis.plot(
                sorted(row), [row[pairs][name] for pairs in sorted(row)], ms=4, lw=1.2,
                marker="osD^"[texts.index(text) % 4],
                color=COLOURS[objectives.index(objective) % len(COLOURS)],
                ls=("-", "--", "-.", ":")[texts.index(text) % 4], label=f"{objective}, {text}",
            )  # fmt: skip
        axis.set_xscale("log")
        axis.set_title(name, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("training pairs")
    axes[0, 0].set_ylabel("%, higher is better")
    axes[1, 0].set_ylabel("%, lower is better")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=7)
    figure.suptitle(title)
    save_figure(figure, path)
