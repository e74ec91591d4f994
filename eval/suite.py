"""Runs every evaluation whose data is available, and writes a page of the results.

    python -m eval all --profile small

Each task writes to its own folder, and is skipped if that folder already has results from the same options and version.
Tasks without data are listed at the end, together with where to get their data.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from eval.fitted_task import FitLanguages
from eval.methods import ALL_METHODS, MethodName
from eval.report.page import Report
from eval.run_record import already_run
from eval.studies.curve import Curve
from eval.task import Task
from eval.tasks.amazon import Amazon
from eval.tasks.bitext import Bitext
from eval.tasks.bucc import Bucc
from eval.tasks.code_switch import CodeSwitch
from eval.tasks.geometry import Geometry
from eval.tasks.lareqa import Lareqa
from eval.tasks.pool import Pool
from eval.tasks.sts17 import Sts17
from eval.tasks.tatoeba import Tatoeba
from eval.tasks.udhr import Udhr
from lsar_jax import corpora, load_encoder
from lsar_jax.cli.console import console
from lsar_jax.languages import language_code

__all__ = ["Suite"]

_SMALL: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")


@dataclass(frozen=True)
class Suite:
    """Runs every task whose data is available, and writes the report.

    Attributes:
      profile: small compares four methods; full compares ten, and adds geometry and curve with their figures.
      encoder: bundled, a preset, a folder, or a Hub id.
      layers: hidden-state layers to test.
      data: folder that contains tatoeba, xquad-r, mlqa-r, sts17, bucc2018, bucc-made, bitext, dictionaries and amazon.
      out: folder for the results, with a subfolder for each encoder and task.
      max_length: maximum number of tokens per sentence; by default, that of each task.
      tasks: names of the tasks to run; by default, all of the profile.
      languages: language codes for the tasks that have --languages, as far as they test them; by default, all.
      fit_languages: languages to fit on: tested, or all that the text has.
      cache: folder for embeddings, of which each task encodes only what no task has before; by default, a subfolder of
        ``out``.
      overwrite: replace results in the folder that are from other options.
    """

    profile: Literal["small", "full"] = "small"
    encoder: str = "bundled"
    layers: tuple[int, ...] = (8, 12)
    data: Path = Path("data")
    out: Path = Path("results/all")
    max_length: int | None = None
    tasks: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    fit_languages: FitLanguages = "tested"
    cache: Path | None = None
    overwrite: bool = False

    def run(self) -> None:
        """Runs the tasks, lists those without data, and writes ``report.md`` and ``report.html``.

        Raises:
          ValueError: a task failed; raised after all other tasks have run.
        """
        missing: list[str] = []
        failed: list[str] = []
        chosen = self.chosen()
        # Load the encoder first, so that a failure here is not reported as missing data.
        load_encoder(self.encoder, layer=max(self.layers))
        for name, task in chosen:
            if already_run(task):
                console.print(f"{name}: skipped, the results are already in {task.out}")
                continue
            console.print(f"{name}:")
            try:
                task.run()
            except FileNotFoundError as error:
                missing.append(f"{name}: {error}")
            except (ValueError, ImportError, OSError) as error:
                # The other tasks still run.
                failed.append(f"{name}: {error}")
        if any(self.out.rglob("results.jsonl")):
            Report(self.out).run()
        for why in missing:
            console.print(f"not run: {why}")
        if failed:
            raise ValueError("; ".join(failed))

    def chosen(self) -> Sequence[tuple[str, Task]]:
        """Returns the name of every chosen task, and the task with its options."""
        shared: dict[str, Any] = {
            "encoder": self.encoder,
            "layers": self.layers,
            **({} if self.max_length is None else {"max_length": self.max_length}),
            "transforms": _SMALL if self.profile == "small" else ALL_METHODS,
            "cache": self.out / "embeddings" if self.cache is None else self.cache,
            "overwrite": self.overwrite,
        }
        place = {name: {"data": self.data / name} for name in
                 ("tatoeba", "xquad-r", "mlqa-r", "sts17", "bucc2018", "bucc-made", "bitext", "amazon")}  # fmt: skip
        words = {"dictionaries": self.data / "dictionaries"}
        tasks: list[tuple[str, type[Task], dict[str, Any]]] = [
            ("udhr", Udhr, {"ranks": ()}),
            ("pool", Pool, {}),
            ("tatoeba", Tatoeba, place["tatoeba"]),
            ("tatoeba-evaluated", Tatoeba, place["tatoeba"] | {"fit_on": "evaluated"}),
            ("xquad-r", Lareqa, place["xquad-r"]),
            ("mlqa-r", Lareqa, place["mlqa-r"]),
            ("sts17", Sts17, place["sts17"]),
            ("bucc2018", Bucc, place["bucc2018"]),
            ("bucc-made", Bucc, place["bucc-made"]),
            ("bitext", Bitext, place["bitext"]),
            ("code-switch", CodeSwitch, place["tatoeba"] | words),
            ("amazon", Amazon, place["amazon"]),
        ]
        if self.profile == "full":
            xquad = self.data / "xquad-r"
            tasks.append(("geometry", Geometry, {"xquad": xquad if xquad.is_dir() else None}))
            tasks.append(("curve", Curve, place["tatoeba"] | {"bitext": self.data / "bitext"}))
        out = self.out / Path(self.encoder.replace("/", "-") if not Path(self.encoder).is_dir() else self.encoder).name
        names = dict.fromkeys(part for name, task, _ in tasks for part in (name, task.name))
        if unknown := [name for name in self.tasks if name not in names]:
            raise ValueError(f"--tasks has {unknown[0]}, which is not one of {', '.join(names)}")
        chosen = []
        for name, task, own in tasks:
            if self.tasks and not {name, task.name} & set(self.tasks):
                continue
            default = {field.name: field.default for field in fields(task)}.get("languages")
            if self.languages and isinstance(default, tuple):
                # Those that the task names, or that its text has; other tasks take any that their data has.
                wanted = [language_code(code) for code in self.languages]
                known = corpora.udhr() if task in (Udhr, Pool, Geometry) else default
                languages = tuple(code for code in wanted if not known or code in known)
                if not languages:
                    console.print(f"{name}: skipped, it does not test {', '.join(wanted)}")
                    continue
                own = own | {"languages": languages}
            elif self.languages:
                console.print(f"{name}: has no languages to choose; all of its data is tested")
            if "fit_languages" in {field.name for field in fields(task)} and own.get("fit_on") != "evaluated":
                own = own | {"fit_languages": self.fit_languages}
            chosen.append((name, task(**shared, **own, out=out / name)))
        if not chosen:
            raise ValueError(f"no task tests any of the languages {', '.join(self.languages)}")
        return chosen
