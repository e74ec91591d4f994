r"""Does meaning leak into language embeddings? Compares trained meaning and language heads.

    python -m train.disentangle --objective meat --oracle --layer 8 \
        --learning-rate 1e-4 --patience 30 --out results/meat-oracle
    python -m eval leakage results/meat-oracle --out results/leakage

The evaluation follows Ki, Park and Kim 2024: a translation should be found by its meaning embedding (higher is better)
and not by its language embedding (lower is better). Retrieval is tested in both directions on LASER's Tatoeba, on
held-out pairs of the training text, and on code-switched sentences. On STS17, the score is Spearman's correlation with
human similarity scores, averaged over all tracks. Several seeds of a run are reported as mean and sample standard
deviation. A table shows whether training was cut short, or never improved on the first epoch; the last has the p-values
of ORACLE, which are results too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import tyro

from eval.data.tatoeba import XTREME_36
from eval.evaluate import encode_texts, evaluate
from eval.figures import leakage as draw
from eval.fit_options import FitOptions
from eval.fitting import choose
from eval.scores.heads import COLUMNS, TRAINED, Scores, chance, oracle_tests, summary
from eval.task import Task, Texts
from eval.tasks.benchmarks.sts17 import sts17
from eval.tasks.benchmarks.tatoeba import tatoeba
from eval.tasks.bitext import bitext
from eval.tasks.code_switch import code_switch
from lsar_jax.console.output import console, print_table
from lsar_jax.corpora.tables import Data, pin
from lsar_jax.languages import language_code
from lsar_jax.measures.results import Result, write_results
from lsar_jax.measures.run_record import recorded
from lsar_jax.options.encoder import EncoderOptions
from train.disentangle.finished import PARTS, TrainedRun, check_comparable, check_text, oracle_weights

__all__ = ["Leakage"]

# Number of held-out pairs of a language and English in a plane, as in Figure 5.
_HELD_OUT = 1_000


@dataclass(frozen=True)
class Leakage:
    """Retrieval and similarity by the meaning and language embeddings of trained heads.

    Attributes:
      runs: output folders of train.disentangle, all from one encoder; runs of one objective with different seeds are
        combined.
      tatoeba: the data of Tatoeba: a folder, hub:ID or tfds:NAME.
      bitext: the parallel text that the heads were trained on, if it has moved since.
      sts17: the data of STS17: a folder or hub:ID.
      dictionaries: folder of the dictionaries de-en.txt and so on.
      languages: languages of Tatoeba to test.
      pictures: languages whose held-out pairs are drawn too, up to 1,000 of each; one figure for each language and
        layer, with a panel for each objective.
      cache: folder for embeddings, which other tasks read too; by default, they are kept until the end.
      out: folder for the JSON lines and figures.
      overwrite: replace results in the folder that are from other options.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    tatoeba: Data = Path("data/tatoeba")
    bitext: Data | None = None
    sts17: Data = Path("data/sts17")
    dictionaries: Path = Path("data/dictionaries")
    languages: tuple[str, ...] = XTREME_36
    pictures: tuple[str, ...] = ()
    cache: Path | None = None
    out: Path = Path("results/leakage")
    overwrite: bool = False

    def run(self) -> list[Result]:
        """Encodes the texts, scores them, prints the tables, and writes ``results.jsonl`` and the figures."""
        with recorded(self), TemporaryDirectory() as folder:
            return self._evaluate(self.cache or Path(folder))

    def _evaluate(self, cache: Path) -> list[Result]:
        if not self.runs:
            raise ValueError("give at least one output folder of train.disentangle")
        runs = [TrainedRun.load(folder) for folder in self.runs]
        check_comparable(runs)
        first, layers = runs[0].config, tuple(sorted({run.spec.layer for run in runs}))
        trained = tuple(sorted(first["pairs"]))
        if unknown := [code for code in map(language_code, self.pictures) if code not in trained]:
            raise ValueError(f"--pictures has {unknown[0]}, but the heads were trained on {', '.join(trained)}")
        text = pin(self.bitext or first["data"])
        check_text(text, runs[0])
        names = {item.name for item in fields(EncoderOptions)}
        encoder = EncoderOptions(**{name: first[name] for name in names & first.keys()}).open(max(layers))
        options = FitOptions(transforms=("original",), saved=tuple(file for run in runs for file in run.files))
        results: list[Result] = []
        held_out: Texts = {}
        for task in self._tasks(text, first):
            held_out = task.parts[0] if task.name == "bitext" else held_out
            fitting, longest = choose(task, options), first["max_length"]
            results += evaluate(task, encoder, layers, fitting, max_length=longest, cache=cache).results
        if not results:
            raise ValueError("no task was run, because the data of all tasks are missing; see the lines above")
        results += oracle_tests(results)
        write_results(results, self.out / "results.jsonl")

        # Pictures leave out ablations, which would crowd them, unless there is nothing else.
        whole = [run for run in runs if not run.config["without"] or run.objective.startswith("oracle alone")] or runs
        self._report(results, runs, whole, trained)
        if held_out and self.pictures:
            x = encode_texts(encoder, held_out, layers, first["max_length"], cache)
            for (n, layer), code in product(enumerate(layers), map(language_code, self.pictures)):
                sides = {"English": x["en", code][n, :_HELD_OUT], code: x["xx", code][n, :_HELD_OUT]}
                self._draw_pairs(whole, layer, code, sides)
        console.print(f"wrote results and figures to {self.out}")
        return results

    def _tasks(self, text: Data, config: Mapping[str, Any]) -> Iterator[Task]:
        """The tasks whose data is there; the shortest comes first, so that errors in its data appear early."""
        pairs = {name: config[name] for name in ("held_out", "sample", "split", "split_seed") if name in config}
        trained_on = " and ".join([config["data"], *config.get("more", ())])
        tasks: dict[str, tuple[Data, Callable[[], Task]]] = {
            "sts17": (self.sts17, lambda: sts17(pin(self.sts17))),
            "code-switch": (self.tatoeba, lambda: code_switch(pin(self.tatoeba), self.dictionaries)),
            "bitext": (text, lambda: bitext(text, tuple(sorted(config["pairs"])), **pairs)),
            "tatoeba": (self.tatoeba, lambda: tatoeba(pin(self.tatoeba), self.languages)),
        }
        for name, (data, make) in tasks.items():
            try:
                # The text that methods of this task would be fitted on; the heads are not fitted here.
                fit_on = "train" if name == "bitext" else "evaluated"
                yield replace(make(), options={"data": str(data), "fit_on": fit_on, "trained_on": trained_on})
            except FileNotFoundError as error:
                console.print(f"not run: {name}: {error}")

    def _report(
        self, results: Sequence[Result], runs: Sequence[TrainedRun], whole: Sequence[TrainedRun], trained: Sequence[str]
    ) -> None:
        """Prints the tables of scores and of training, and draws the scores."""
        scores, by_chance = summary(results, trained), chance(results, trained)
        layers = sorted({run.spec.layer for run in runs})
        for layer in layers:
            _print(scores, layer, by_chance)
        print_table(
            "Training, with the best epoch of each seed (counted from 0; * if --epochs ended the run)",
            ["layer, objective", "rate, batch, patience", "epochs", "best"],
            [[f"{run.spec.layer}, {run.objective}", *run.training] for run in runs],
        )
        tests = [(r, str(r.parameters["objective"])) for r in results if r.metric.endswith(" p of ORACLE")]
        if tests:
            rows = [[f"{r.layer}, {name}", f"{r.task}, {r.transform}", f"{r.value:.4f}"] for r, name in tests]
            print_table("ORACLE against its base: a paired test over queries", ["layer, objective", "", "p"], rows)
        draw.leakage(scores, layers, "Tatoeba", self.out / "leakage.png")
        draw.leakage(scores, layers, "held-out", self.out / "held-out.png", pairs=True)
        draw.front(scores, layers, oracle_weights(runs), self.out / "front.png")
        title = "STS17: similarity by meaning and by language"
        draw.objective_bars(scores, layers, "STS17", "Spearman, %", title, self.out / "sts.png")
        names = {"original", *(run.objective for run in whole)}
        bases = {key: score for key, score in scores.items() if key[1] in names}
        title = "Tatoeba: with and without a base objective"
        draw.objective_bars(bases, layers, "Tatoeba", "accuracy, %", title, self.out / "bases.png")

    def _draw_pairs(self, runs: Sequence[TrainedRun], layer: int, code: str, sides: Mapping[str, np.ndarray]) -> None:
        """Draws the held-out pairs of a language, a panel for each objective, by its first run at the layer."""
        panels: dict[str, dict[str, np.ndarray]] = {}
        for run in runs:
            if run.spec.layer == layer and run.objective not in panels:
                heads = list(zip(PARTS, run.heads(run.seeds[0]), strict=True))
                of_run = {f"{side} {part}": np.asarray(head(x)) for side, x in sides.items() for part, head in heads}
                panels[run.objective] = of_run
        title = f"{len(sides[code])} held-out pairs of English and {code}, layer {layer}"
        draw.pair_planes(panels, title, self.out / f"held-out-{layer}-{code}.png")


def _print(scores: Scores, layer: int, by_chance: dict[str, float]) -> None:
    """Prints a layer's scores in tables of two columns each, with both parts, so that they fit on a terminal."""
    objectives = dict.fromkeys(name for at, name, _ in scores if at == layer)
    there = {column for (at, *_), score in scores.items() if at == layer for column in score}
    shown = [column for column in ("Tatoeba", TRAINED, *list(COLUMNS.values())[1:]) if column in there]
    for columns in (shown[first : first + 2] for first in range(0, len(shown), 2)):
        parts = list(product(columns, PARTS))
        rows = [
            [name, *(_cell(scores.get((layer, name, part), {}).get(column, [])) for column, part in parts)]
            for name in objectives
        ]
        rows.append(["chance", *(f"{by_chance[c]:.2f}" if c in by_chance else "" for c, _ in parts)])
        names = [f"{column}, {part[0]}" for column, part in parts]
        print_table(f"Layer {layer}: by meaning (m) and by language (l), in percent", ["objective", *names], rows)


def _cell(values: Sequence[float]) -> str:
    """The mean over seeds, and the sample standard deviation of several."""
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}" if values else ""
