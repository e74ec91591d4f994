"""Completes the commands of a card for an encoder: its layers in the paper, the paper's options, where results go."""

import importlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import tyro

from eval.__main__ import TASKS
from eval.papers.card import Card, CardStep, PaperSetting, command_line
from lsar_jax.checkpoints.locate import is_folder
from lsar_jax.checkpoints.presets import PRESETS
from lsar_jax.checks import check_choice, whole_number
from lsar_jax.measures.run_record import already_run

__all__ = ["CardOptions", "Planned", "plan", "plan_step"]


@dataclass(frozen=True)
class CardOptions:
    """The encoder that a card is run with, and what replaces the paper's options.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      named: the paper's encoder that a folder is a copy of, such as mbert.
      layers: layers to measure; by default, the paper's for this encoder.
      fit_on: text to fit transforms on; by default, the paper's.
      max_length: maximum number of tokens per sentence; by default, the paper's.
      steps: numbers of the commands to run, from 1; by default, all.
      out: folder for the results, with a subfolder for each card and encoder.
      overwrite: replace results that are from other options.
    """

    encoder: str = "bundled"
    named: Annotated[str, tyro.conf.arg(name="as")] = ""
    layers: tuple[int, ...] = ()
    fit_on: str = ""
    max_length: int | None = None
    steps: tuple[int, ...] = ()
    out: Path = Path("results/repro")
    overwrite: bool = False

    def short_name(self) -> str:
        """The encoder's name in the names of folders."""
        return Path(self.encoder).resolve().name if is_folder(self.encoder) else self.encoder.replace("/", "-")

    def folder(self, card: Card) -> Path:
        """The folder of a card's results."""
        return self.out / card.name / self.short_name()

    def filled(self, value: Any, layers: Sequence[int]) -> Any:
        """Puts the folder of what was trained, the encoder's name and the layers into a value of an option."""
        if isinstance(value, tuple):
            items = [self.filled(item, layers) for item in value]
            return tuple(part for item in items for part in (item if isinstance(item, tuple) else (item,)))
        if not isinstance(value, str) or "{" not in value.replace("{}", ""):
            return value
        # What was trained on the bundled encoder is where the pages put it.
        trained = "results" if self.encoder == "bundled" else f"results/{self.short_name()}"
        preset = None if is_folder(self.encoder) else PRESETS.get(self.encoder)
        # The last part of its id, which train.align names its folder after.
        name = (preset.id if preset and preset.id else Path(self.encoder).resolve().name).rpartition("/")[2]
        text = value.replace("{trained}", trained).replace("{encoder}", name)
        several = tuple(text.replace("{layer}", str(layer)) for layer in layers) if "{layer}" in text else (text,)
        return several if len(several) > 1 else several[0]

    def setting(self, step: CardStep) -> PaperSetting:
        """How the paper used the encoder in a command; the setting of any other encoder if it did not."""
        for key, setting in step.encoders.items():
            preset = PRESETS.get(key)
            if self.named:
                if self.named.casefold() in (key, setting.name.casefold()):
                    return setting
            elif self.encoder in (key, preset and preset.id):
                return setting
        return step.encoders.get("", PaperSetting())


@dataclass(frozen=True)
class Planned:
    """A command that is ready to run."""

    number: int  # in the card, from 1
    step: CardStep
    options: dict[str, Any]
    setting: PaperSetting  # how the paper used this encoder
    out: Path | None  # folder of its results; None for commands of train

    @property
    def line(self) -> str:
        """The command as a user would type it."""
        return shlex.join(command_line(self.step.task, self.options))

    @cached_property
    def command(self) -> Any:
        """The command of ``python -m eval`` with these options; None for one of ``train``."""
        if self.step.task not in TASKS:
            return None
        kind = TASKS[self.step.task].options()
        paths = {item.name for item in fields(kind) if item.type in (Path, Path | None)}
        options: dict[str, Any] = {key: Path(value) if key in paths else value for key, value in self.options.items()}
        if runs := options.pop("runs", ()):
            options[fields(kind)[0].name] = tuple(map(Path, runs))
        return kind(**options)

    @property
    def done(self) -> str:
        """The results of the command if they are there already; else an empty text."""
        if self.step.makes:
            return self.step.makes if Path(self.step.makes).exists() else ""
        if self.out is None or self.options.get("overwrite"):
            return ""
        return str(self.out) if already_run(self.command) else ""

    def run(self) -> None:
        """Runs the command in this process; raises ValueError if it fails."""
        if self.command is not None:
            self.command.run()
        elif status := train_module(self.step.task).main(command_line("", self.options)[4:]):
            raise ValueError(f"it ended with status {status}")


def train_module(task: str) -> Any:
    """Imports the module of a command of ``train``."""
    return importlib.import_module(task if task == "train.ablations" else f"{task}.__main__")


def plan(card: Card, choice: CardOptions) -> list[Planned]:
    """Completes the commands of a card that the paper has for the encoder, or for its first if it lacks this one.

    Raises:
      ValueError: the card lacks a chosen step, or the encoder that is named.
    """
    for number in choice.steps:
        whole_number("--steps", number, 1, len(card.steps), f"the commands of {card.name}")
    settings = [entry for step in card.steps for entry in step.encoders.items() if entry[1].name]
    if choice.named:
        known = dict.fromkeys(name.casefold() for key, setting in settings for name in (key, setting.name))
        check_choice("--as", choice.named.casefold(), known)
    names = [name for step in card.steps if (name := choice.setting(step).name)]
    name = (names or [setting.name for _, setting in settings] or [""])[0]
    planned = []
    for number, step in enumerate(card.steps, 1):
        again = [earlier.task for earlier in card.steps[:number]].count(step.task)
        folder = choice.folder(card) / (f"{step.task}-{again}" if again > 1 else step.task)
        of_encoder = not step.encoders or name in {setting.name for setting in step.encoders.values()}
        if number in choice.steps or (of_encoder and not choice.steps):
            planned.append(plan_step(step, choice, folder, number))
    return planned


def plan_step(step: CardStep, choice: CardOptions, folder: Path, number: int = 1) -> Planned:
    """Completes the command of a step, whose results go to ``folder``."""
    setting, known = choice.setting(step), _options(step.task)
    layers = choice.layers or setting.layers
    options = {name: choice.filled(value, layers or (step.layer,)) for name, value in step.options.items()}
    options |= step.paper
    if "encoder" in known and not any("{encoder}" in str(value) for value in step.options.values()):
        options |= {**setting.options, "encoder": choice.encoder}
    fit_on = "" if options.get("fit_on") == "evaluated" else choice.fit_on
    replaced = {"layers": layers, "fit_on": fit_on, "max_length": choice.max_length}
    options |= {name: value for name, value in replaced.items() if value and (name in known or name in options)}
    out = folder if "out" in known and step.task in TASKS else None
    if out is not None:
        options["out"] = str(out)
        if choice.overwrite and "overwrite" in known:
            options["overwrite"] = True
    return Planned(number, step, options, setting, out)


def _options(task: str) -> set[str]:
    """The names of the options that tell commands apart."""
    if task in TASKS:
        return {item.name for item in fields(TASKS[task].options())}
    return {"out"} if task == "train.word_pairs" else {"out", "encoder"}
