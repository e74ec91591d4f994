"""Cards: the commands of a table or figure, their data, and the encoders that the paper measured.

A card is read from ``cards/PAPER.toml``. Its commands are values, which ``eval.papers.plan`` completes for an encoder.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

__all__ = ["CARDS", "PAPERS", "Card", "CardStep", "Paper", "PaperSetting", "command_line", "read_toml"]

Options = Mapping[str, Any]


@dataclass(frozen=True)
class PaperSetting:
    """How a paper used an encoder."""

    name: str = ""  # the paper's name for it, as in published.csv; empty if the paper did not measure it
    layers: tuple[int, ...] = ()  # of several, the numbers in published.csv say of which one they are
    options: Options = field(default_factory=dict)  # what the command takes with this encoder, in place of its own


@dataclass(frozen=True)
class CardStep:
    """One command of a card.

    In the values of ``options``, ``{layer}`` stands for a layer, and a text with it is repeated for each; ``{trained}``
    for the folder of what was trained on the encoder; ``{encoder}`` for the encoder's name.
    """

    task: str  # of python -m eval, or a module such as train.align
    options: Options = field(default_factory=dict)
    data: tuple[str, ...] = ()  # keys of SOURCES
    paper: Options = field(default_factory=dict)  # options that repro adds; what stands under *Here* lacks them
    encoders: Mapping[str, PaperSetting] = field(default_factory=dict)  # preset -> how the paper used it
    layer: int = 8  # what {layer} stands for, unless a layer is chosen
    metrics: tuple[str, ...] = ()  # patterns of the metrics that the table or figure shows
    figures: tuple[str, ...] = ()
    makes: str = ""  # a file or folder that the command writes; if it exists, the command is not run
    on_page: bool = True  # False for all but the first of the steps that ``each`` makes


@dataclass(frozen=True)
class Card:
    """One or more tables or figures of a paper."""

    paper: str  # as in published.csv
    name: str  # what the user types, such as xie-table-1
    state: str  # right, or by the code if the text says another thing; deviates because ...; missing because ...
    items: str  # such as Tables 4 to 7
    shows: str
    steps: tuple[CardStep, ...]
    here: str  # what the steps gave with the bundled encoder
    verdict: str  # how that compares with the paper
    published: tuple[str, ...] = ()  # the numbers that the page shows: encoder, metric, and each method
    trained_by: tuple[CardStep, ...] = ()  # train what the steps read, if no step does; not run with the card


@dataclass(frozen=True)
class Paper:
    """The cards of a paper, and what the page says before and after their table."""

    name: str
    about: str
    cards: tuple[Card, ...]
    after: str = ""
    not_run: Mapping[str, str] = field(default_factory=dict)  # tables and figures -> why no card runs them


def _read(path: Path) -> Paper:
    content = read_toml(path)
    encoders = {
        name: {key: PaperSetting(**fields) for key, fields in settings.items()}
        for name, settings in content.pop("encoders").items()
    }

    options = content.pop("options", {})

    def step(fields: dict[str, Any]) -> CardStep:
        return CardStep(**{**fields, "encoders": encoders.get(fields.get("encoders", ""), {})})

    def steps(fields: dict[str, Any]) -> tuple[CardStep, ...]:
        """The step, or one for each combination of the values in ``each``, which fill its ``{names}``."""
        made: list[CardStep] = []
        for values in product(*(each := fields.pop("each", {})).values()):
            names = dict(zip(each, values, strict=True))  # other names in braces stay
            put = partial(re.sub, r"\{(\w+)\}", lambda found, names=names: names.get(found[1], found[0]))
            filled = _each_text(fields, put)
            for name in filled.pop("with", ()):
                filled["options"] = {**options.get(name, {}), **filled.get("options", {})}
            made.append(step({"on_page": not made, **filled}))
        return tuple(made)

    trainings = {name: step(fields) for name, fields in content.pop("trainings", {}).items()}
    cards = []
    for fields in content.pop("cards"):
        trained_by = tuple(trainings[name] for name in fields.pop("trained_by", ()))
        of_steps = [(trainings[of["training"]],) if "training" in of else steps(of) for of in fields.pop("steps")]
        cards.append(Card(content["name"], **fields, steps=tuple(chain(*of_steps)), trained_by=trained_by))
    return Paper(**content, cards=tuple(cards))


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file, with tuples for lists."""
    content: dict[str, Any] = _each_text(tomllib.loads(path.read_text(encoding="utf-8-sig")), str)
    return content


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Changes all texts in a value, and makes its lists tuples."""
    if isinstance(value, dict):
        return {key: _each_text(part, change) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_each_text(part, change) for part in value)
    return change(value) if isinstance(value, str) else value


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
