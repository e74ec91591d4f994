"""Console output of training and evaluations."""

import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, cast

from rich.console import Console
from rich.table import Table

__all__ = ["console", "decomposed_note", "print_table"]


class _Output:
    """The current standard output: while a bar is shown, the bar's, which a console would pass by."""

    @property
    def rich_proxied_file(self) -> "_Output":
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


# Names of files and languages may have brackets and colons, which are not markup.
console = Console(file=cast(IO[str], _Output()), width=110, highlight=False, soft_wrap=True, markup=False, emoji=False)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> None:
    """Prints a table, with numbers rounded to one decimal."""
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:.1f}" for cell in row))
    console.print(table)


def decomposed_note(count: int) -> str:
    """Returns the end of a line on sentences of which ``count`` are not in NFC; empty if all are."""
    return f"; {count:,} not in Unicode's composed form (NFC)" if count else ""
