"""All cards, by name; to add one, write it in the file of its paper."""

from difflib import get_close_matches

from eval.repro.card import Card, Paper, items_of
from eval.repro.haemmerl import PAPER as HAEMMERL
from eval.repro.ki import PAPER as KI
from eval.repro.wu_dredze import PAPER as WU_DREDZE
from eval.repro.xie import PAPER as XIE

__all__ = ["CARDS", "PAPERS", "find", "paper_of"]

# In the order of the page.
PAPERS = (XIE, KI, WU_DREDZE, HAEMMERL)
CARDS = {card.name: card for paper in PAPERS for card in paper.cards}


def find(name: str) -> Card:
    """Returns the card of a name; xie-table-5 is that of Tables 4 to 7.

    Raises:
      ValueError: there is no such card.
    """
    if name in CARDS:
        return CARDS[name]
    items = {
        f"{paper.prefix}-{item.lower().replace(' ', '-')}": card
        for paper in PAPERS
        for card in paper.cards
        for item in items_of(card.items)
    }
    if name in items:
        return items[name]
    near = get_close_matches(name.lower(), list(items), 3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"there is no card {name!r}; {hint}python -m eval repro --list lists all")


def paper_of(card: Card) -> Paper:
    """Returns the paper of a card."""
    return next(paper for paper in PAPERS if card in paper.cards)
