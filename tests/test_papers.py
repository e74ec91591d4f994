"""docs/reference/papers.md names every table and figure of the four papers, and is what the cards say."""

import re
from pathlib import Path

import pytest

from eval.papers.card import CARDS, PAPERS, items_of
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
    "Ki et al. 2024": {
        *(f"Table {n}" for n in (2, 3, 4, 8, 9, 10, 11)),
        *(f"Figure {n}" for n in range(3, 17)),
    },
    "Wu and Dredze 2020": {f"Table {n}" for n in (1, 3, 4)},
    "Hämmerl et al. 2023": {*(f"Table {n}" for n in range(1, 6)), *(f"Figure {n}" for n in range(1, 5))},
}
COMMANDS = sorted(set(re.findall(r"`(python -m [^`]+)`", PAGE)))


def rows(paper):
    """The rows of a paper's table: the cells of each."""
    section = PAGE.split(f"## {paper}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


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
        assert "@" not in "".join(cells), cells
        assert "{" not in cells[2].replace("wiki40b/{}", ""), cells
        assert "`python -m" in cells[2], cells
        assert re.search(r"`([\w-]+)`", cells[0])[1] in CARDS, cells


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command):
    need("optax")
    parsed(command)


def test_pictures_are_drawn():
    files = [path for path in (ROOT / "eval").rglob("*.py") if "papers" not in path.relative_to(ROOT).parts]
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    drawn = {name for paper in ITEMS for cells in rows(paper) for name in re.findall(r"`([\w-]+)\.png`", cells[2])}
    assert len(drawn) > 10
    for name in drawn:
        # Layers, objectives and languages are parts of some names.
        assert f'"{re.split(r"-(?=[0-9]|en-)", name)[0]}' in code, name


def test_names_of_cards_say_what_they_show():
    assert len(CARDS) == sum(len(paper.cards) for paper in PAPERS)
    for paper in PAPERS:
        for card in paper.cards:
            numbers = re.findall(r"\d+", card.items)
            kind = card.items.split()[0].lower()
            assert card.name == f"{paper.prefix}-{kind}-{'-'.join(numbers)}"


def test_every_published_table_has_a_card():
    of_cards = {(paper.name, table) for paper in PAPERS for card in paper.cards for table in card.tables}
    assert of_cards == {(one.paper, one.table) for one in PUBLISHED}


def test_encoders_of_cards_have_the_names_of_published_numbers():
    for paper in PAPERS:
        for card in paper.cards:
            published = {one.encoder for one in PUBLISHED if one.paper == paper.name and one.table in card.tables}
            known = {one.name for step in card.steps for one in step.encoders.values()}
            assert not card.tables or paper.name.startswith("Ki ") or published <= known, card.name


@pytest.mark.parametrize("key", ["tatoeba", "xquad-r", "sts17", "bucc", "amazon"])
def test_evaluation_page_says_the_same_of_data(key):
    source = SOURCES[key]
    assert f"`{source.path}`: {source.where}" in EVALUATION
