"""Makes the commands of a card for an encoder: its layers in the paper, the paper's options, and where results go."""

import importlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from eval.__main__ import TASKS
from eval.repro.card import Card, Setting, Step
from eval.repro.sources import SOURCES
from lsar_jax.checkpoints.presets import PRESETS

__all__ = ["Choice", "Planned", "option_of", "parsed", "plan", "setting_of"]


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


class Planned(NamedTuple):
    """A command that is ready to run.

    Attributes:
      number: its number in the card, from 1.
      step: the step of the card.
      words: the words of the command, of which the first is ``python``.
      setting: how the paper used this encoder.
      out: folder of its results; None for commands of ``train``.
      makes: what it makes, if it is not run where that exists.
    """

    number: int
    step: Step
    words: list[str]
    setting: Setting
    out: Path | None
    makes: Path | None = None

    @property
    def line(self) -> str:
        """The command as a user would type it."""
        return shlex.join(self.words)


def plan(card: Card, choice: Choice) -> list[Planned]:
    """Returns the commands of a card, in order.

    Raises:
      ValueError: a number of ``steps`` is not that of a command, or no command knows the encoder that is named.
    """
    count = len(card.steps)
    if wrong := [number for number in choice.steps if not 1 <= number <= count]:
        raise ValueError(f"--steps has {wrong[0]}; {card.name} has {count} command{'s' if count > 1 else ''}")
    known = {key: one.name for step in card.steps for key, one in step.encoders.items() if one.name}
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
    known = _options(step)
    words: list[str] = []
    for word in shlex.split(step.filled(str(choice.trained), choice.id_name)):
        several = [word.replace("{layer}", str(layer)) for layer in layers or (step.layer,)]
        words += several if "{layer}" in word else [word]
    own_encoder = "{encoder}" in step.command
    if own_encoder or "encoder" not in known:
        changes = shlex.split(step.paper)
    else:
        changes = shlex.split(f"{step.paper} {setting.options} --encoder {shlex.quote(choice.encoder)}")
        if choice.revision is not None:
            changes += ["--revision", choice.revision]
    for option, values in _grouped(changes).items():
        words = _with(words, option, values)
    if layers and ("layers" in known or "--layers" in words):
        words = _with(words, "--layers", map(str, layers))
    if choice.fit_on and "fit_on" in known and option_of(words, "--fit-on") != ["evaluated"]:
        words = _with(words, "--fit-on", [choice.fit_on])
    if choice.max_length is not None and "max_length" in known:
        words = _with(words, "--max-length", [str(choice.max_length)])
    words = _placed(words, step, choice.data)
    out = folder if "out" in known and step.task in TASKS else None
    if out is not None:
        words = _with(words, "--out", [str(out)])
        if choice.overwrite and "overwrite" in known:
            words.append("--overwrite")
    makes = Path(_moved(step.makes, choice.data)) if step.makes else None
    return Planned(number, step, words, setting, out, makes)


def setting_of(step: Step, choice: Choice) -> Setting:
    """Returns how the paper used the encoder in a command; the setting of any other encoder if it did not."""
    for key, one in step.encoders.items():
        preset = PRESETS.get(key)
        if choice.named:
            if choice.named.casefold() in (key, one.name.casefold()):
                return one
        elif choice.encoder == key or (preset and preset.id and choice.encoder == preset.id):
            return one
    return step.encoders.get("", Setting())


def parsed(words: Sequence[str]) -> Any:
    """Returns the options of a command ``python -m eval TASK ...``."""
    found = TASKS[words[3]]
    kind = getattr(importlib.import_module(found.module), found.kind)
    return tyro.cli(kind, prog=f"python -m eval {words[3]}", args=list(words[4:]))


def option_of(words: Sequence[str], option: str) -> list[str]:
    """Returns the values of an option in a command; empty if it is not given."""
    return next((values for name, values in _grouped(words).items() if name == option), [])


def _options(step: Step) -> set[str]:
    """Returns the names of the options that tell commands apart."""
    if step.task in TASKS:
        found = TASKS[step.task]
        return {one.name for one in fields(getattr(importlib.import_module(found.module), found.kind))}
    return {"out"} if step.task == "train.word_pairs" else {"out", "encoder"}


def _grouped(words: Sequence[str]) -> dict[str, list[str]]:
    """Returns option -> its values; the last of each counts."""
    groups: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word
            groups[name] = []
        elif name:
            groups[name].append(word)
    return groups


def _with(words: Sequence[str], option: str, values: Any) -> list[str]:
    """Returns the words with the values of an option replaced, or added at the end."""
    words = list(words)
    if option not in words:
        return [*words, option, *values]
    start = words.index(option)
    end = next((n for n in range(start + 1, len(words)) if words[n].startswith("--")), len(words))
    return [*words[: start + 1], *values, *words[end:]]


def _placed(words: list[str], step: Step, data: Path) -> list[str]:
    """Returns the words with ``data/`` replaced by another folder."""
    if data == Path("data"):
        return words
    named = {word for word in words if word.startswith("data/")}
    words = [_moved(word, data) for word in words]
    for key in step.data:
        path = SOURCES[key].path
        # Training names its text; the heads remember theirs.
        if not path.startswith("data/") or key == "bitext" or any(word.startswith(path) for word in named):
            continue
        words = _with(words, f"--{key}" if step.task == "leakage" else "--data", [str(data / Path(path).name)])
    return words


def _moved(path: str, data: Path) -> str:
    return str(data / path.removeprefix("data/")) if path.startswith("data/") else path
