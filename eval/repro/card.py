"""What a card holds: the commands of a table or figure, their data, and the encoders that the paper measured."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Card", "Paper", "Setting", "Step", "items_of"]


@dataclass(frozen=True)
class Setting:
    """How a paper used an encoder.

    Attributes:
      name: the paper's name for it, as in ``eval/report/published.py``; empty if the paper did not measure it.
      layers: the layers to measure. If there is one, the published numbers are of this layer; if there are several, it
        is not known which.
      options: options that the command takes with this encoder, in place of its own.
    """

    name: str = ""
    layers: tuple[int, ...] = ()
    options: str = ""


@dataclass(frozen=True)
class Step:
    """One command of a card.

    Attributes:
      command: the command as a user would type it. ``{layer}`` stands for a layer, and a word with it is repeated for
        each; ``{trained}`` for the folder of what was trained on the encoder; ``{encoder}`` for the encoder's name.
      data: the data that it reads, as keys of ``SOURCES``.
      paper: options of the paper that ``python -m eval repro`` adds; what stands under *Here* was run without them.
      fit_languages: languages that the text to fit on must have, if it is a folder or a prepared dataset.
      encoders: preset -> how the paper used it in this command; ``bundled`` may have options of its own.
      layer: what ``{layer}`` stands for, unless a layer is chosen.
      metrics: regular expressions of the metrics that the table or figure shows.
      figures: pictures that it draws.
      makes: a file or folder that the command writes; if it exists, the command is not run.
      extras: extras of the package that it needs besides those of its kind.
      note: what the page says after the command.
    """

    command: str
    data: tuple[str, ...] = ()
    paper: str = ""
    fit_languages: tuple[str, ...] = ()
    encoders: Mapping[str, Setting] = field(default_factory=dict)
    layer: int = 8
    metrics: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    makes: str = ""
    extras: tuple[str, ...] = ()
    note: str = ""

    @property
    def shown(self) -> str:
        """The command as the page shows it, for the bundled encoder."""
        return self.filled("results", "bundled").replace("{layer}", str(self.layer))

    def filled(self, trained: str, encoder: str) -> str:
        """Returns the command with the folder of what was trained and the encoder's name in place."""
        return self.command.replace("{trained}", trained).replace("{encoder}", encoder)

    @property
    def task(self) -> str:
        """The task of ``python -m eval``; for other commands, the module."""
        words = self.command.split()
        return words[3] if words[2] == "eval" else words[2]


@dataclass(frozen=True)
class Card:
    """One or more tables or figures of a paper.

    Attributes:
      name: what the user types, such as xie-table-1.
      items: the tables or figures, such as Tables 4 to 7.
      shows: what they show.
      steps: the commands, in order.
      here: what they gave with the bundled encoder.
      certainty: whether it is known that the table has this number.
      tables: names of the tables whose numbers ``eval/report/published.py`` has.
      heads: commands that train what the steps read, if no step trains it; they are not run with the card.
    """

    name: str
    items: str
    shows: str
    steps: tuple[Step, ...]
    here: str
    certainty: Literal["certain", "probably", "uncertain"] = "certain"
    tables: tuple[str, ...] = ()
    heads: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Paper:
    """The cards of a paper.

    Attributes:
      name: name of the paper, as in ``eval/report/published.py``.
      prefix: what the names of its cards begin with.
      about: what the page says before its table.
      cards: its cards, in the order of the page.
      after: what the page says after its table, such as a picture.
    """

    name: str
    prefix: str
    about: str
    cards: tuple[Card, ...]
    after: str = ""


def items_of(text: str) -> list[str]:
    """Returns the tables and figures that a text names: Table 1, Tables 8 to 16, Figures 2 and 4."""
    found = []
    for kind, numbers in re.findall(r"(Table|Figure)s? (\d+(?:(?:, | and | to )\d+)*)", text):
        for part in re.split(r", | and ", numbers):
            first, _, last = part.partition(" to ")
            found += [f"{kind} {n}" for n in range(int(first), int(last or first) + 1)]
    return found
