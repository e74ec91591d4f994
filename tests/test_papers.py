"""docs/reference/papers.md names every table and figure of the four papers, with commands that parse."""

import re
from pathlib import Path

import pytest

from tests.commands import parsed
from tests.optional import need

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "papers.md").read_text(encoding="utf-8")
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


def named(cell):
    """The tables and figures that a cell names: Table 1, Tables 8 to 16, Figures 2 and 4."""
    found = set()
    for kind, numbers in re.findall(r"(Table|Figure)s? (\d+(?:(?:, | and | to )\d+)*)", cell):
        for part in re.split(r", | and ", numbers):
            first, _, last = part.partition(" to ")
            found |= {f"{kind} {n}" for n in range(int(first), int(last or first) + 1)}
    return found


@pytest.mark.parametrize("paper", ITEMS)
def test_every_table_and_figure_has_a_row(paper):
    listed = [item for row in rows(paper) for item in sorted(named(row[0]))]
    assert sorted(listed) == sorted(ITEMS[paper])
    for cells in rows(paper):
        assert len(cells) == 4, cells
        assert all(cells), cells
        assert "@" not in "".join(cells), cells
        assert "`python -m" in cells[2], cells


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command):
    need("optax")
    parsed(command)


def test_pictures_are_drawn():
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "eval").rglob("*.py"))
    drawn = {name for paper in ITEMS for cells in rows(paper) for name in re.findall(r"`([\w-]+)\.png`", cells[2])}
    assert len(drawn) > 10
    for name in drawn:
        # Layers, objectives and languages are parts of some names.
        assert f'"{re.split(r"-(?=[0-9]|en-)", name)[0]}' in code, name


def test_numbers_of_rows():
    assert named("Tables 8 to 10, 12 and 14") == {f"Table {n}" for n in (8, 9, 10, 12, 14)}
    assert named("Table 1, Figures 2 and 4") == {"Table 1", "Figure 2", "Figure 4"}
    assert len(COMMANDS) > 20
