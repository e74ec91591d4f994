"""Completes the commands of a card for an encoder: its layers in the paper, the paper's options, where results go."""

import importlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from eval.__main__ import TASKS
from eval.papers.card import Card, Setting, Step, command_line
from eval.papers.sources import SOURCES
from eval.run_record import already_run
from lsar_jax.checkpoints.presets import PRESETS

__all__ = ["Choice", "Planned", "filled", "plan", "plan_step", "setting_of"]


@dataclass(frozen=True)
class Choice:
    """The encoder that a card is run with, and what replaces the paper's options.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      revision: commit, tag or branch of a Hub id.
      named: which of the paper's encoders it is; empty if its own name says so.
      layers: the layers to measure; empty for those of the paper.
      fit_on: the text to fit on; empty for that of the paper.
      max_length: maximum number of tokens per sentence; None for that of the paper.
      steps: numbers of the commands to run, from 1; empty for all.
      data: folder of the data.
      out: folder of all results.
      overwrite: whether results from other options are replaced.
    """

    encoder: str = "bundled"
    revision: str | None = None
    named: str = ""
    layers: tuple[int, ...] = ()
    fit_on: str = ""
    max_length: int | None = None
    steps: tuple[int, ...] = ()
    data: Path = Path("data")
    out: Path = Path("results/repro")
    overwrite: bool = False

    @property
    def name(self) -> str:
        """The encoder's name in the names of folders."""
        return Path(self.encoder).resolve().name if self._is_folder else self.encoder.replace("/", "-")

    @property
    def id_name(self) -> str:
        """The last part of the encoder's id, which ``train.align`` names its folder after."""
        preset = None if self._is_folder else PRESETS.get(self.encoder)
        return (preset.id if preset and preset.id else Path(self.encoder).resolve().name).rpartition("/")[2]

    @property
    def _is_folder(self) -> bool:
        return self.encoder != "bundled" and Path(self.encoder).is_dir()

    def folder(self, card: Card) -> Path:
        """Returns the folder of a card's results."""
        return self.out / card.name / self.name

    @property
    def trained(self) -> Path:
        """The folder of what was trained on this encoder; for the bundled one, where the pages put it."""
        return Path("results") if self.encoder == "bundled" else Path("results") / self.name


@dataclass(frozen=True)
class Planned:
    """A command that is ready to run.

    Attributes:
      number: its number in the card, from 1.
      step: the step of the card.
      options: its options.
      setting: how the paper used this encoder.
      out: folder of its results; None for commands of ``train``.
      makes: what it makes, if it is not run where that exists.
    """

    number: int
    step: Step
    options: dict[str, Any]
    setting: Setting
    out: Path | None
    makes: Path | None = None

    @property
    def words(self) -> list[str]:
        """The command as words, of which the first is ``python``."""
        return command_line(self.step.task, self.options)

    @property
    def line(self) -> str:
        """The command as a user would type it."""
        return shlex.join(self.words)

    @cached_property
    def command(self) -> Any:
        """The command of ``python -m eval`` with these options; None for one of ``train``."""
        if self.step.task not in TASKS:
            return None
        kind = _kind(self.step.task)
        paths = {name: Path(value) for name, value in self.options.items() if name in ("out", "to")}
        options = {**self.options, **paths}
        if runs := options.pop("runs", ()):
            options[fields(kind)[0].name] = tuple(map(Path, runs))
        return kind(**options)

    @property
    def done(self) -> str:
        """What the command would write, if it is there already; else nothing."""
        if self.makes is not None:
            return str(self.makes) if self.makes.exists() else ""
        return str(self.out) if self.out is not None and already_run(self.command) else ""

    def run(self) -> None:
        """Runs the command in this process.

        Raises:
          ValueError: it failed.
        """
        if self.command is not None:
            self.command.run()
            return
        module = self.step.task if self.step.task == "train.ablations" else f"{self.step.task}.__main__"
        start = self.words.index(self.step.task) + 1
        if status := importlib.import_module(module).main(self.words[start:]):
            raise ValueError(f"it ended with status {status}")


def plan(card: Card, choice: Choice) -> list[Planned]:
    """Returns the commands of a card, in order.

    Raises:
      ValueError: a number of ``steps`` is not that of a command, or no command knows the encoder that is named.
    """
    count = len(card.steps)
    if wrong := [number for number in choice.steps if not 1 <= number <= count]:
        raise ValueError(f"--steps has {wrong[0]}; {card.name} has {count} command{'s' if count > 1 else ''}")
    known = {key: setting.name for step in card.steps for key, setting in step.encoders.items() if setting.name}
    if choice.named and not any(choice.named.casefold() in (key, name.casefold()) for key, name in known.items()):
        raise ValueError(
            f"--as is {choice.named!r}, but the encoders of {card.name} are {', '.join(known.values()) or 'not named'}"
        )
    tasks = [step.task for step in card.steps]
    planned = []
    for number, step in enumerate(card.steps, 1):
        if choice.steps and number not in choice.steps:
            continue
        again = tasks[: number - 1].count(step.task)
        folder = choice.folder(card) / (f"{step.task}-{again + 1}" if again else step.task)
        planned.append(plan_step(step, choice, folder, number))
    return planned


def plan_step(step: Step, choice: Choice, folder: Path, number: int = 1) -> Planned:
    """Returns the command of a step; ``folder`` is that of its results."""
    setting = setting_of(step, choice)
    layers = choice.layers or setting.layers
    known = _names(step)
    options = {
        name: filled(value, str(choice.trained), choice.id_name, layers or (step.layer,))
        for name, value in step.options.items()
    } | dict(step.paper)
    if "encoder" in known and not any("{encoder}" in str(value) for value in step.options.values()):
        options |= {**setting.options, "encoder": choice.encoder}
        if choice.revision is not None:
            options["revision"] = choice.revision
    if layers and ("layers" in known or "layers" in options):
        options["layers"] = tuple(layers)
    if choice.fit_on and "fit_on" in known and options.get("fit_on") != "evaluated":
        options["fit_on"] = choice.fit_on
    if choice.max_length is not None and "max_length" in known:
        options["max_length"] = choice.max_length
    options = _placed(options, step, choice.data)
    out = folder if "out" in known and step.task in TASKS else None
    if out is not None:
        options["out"] = str(out)
        if choice.overwrite and "overwrite" in known:
            options["overwrite"] = True
    makes = Path(_moved(step.makes, choice.data)) if step.makes else None
    return Planned(number, step, options, setting, out, makes)


def setting_of(step: Step, choice: Choice) -> Setting:
    """Returns how the paper used the encoder in a command; the setting of any other encoder if it did not."""
    for key, setting in step.encoders.items():
        preset = PRESETS.get(key)
        if choice.named:
            if choice.named.casefold() in (key, setting.name.casefold()):
                return setting
        elif choice.encoder == key or (preset and preset.id and choice.encoder == preset.id):
            return setting
    return step.encoders.get("", Setting())


def _kind(task: str) -> Any:
    return getattr(importlib.import_module(TASKS[task].module), TASKS[task].kind)


def _names(step: Step) -> set[str]:
    """Returns the names of the options that tell commands apart."""
    if step.task in TASKS:
        return {item.name for item in fields(_kind(step.task))}
    return {"out"} if step.task == "train.word_pairs" else {"out", "encoder"}


def filled(value: Any, trained: str, encoder: str, layers: Sequence[int]) -> Any:
    """Returns a value with the folder of what was trained, the encoder's name and the layers in place."""
    if isinstance(value, tuple):
        items = [filled(item, trained, encoder, layers) for item in value]
        return tuple(part for item in items for part in (item if isinstance(item, tuple) else (item,)))
    if not isinstance(value, str) or "{" not in value.replace("{}", ""):
        return value
    text = value.replace("{trained}", trained).replace("{encoder}", encoder)
    several = tuple(text.replace("{layer}", str(layer)) for layer in layers) if "{layer}" in text else (text,)
    return several if len(several) > 1 else several[0]


def _placed(options: dict[str, Any], step: Step, data: Path) -> dict[str, Any]:
    """Returns the options with ``data/`` replaced by another folder."""
    if data == Path("data"):
        return options
    named = [value for value in options.values() if isinstance(value, str) and value.startswith("data/")]
    moved = {name: _moved(value, data) if isinstance(value, str) else value for name, value in options.items()}
    for key in step.data:
        path = SOURCES[key].path
        # Training names its text; the heads remember theirs.
        if path.startswith("data/") and key != "bitext" and not any(value.startswith(path) for value in named):
            moved[key if step.task == "leakage" else "data"] = str(data / Path(path).name)
    return moved


def _moved(path: str, data: Path) -> str:
    return str(data / path.removeprefix("data/")) if path.startswith("data/") else path
