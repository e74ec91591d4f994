"""Tables of the report: cells, and their Markdown."""

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lsar_jax.measures.resampling import Interval

__all__ = ["Cell", "Table", "difference_cell", "number", "plain"]


class Cell(NamedTuple):
    """A cell of a table; the note is set in smaller type."""

    text: str
    bold: bool = False
    note: str = ""

    def markdown(self) -> str:
        """Returns the cell as Markdown."""
        text = f"**{plain(self.text)}**" if self.bold else plain(self.text)
        return f"{text} <sub>{plain(self.note)}</sub>" if self.note else text


class Table(NamedTuple):
    """A table; the first cell of a row is its header."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        """Returns the table as Markdown; all columns but the first are aligned to the right."""
        lines: list[Iterable[str]] = [map(plain, self.columns), ["---", *["---:"] * (len(self.columns) - 1)]]
        lines += [(cell.markdown() for cell in row) for row in self.rows]
        return f"### {plain(self.title)}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def difference_cell(difference: Interval, *, higher_is_better: bool = True) -> Cell:
    """Returns the cell of a difference and its interval; bold if it is significantly better."""
    mark = {1: " ▲", -1: " ▼", 0: ""}[difference.sign]
    note = f"{difference.low:+.1f} to {difference.high:+.1f}" if difference.known else ""
    return Cell(f"{difference.value + 0.0:+.1f}{mark}", higher_is_better and difference.sign > 0, note)


def number(value: float, unit: str) -> str:
    """Formats percentages with one decimal; cosines, shares and correlations with three."""
    return f"{value:.1f}" if unit == "%" else f"{value:.3f}"


def plain(text: str) -> str:
    """Returns text as it stands in a line or a cell of Markdown."""
    return html.escape(text, quote=False).replace("|", "&#124;")
