"""Runs every evaluation whose data is available, and writes a page of the results.

    python -m eval all --profile small

Each task writes to its own folder, and is skipped if that folder already has results from the same options and version.
Tasks without data are listed at the end, together with where to get their data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from eval.__main__ import TASKS
from eval.papers.card import read_toml
from eval.report.page import ResultsPage
from lsar_jax import load_encoder
from lsar_jax.checks import check_choice
from lsar_jax.console.output import console
from lsar_jax.measures.compared_methods import ALL_METHODS, FEW_METHODS, MethodName
from lsar_jax.measures.own_methods import add_methods
from lsar_jax.measures.run_record import already_run

__all__ = ["Suite"]

# Folder of results -> its task, the options of it, paths below the data, and whether only the full profile has it.
_ENTRIES = read_toml(Path(__file__).with_suffix(".toml"))


@dataclass(frozen=True)
class Suite:
    """Runs every task whose data is available, and writes the report.

    Attributes:
      profile: small compares four methods; full compares ten, and adds geometry, answers, and preference on XQuAD-R.
      encoder: one or more of bundled, a preset, a folder, or a Hub id.
      layers: hidden-state layers to test.
      transforms: methods to compare; by default, as the profile says.
      method: fit functions in files of your own to compare, too, as FILE.py:FUNCTION.
      scores: what tasks that search rank by: cosine, csls, or both.
      data: folder that contains tatoeba, xquad-r, mlqa-r, sts17, bucc2018, bucc-made, bitext, flores200_dataset,
        NTREX-128, belebele, dictionaries and amazon.
      out: folder for the results, with a subfolder for each encoder and task.
      max_length: maximum number of tokens per sentence; by default, as each task has it.
      tasks: names of the tasks to run; by default, all of the profile.
      cache: folder for embeddings, which the tasks share; by default, a subfolder of ``out``.
      overwrite: replace results in the folder that are from other options.
    """

    profile: Literal["small", "full"] = "small"
    encoder: tuple[str, ...] = ("bundled",)
    layers: tuple[int, ...] = (8, 12)
    transforms: tuple[MethodName, ...] = ()
    method: tuple[str, ...] = ()
    scores: tuple[Literal["cosine", "csls"], ...] = ("cosine",)
    data: Path = Path("data")
    out: Path = Path("results/all")
    max_length: int | None = None
    tasks: tuple[str, ...] = ()
    cache: Path | None = None
    overwrite: bool = False

    # What --help shows.
    essential = ("profile", "encoder", "layers", "transforms", "method", "scores", "data", "out", "tasks", "overwrite")

    def run(self) -> None:
        """Runs the tasks, lists those without data, and writes the report; a failure is raised after all have run."""
        missing: list[str] = []
        failed: list[str] = []
        chosen = self.chosen()
        # Load the encoder first, so that a failure here is not reported as missing data.
        for encoder in self.encoder:
            load_encoder(encoder, layer=max(self.layers, default=None))
        for name, task in chosen:
            if not self.overwrite and already_run(task):
                console.print(f"{name}: skipped, the results are already in {task.out}")
                continue
            console.print(f"{name}:")
            try:
                task.run()
            except FileNotFoundError as error:
                missing.append(f"{name}: {error}")
            except (ValueError, ImportError, OSError) as error:
                failed.append(f"{name}: {error}")
        if any(self.out.rglob("results.jsonl")):
            ResultsPage(self.out).run()
        for why in missing:
            console.print(f"not run: {why}")
        if failed:
            raise ValueError("; ".join(failed))

    def chosen(self) -> Sequence[tuple[str, Any]]:
        """Returns the name of every chosen task, and the task with its options."""
        entries = {name: entry for name, entry in _ENTRIES.items() if self.profile == "full" or "full" not in entry}
        names = dict.fromkeys(known for name, entry in entries.items() for known in (name, entry["task"]))
        for name in self.tasks:
            check_choice("--tasks", name, names)
        chosen = []
        for encoder, (name, entry) in product(self.encoder, entries.items()):
            task = entry["task"]
            if self.tasks and not {name, task} & set(self.tasks):
                continue
            folder = encoder if Path(encoder).is_dir() else encoder.replace("/", "-")
            options: dict[str, Any] = {
                "encoder": encoder,
                **{name: getattr(self, name) for name in ("layers", "scores", "overwrite")},
                "method": (*add_methods(self.method).values(),),
                "transforms": self.transforms or (FEW_METHODS if self.profile == "small" else ALL_METHODS),
                "cache": self.cache or self.out / "embeddings",
                "out": self.out / Path(folder).name / name,
                **({} if self.max_length is None else {"max_length": self.max_length}),
                **entry.get("options", {}),
                **{key: self.data / path for key, path in entry.get("paths", {}).items()},
            }
            chosen.append((name if len(self.encoder) == 1 else f"{encoder}, {name}", TASKS[task].options()(**options)))
        return chosen
