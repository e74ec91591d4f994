"""Cards: the commands of a table or figure, their data, and the encoders that the paper measured.

A card is read from ``cards/PAPER.toml``. Its commands are values, which ``eval.papers.plan`` completes for an encoder.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["CARDS", "PAPERS", "Card", "Paper", "Setting", "Step", "command_line", "read_toml"]

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """How a paper used an encoder.

    Attributes:
      name: the paper's name for it, as in ``published.csv``; empty if the paper did not measure it.
      layers: the layers to measure. If there is one, the published numbers are of this layer; if there are several, it
        is not known which.
      options: options that the command takes with this encoder, in place of its own.
    """

    name: str = ""
    layers: tuple[int, ...] = ()
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One command of a card.

    Attributes:
      task: a task of ``python -m eval``, or a module such as ``train.align``.
      options: option -> its values. In them, ``{layer}`` stands for a layer, and a text with it is repeated for each;
        ``{trained}`` for the folder of what was trained on the encoder; ``{encoder}`` for the encoder's name.
      data: the data that it reads, as keys of ``SOURCES``.
      paper: options of the paper that ``python -m eval repro`` adds; what stands under *Here* was run without them.
      encoders: preset -> how the paper used it in this command; ``bundled`` may have options of its own.
      layer: what ``{layer}`` stands for, unless a layer is chosen.
      metrics: regular expressions of the metrics that the table or figure shows.
      figures: pictures that it draws.
      makes: a file or folder that the command writes; if it exists, the command is not run.
      note: what the page says after the command.
    """

    task: str
    options: Options = field(default_factory=dict)
    data: tuple[str, ...] = ()
    paper: Options = field(default_factory=dict)
    encoders: Mapping[str, Setting] = field(default_factory=dict)
    layer: int = 8
    metrics: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    makes: str = ""
    note: str = ""


@dataclass(frozen=True)
class Card:
    """One or more tables or figures of a paper.

    Attributes:
      paper: name of the paper, as in ``published.csv``.
      name: what the user types, such as xie-table-1.
      items: the tables or figures, such as Tables 4 to 7.
      shows: what they show.
      steps: the commands, in order.
      here: what they gave with the bundled encoder.
      certainty: whether it is known that the table has this number.
      tables: names of the tables whose numbers ``published.csv`` has.
      trained_by: commands that train what the steps read, if no step trains it; they are not run with the card.
    """

    paper: str
    name: str
    items: str
    shows: str
    steps: tuple[Step, ...]
    here: str
    certainty: Literal["certain", "probably", "uncertain"] = "certain"
    tables: tuple[str, ...] = ()
    trained_by: tuple[Step, ...] = ()

    @property
    def sure(self) -> str:
        """Its certainty in brackets, unless it is certain."""
        return "" if self.certainty == "certain" else f" ({self.certainty})"


@dataclass(frozen=True)
class Paper:
    """The cards of a paper.

    Attributes:
      name: name of the paper.
      about: what the page says before its table.
      cards: its cards, in the order of the page.
      after: what the page says after its table, such as a picture.
    """

    name: str
    about: str
    cards: tuple[Card, ...]
    after: str = ""


def _read(path: Path) -> Paper:
    content = read_toml(path)
    encoders = {
        name: {key: Setting(**fields) for key, fields in settings.items()}
        for name, settings in content.pop("encoders").items()
    }

    def step(fields: dict[str, Any]) -> Step:
        return Step(**{**fields, "encoders": encoders.get(fields.get("encoders", ""), {})})

    trainings = {name: step(fields) for name, fields in content.pop("trainings", {}).items()}
    cards = []
    for fields in content.pop("cards"):
        trained_by = tuple(trainings[name] for name in fields.pop("trained_by", ()))
        steps = tuple(map(step, fields.pop("steps")))
        cards.append(Card(content["name"], **fields, steps=steps, trained_by=trained_by))
    return Paper(**content, cards=tuple(cards))


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file, with tuples for lists."""
    content: dict[str, Any] = _tuples(tomllib.loads(path.read_text(encoding="utf-8")))
    return content


def _tuples(value: Any) -> Any:
    """The value with tuples for lists."""
    if isinstance(value, dict):
        return {name: _tuples(part) for name, part in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# In the order of the page.
PAPERS = tuple(
    _read(Path(__file__).parent / "cards" / f"{name}.toml") for name in ("xie", "ki", "wu-dredze", "haemmerl")
)
CARDS = {card.name: card for paper in PAPERS for card in paper.cards}


def command_line(task: str, options: Options) -> list[str]:
    """The words of a command; ``runs`` are its arguments without a name."""
    words = ["python", "-m", "eval", task] if "." not in task else ["python", "-m", task]
    words += map(str, options.get("runs", ()))
    for name, value in options.items():
        if name != "runs":
            words.append(f"--{name.replace('_', '-')}")
            words += () if value is True else map(str, value if isinstance(value, tuple) else [value])
    return words
