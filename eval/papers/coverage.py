"""Every table and figure of the papers: its numbers, what runs it and what it gave here, or why nothing runs it."""

import re
import textwrap

from eval.papers.card import PAPERS, Card
from eval.papers.published import PROTOCOLS, PUBLISHED, items_of
from eval.papers.sources import SOURCES

__all__ = ["coverage"]


def coverage() -> dict[tuple[str, str], str]:
    """Returns the line of each table and figure, by paper and name, by number with tables first."""
    lines = {}
    for paper in PAPERS:
        cards = {item: card for card in paper.cards for item in items_of(card.items)}
        reasons = {table: protocol for (of, table), protocol in PROTOCOLS.items() if of == paper.name}
        reasons |= {item: reason for items, reason in paper.not_run.items() for item in items_of(items)}
        for name in sorted({**reasons, **cards}, key=lambda name: (name.startswith("Figure"), int(name.split()[1]))):
            numbers = [n for n in PUBLISHED if n.paper == paper.name and name in items_of(n.table)]
            comparable = [number for number in numbers if not number.other]
            judged = " but not judged" if any(number.quantity.unlike for number in comparable) else ""
            counts = f"{len(numbers)} numbers, {len(comparable)} comparable{judged}"
            what = _run(cards[name]) if name in cards else f"not run here: {reasons[name]}"
            lines[paper.name, name] = f"{paper.name}, {name}: {counts}; {what}"
    return lines


def _run(card: Card) -> str:
    """The tasks, data and encoders of a card, and what it gave here, cut to a line."""
    steps = (*card.trained_by, *card.steps)
    tasks = ", ".join(dict.fromkeys(step.task for step in steps))
    data = ", ".join(dict.fromkeys(SOURCES[key].name for step in steps for key in step.data))
    encoders = ", ".join(dict.fromkeys(s.name for step in steps for s in step.encoders.values() if s.name))
    # Without links and backquotes, which a cut may leave open.
    here = textwrap.shorten(re.sub(r"\[(.*?)\]\(.*?\)|`", r"\1", card.here), 160, placeholder=" ...")
    return "; ".join(filter(None, (f"{card.name} runs {tasks} on {data}", encoders, f"here: {here}")))
