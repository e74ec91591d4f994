"""Does meaning leak into language embeddings? Trained heads of meaning and language, beside each other.

    python -m train.disentangle --objective meat --oracle --layer 8 --out results/meat-oracle
    python -m eval leakage results/meat-oracle --out results/leakage

After Ki, Park and Kim 2024: a translation should be found by its meaning (more is better) and not by its language
embedding (less is better); so too on held-out pairs of the training text and on code-switched sentences, and
for the correlation with people's scores of similarity. Tatoeba is LASER's, both directions, and STS17's mean is
over all tracks, Spearman's. Several seeds of a run become mean and sample deviation.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from eval import leakage_figures as draw
from eval.bitext import Bitext
from eval.code_switch import CodeSwitch
from eval.named import Data
from eval.pairs import PairTask
from eval.results import Result, console, print_table, write_results
from eval.sts17 import Sts17
from eval.tatoeba import XTREME_36, Tatoeba
from lsar_jax import Transform

__all__ = ["Leakage", "Score", "summary"]

PARTS = ("meaning", "language")
# Of a table's column the task, and how the metrics that it is the mean of begin.
COLUMNS = {
    "Tatoeba": ("tatoeba", ("en-xx mean over", "xx-en mean over")),
    "held-out": ("bitext", ("en-xx mean over", "xx-en mean over")),
    "code-switched": ("code-switch", ("en-xx mean over", "xx-en mean over")),
    "STS17": ("sts17", ("Spearman mean",)),
}


# What runs must have in common to be compared.
_SAME = (
    "encoder",
    "revision",
    "pooling",
    "dtype",
    "max_length",
    "data",
    "split",
    "languages",
    "held_out",
    "split_seed",
)


class Score(dict[str, list[float]]):
    """Column -> a value of each seed."""


@dataclass(frozen=True)
class Leakage:
    """Retrieval and similarity by meaning and by language embeddings of trained heads.

    Attributes:
      runs: folders of train.disentangle, of one encoder.
      tatoeba: folder, hub:ID or tfds:NAME.
      bitext: the parallel text of the runs; by default as they say.
      sts17: folder or hub:ID.
      dictionaries: the folder of de-en.txt and others.
      languages: of Tatoeba.
      pairs: of one language, to draw in two dimensions.
      out: folder for the JSON lines and figures.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    tatoeba: Data = Path("data/tatoeba")
    bitext: Data | None = None
    sts17: Data = Path("data/sts17")
    dictionaries: Path = Path("data/dictionaries")
    languages: tuple[str, ...] = XTREME_36
    pairs: int = 250
    out: Path = Path("results/leakage")

    def run(self) -> list[Result]:
        """Encodes, scores; prints a table a layer, writes ``results.jsonl`` and the figures.

        Raises:
          FileNotFoundError: a folder that is no finished run, or nothing to evaluate on.
          ValueError: runs of different encoders.
        """
        if not self.runs:
            raise ValueError("name at least one folder of train.disentangle")
        if self.pairs < 2:
            raise ValueError(f"--pairs is {self.pairs}; at least 2 are needed")
        configs = [_config(run) for run in self.runs]
        files = [path for run in self.runs for path in _heads(run)]
        first = configs[0]
        for run, config in zip(self.runs, configs, strict=True):
            # Of other languages or data, what one run was tested on another was trained on.
            for option in _SAME:
                if config[option] != first[option]:
                    raise ValueError(f"{run}: {option} is {config[option]!r}, and {first[option]!r} in {self.runs[0]}")
        objectives = [
            (_objective(Transform.load(_heads(run)[0])), c["layer"]) for run, c in zip(self.runs, configs, strict=True)
        ]
        for run, one in zip(self.runs, objectives, strict=True):
            if objectives.count(one) > 1:
                raise ValueError(f"{run} is {one[0]!r} of layer {one[1]}, as another run; compare them one at a time")
        layers = tuple(sorted({config["encoder_spec"]["layer"] for config in configs}))
        shared: dict[str, Any] = {
            **{option: first[option] for option in ("encoder", "revision", "pooling", "dtype")},
            "layers": layers, "transforms": ("original",), "saved": tuple(files), "max_length": first["max_length"],
            "out": self.out,
        }  # fmt: skip
        text = self.bitext or first["data"]
        trained = tuple(sorted(first["pairs"]))
        tatoeba = Tatoeba(**shared, data=self.tatoeba, languages=self.languages, fit_on="evaluated")
        tasks: list[PairTask | Sts17] = [
            tatoeba,
            Bitext(
                **shared, data=text, languages=trained, held_out=first["held_out"], split=first["split"],
                split_seed=first["split_seed"], fit_on="train",
            ),
            CodeSwitch(**shared, data=self.tatoeba, dictionaries=self.dictionaries),
            Sts17(**shared, data=self.sts17),
        ]  # fmt: skip
        self.out.mkdir(parents=True, exist_ok=True)
        results: list[Result] = []
        for task in tasks:
            try:
                found = task.measure()
            except (FileNotFoundError, ValueError) as error:
                console.print(f"not run: {task.name}: {error}")
            else:
                results += found if isinstance(found, list) else found[0]
        if not results:
            raise ValueError("no task has run")
        write_results(results, self.out / "results.jsonl")
        scores = summary(results)
        for layer in layers:
            _print(scores, layer)
        draw.leakage(scores, layers, self.out / "leakage.png")
        draw.similarity(scores, layers, self.out / "sts.png")
        draw.bases(scores, layers, self.out / "bases.png")
        self._plane(tatoeba, layers[0])
        console.print(f"wrote results and figures to {self.out}")
        return results

    def _plane(self, task: Tatoeba, layer: int) -> None:
        """Draws the parts of some pairs of one language by the first seed of up to four runs of a layer."""
        try:
            pairs = task.pairs()
        except FileNotFoundError:
            return
        code = "de" if "de" in pairs else next(iter(pairs))
        sides = {("en", code): list(pairs[code][0][: self.pairs]), ("xx", code): list(pairs[code][1][: self.pairs])}
        alone = replace(task, layers=(layer,), saved=())
        x = alone.encode(alone.prepare(2), sides)
        panels: dict[str, dict[str, np.ndarray]] = {}
        for run in self.runs:
            config = _config(run)
            if config["encoder_spec"]["layer"] == layer and len(panels) < 4:
                heads = [Transform.load(path) for path in _heads(run)[:2]]
                moved = {
                    f"{side} {part}": np.asarray(head(x[key, code][0]))
                    for key, side in (("en", "English"), ("xx", code))
                    for part, head in zip(PARTS, heads, strict=True)
                }
                panels[_objective(heads[0])] = moved
        draw.planes(panels, f"{self.pairs} pairs of English and {code}, layer {layer}", self.out / "embeddings.png")


def summary(results: Sequence[Result]) -> dict[tuple[int, str, str], Score]:
    """Returns (layer, objective, part) -> column -> a value of each seed; of ``original`` the part is meaning."""
    grouped: dict[tuple[int, str, str], dict[str, dict[int, list[float]]]] = {}
    for r in results:
        part = r.transform if r.transform in PARTS else "meaning"
        objective = str(r.parameters.get("objective", r.transform))
        for column, (task, begins) in COLUMNS.items():
            every = max((int(other) for other in _counts(results, task)), default=0)
            wanted = [f"{name} {every}" if name.endswith("over") else name for name in begins]
            if r.task == task and r.metric in wanted:
                seeds = grouped.setdefault((r.layer, objective, part), {}).setdefault(column, {})
                seeds.setdefault(-1 if r.seed is None else r.seed, []).append(r.value)
    return {
        key: Score({name: [float(np.mean(values)) for values in seeds.values()] for name, seeds in columns.items()})
        for key, columns in grouped.items()
    }


def _counts(results: Sequence[Result], task: str) -> set[str]:
    """Over how many languages a task has means."""
    words = (r.metric.split() for r in results if r.task == task and r.metric.startswith("en-xx mean over"))
    return {one[3] for one in words if len(one) == 4}


def _print(scores: dict[tuple[int, str, str], Score], layer: int) -> None:
    rows: list[list[str | float]] = []
    for objective in dict.fromkeys(name for at, name, _ in scores if at == layer):
        row: list[str | float] = [objective]
        for column in COLUMNS:
            for part in PARTS:
                values = scores.get((layer, objective, part), Score()).get(column, [])
                spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
                row.append(f"{np.mean(values):.1f}{spread}" if values else "")
        rows.append(row)
    columns = [f"{column}, {part[0]}" for column in COLUMNS for part in PARTS]
    print_table(f"Layer {layer}: by meaning, m, and by language, l, in percent", ["objective", *columns], rows)


def _config(run: Path) -> dict[str, Any]:
    path = run / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{run} is no run of train.disentangle: there is no {path}")
    return json.loads(path.read_text(encoding="utf-8"))


def _heads(run: Path) -> list[Path]:
    """Returns the meaning and the language head of each seed, one after the other."""
    folders = sorted(run.glob("seed-*"), key=lambda folder: int(folder.name.removeprefix("seed-")))
    files = [folder / f"{part}.safetensors" for folder in folders for part in PARTS]
    missing = [str(path) for path in files if not path.is_file()]
    if missing or not files:
        raise FileNotFoundError(f"{run} has no trained heads {', '.join(missing)}: run the same command again to go on")
    return files


def _objective(transform: Transform) -> str:
    return str(dict(transform.fits[0].parameters)["objective"])
