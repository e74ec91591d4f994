"""Coverage: of each table and figure of the papers, what runs it, what it gave here, and what the paper's run needs."""

import re
import textwrap
from collections import Counter
from dataclasses import dataclass

from eval.papers.card import PAPERS, Card, CardStep, Paper
from eval.papers.published import PROTOCOLS, PUBLISHED, TABLES, Published, items_of
from eval.papers.sources import SOURCES, DataSource

__all__ = ["Item", "coverage"]


@dataclass(frozen=True)
class Item:
    """A table or figure.

    Attributes:
      paper, name: as in published.csv.
      numbers: its numbers in published.csv.
      card: what runs it; None if nothing does.
      reason: why nothing does.
    """

    paper: str
    name: str
    numbers: tuple[Published, ...]
    card: Card | None
    reason: str

    @property
    def count(self) -> str:
        """How many numbers there are, how many can stand beside ours, and whether these are judged."""
        comparable = [number for number in self.numbers if not number.other]
        judged = not any(number.quantity.unlike for number in comparable)
        return f"{len(self.numbers)} numbers, {len(comparable)} comparable{'' if judged else ' but not judged'}"

    @property
    def others(self) -> Counter[str]:
        """Why numbers cannot stand beside ours, or are not judged, and how many."""
        return Counter(why for number in self.numbers if (why := number.other or number.quantity.unlike))

    @property
    def here(self) -> str:
        """The first sentence of what the commands gave here, or of why they were not run, cut to a line."""
        if self.card is None:
            return f"Not run: {self.reason}"
        # Without links and backquotes, which a cut may leave open.
        first = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", re.split(r"\. (?=[A-Z])", self.card.here)[0]).replace("`", "")
        return textwrap.shorten(first, 160, placeholder=" ...")

    @property
    def steps(self) -> tuple[CardStep, ...]:
        """The commands, those that train before the others."""
        return (*self.card.trained_by, *self.card.steps) if self.card else ()

    @property
    def weights(self) -> list[str]:
        """The encoders of the table or, if its numbers name none, of the paper."""
        known = dict.fromkeys(setting.name for step in self.steps for setting in step.encoders.values() if setting.name)
        measured = {number.encoder for number in self.numbers}
        return [name for name in known if name in measured or not measured & {*known}]

    @property
    def data(self) -> list[DataSource]:
        """The data of the paper, and its text to fit on."""
        texts = [{**step.options, **step.paper}.get("fit_on") for step in self.steps]
        keys = [key for step in self.steps for key in step.data]
        keys += [key for key, source in SOURCES.items() if source.path and source.path in texts]
        return [SOURCES[key] for key in dict.fromkeys(keys)]


def coverage() -> list[Item]:
    """Lists every table and figure, in the order of the page: by paper and number, tables first."""
    return [_item(paper, name) for paper in PAPERS for name in _names(paper)]


def _names(paper: Paper) -> list[str]:
    names = {item for text in (*paper.not_run, *(card.items for card in paper.cards)) for item in items_of(text)}
    names |= {table for of, table in TABLES if of == paper.name}
    return sorted(names, key=lambda name: (name.split()[0] == "Figure", int(name.split()[1])))


def _item(paper: Paper, name: str) -> Item:
    numbers = tuple(n for n in PUBLISHED if n.paper == paper.name and name in items_of(n.table))
    card = next((card for card in paper.cards if name in items_of(card.items)), None)
    reasons = [reason for items, reason in paper.not_run.items() if name in items_of(items)]
    return Item(paper.name, name, numbers, card, reasons[0] if reasons else PROTOCOLS.get((paper.name, name), ""))
