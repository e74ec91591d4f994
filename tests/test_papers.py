"""docs/reference/papers.md names every table and figure of the four papers, and is what the cards say."""

import re
from pathlib import Path

import pytest

from eval.papers.card import CARDS, PAPERS
from eval.papers.page import papers_page
from eval.papers.published import PUBLISHED
from eval.papers.sources import SOURCES
from tests.commands import parsed
from tests.optional import need

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "papers.md").read_text(encoding="utf-8")
EVALUATION = (ROOT / "docs" / "reference" / "evaluation.md").read_text(encoding="utf-8")
# The tables and figures with results, by paper.
ITEMS = {
    "Xie et al. 2022": {*(f"Table {n}" for n in range(1, 21)), *(f"Figure {n}" for n in range(2, 8))},
    "Ki et al. 2024": {*(f"Table {n}" for n in (2, 3, 4, 8, 9, 10, 11)), *(f"Figure {n}" for n in range(3, 17))},
    "Wu and Dredze 2020": {f"Table {n}" for n in (1, 3, 4)},
    "Hämmerl et al. 2023": {*(f"Table {n}" for n in range(1, 6)), *(f"Figure {n}" for n in range(1, 5))},
}


def rows(paper):
    """The rows of a paper's table: the cells of each."""
    section = PAGE.split(f"## {paper}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def items_of(text):
    """The tables and figures that a text names: Table 1, Tables 8 to 16, Figures 2 and 4."""
    items = []
    for kind, numbers in re.findall(r"(Table|Figure)s? (\d+(?:(?:, | and | to )\d+)*)", text):
        for part in re.split(r", | and ", numbers):
            first, _, last = part.partition(" to ")
            items += [f"{kind} {n}" for n in range(int(first), int(last or first) + 1)]
    return items


def test_the_page_is_what_the_cards_say():
    same = papers_page(PAGE) == PAGE
    assert same, "write it anew: python -m eval repro --page docs/reference/papers.md"


@pytest.mark.parametrize("paper", ITEMS)
def test_every_table_and_figure_has_a_row(paper):
    listed = [item for row in rows(paper) for item in items_of(row[0])]
    assert len(listed) == len(set(listed))
    assert set(listed) == ITEMS[paper]
    for cells in rows(paper):
        assert len(cells) == 4, cells
        assert all(cells), cells
        assert "{" not in cells[2].replace("wiki40b/{}", ""), cells
        assert "`python -m" in cells[2], cells


def test_commands_parse():
    need("optax")
    for command in set(re.findall(r"`(python -m [^`]+)`", PAGE)):
        parsed(command)


def test_cards_have_the_names_of_their_tables_and_of_published_encoders():
    assert len(CARDS) == sum(len(paper.cards) for paper in PAPERS)
    for card in CARDS.values():
        kind, numbers = card.items.split()[0].lower(), re.findall(r"\d+", card.items)
        assert card.name.endswith(f"-{kind}-{'-'.join(numbers)}")
        published = {
            number.encoder for number in PUBLISHED if number.paper == card.paper and number.table in card.tables
        }
        known = {setting.name for step in card.steps for setting in step.encoders.values()}
        assert not card.tables or card.paper.startswith("Ki ") or published <= known, card.name
    of_cards = {(card.paper, table) for card in CARDS.values() for table in card.tables}
    assert of_cards == {(number.paper, number.table) for number in PUBLISHED}


def test_evaluation_page_says_the_same_of_data():
    for key in ("tatoeba", "xquad-r", "sts17", "bucc", "amazon"):
        assert f"`{SOURCES[key].path}`: {SOURCES[key].where}" in EVALUATION
