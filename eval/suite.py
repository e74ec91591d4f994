"""Runs every evaluation whose data is available, and writes a page of the results.

    python -m eval all --profile small

Each task writes to its own folder, and is skipped if that folder already has results from the same options and version.
Tasks without data are listed at the end, together with where to get their data.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from eval.__main__ import TASKS
from eval.fitting import FitLanguages
from eval.methods import ALL_METHODS, MethodName
from eval.report.page import Report
from eval.run_record import already_run
from lsar_jax import corpora, load_encoder
from lsar_jax.cli.console import console
from lsar_jax.languages import language_code

__all__ = ["Suite"]

_SMALL: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")


class _Entry(NamedTuple):
    """A task of the suite.

    Attributes:
      name: its folder of results.
      task: the task.
      places: option -> folder below the data.
      options: further options.
      full: whether only the full profile has it.
      of_udhr: whether it tests those languages that the UDHR has.
    """

    name: str
    task: str
    places: dict[str, str] = {}  # noqa: RUF012
    options: dict[str, Any] = {}  # noqa: RUF012
    full: bool = False
    of_udhr: bool = False


_ENTRIES = (
    _Entry("udhr", "udhr", options={"ranks": ()}, of_udhr=True),
    _Entry("pool", "pool", of_udhr=True),
    _Entry("tatoeba", "tatoeba", {"data": "tatoeba"}),
    _Entry("tatoeba-evaluated", "tatoeba", {"data": "tatoeba"}, {"fit_on": "evaluated", "fit_languages": "tested"}),
    _Entry("xquad-r", "lareqa", {"data": "xquad-r"}),
    _Entry("mlqa-r", "lareqa", {"data": "mlqa-r"}),
    _Entry("sts17", "sts17", {"data": "sts17"}),
    _Entry("bucc2018", "bucc", {"data": "bucc2018"}),
    _Entry("bucc-made", "bucc", {"data": "bucc-made"}),
    _Entry("bitext", "bitext", {"data": "bitext"}),
    _Entry("code-switch", "code-switch", {"data": "tatoeba", "dictionaries": "dictionaries"}),
    _Entry("amazon", "amazon", {"data": "amazon"}),
    _Entry("geometry", "geometry", full=True, of_udhr=True),
    _Entry("answers", "answers", {"data": "xquad-r"}, full=True),
)


@dataclass(frozen=True)
class Suite:
    """Runs every task whose data is available, and writes the report.

    Attributes:
      profile: small compares four methods; full compares ten, and adds geometry and answers with their figures.
      encoder: bundled, a preset, a folder, or a Hub id.
      layers: hidden-state layers to test.
      data: folder that contains tatoeba, xquad-r, mlqa-r, sts17, bucc2018, bucc-made, bitext, dictionaries and amazon.
      out: folder for the results, with a subfolder for each encoder and task.
      max_length: maximum number of tokens per sentence; by default, that of each task.
      tasks: names of the tasks to run; by default, all of the profile.
      languages: language codes for the tasks that have --languages, as far as they test them; by default, all.
      fit_languages: languages to fit on: tested, or all that the text has.
      cache: folder for embeddings; no task encodes a sentence that another has encoded. By default, a subfolder of
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
        load_encoder(self.encoder, layer=max(self.layers, default=None))
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

    def chosen(self) -> Sequence[tuple[str, Any]]:
        """Returns the name of every chosen task, and the task with its options."""
        entries = [entry for entry in _ENTRIES if self.profile == "full" or not entry.full]
        names = dict.fromkeys(name for entry in entries for name in (entry.name, entry.task))
        if unknown := [name for name in self.tasks if name not in names]:
            raise ValueError(f"--tasks has {unknown[0]}, which is not one of {', '.join(names)}")
        codes = [language_code(code) for code in self.languages]
        folder = self.encoder if Path(self.encoder).is_dir() else self.encoder.replace("/", "-")
        chosen = []
        for entry in entries:
            if self.tasks and not {entry.name, entry.task} & set(self.tasks):
                continue
            kind = getattr(importlib.import_module(TASKS[entry.task].module), TASKS[entry.task].kind)
            options: dict[str, Any] = {
                "encoder": self.encoder,
                "layers": self.layers,
                "transforms": _SMALL if self.profile == "small" else ALL_METHODS,
                "cache": self.out / "embeddings" if self.cache is None else self.cache,
                "overwrite": self.overwrite,
                "fit_languages": self.fit_languages,
                "out": self.out / Path(folder).name / entry.name,
                **({} if self.max_length is None else {"max_length": self.max_length}),
                **entry.options,
                **{option: self.data / place for option, place in entry.places.items()},
            }
            default = {item.name: item.default for item in fields(kind)}.get("languages")
            if codes and isinstance(default, tuple):
                # Those that the task names, or that its text has; other tasks take any that their data has.
                known = corpora.udhr() if entry.of_udhr else default
                options["languages"] = tuple(code for code in codes if not known or code in known)
                if not options["languages"]:
                    console.print(f"{entry.name}: skipped, it does not test {', '.join(codes)}")
                    continue
            elif codes:
                console.print(f"{entry.name}: has no languages to choose; all of its data is tested")
            chosen.append((entry.name, kind(**options)))
        if not chosen:
            raise ValueError(f"no task tests any of the languages {', '.join(self.languages)}")
        return chosen
