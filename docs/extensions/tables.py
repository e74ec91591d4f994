"""Writes the tables of the pages from ``docs/results``: ``python docs/extensions/tables.py``, ``--check`` to compare.

A table stands between two marks. The first names the file, from the page's folder, and chooses rows and columns:

    <!-- table: ../results/measurements.jsonl
    study: Tatoeba, fitted on itself
    columns: method; accuracy = layer 12
    method: original; LSAR, rank 36
    -->
    <!-- end -->

``columns`` lists fields, each under its own name or as ``heading = field``. Every other line lists the values of a
field that a row may have; ``above`` stands for what the line has in the table before. Rows stay in the order of the
file, and numbers as they are printed there.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["pages", "with_tables"]

_DOCS = Path(__file__).parents[1]
_MARKED = re.compile(r"(<!-- table: (\S+)\n(.*?)-->\n)(.*?)(<!-- end -->)", re.S)


def pages() -> list[Path]:
    """Returns the pages that may have tables."""
    return sorted(_DOCS.glob("*/**/*.md"))


def with_tables(page: Path) -> str:
    """Returns the text of a page with its tables as the files have them; raises ValueError for a mark without rows."""
    above: dict[str, str] = {}

    def written(mark: re.Match[str]) -> str:
        lines = dict(line.split(": ", 1) for line in mark[3].splitlines())
        above.update({name: values for name, values in lines.items() if values != "above"})
        return mark[1] + _table(page.parent / mark[2], {name: above[name] for name in lines}) + mark[5]

    return _MARKED.sub(written, page.read_text("utf-8"))


def _table(path: Path, choice: dict[str, str]) -> str:
    chosen = {name: values.split("; ") for name, values in choice.items()}
    columns = [heading_and_field.partition(" = ") for heading_and_field in chosen.pop("columns")]
    # Numbers stay text, so that 58.0 is not printed as 58.
    lines = [json.loads(line, parse_float=str, parse_int=str) for line in path.read_text("utf-8").splitlines()]
    lines = [line for line in lines if all(_cell(line.get(name, "")) in values for name, values in chosen.items())]
    rows = [[_cell(line.get(field or heading, "")) for heading, _, field in columns] for line in lines]
    by_column = list(zip(*rows, strict=True))
    found = all({*values} <= {_cell(line.get(name, "")) for line in lines} for name, values in chosen.items())
    if not by_column or not all(map(any, by_column)) or not found:
        raise ValueError(f"{path} has no such rows, or a column without values: {choice}")
    rules = ["---:" if all(re.match(r"[-+]?\d|$", cell) for cell in column) else "---" for column in by_column]
    return "".join(map(_line, ([heading for heading, *_ in columns], rules, *rows)))


def _line(cells: list[str]) -> str:
    return f"|{''.join(f' {cell} |' if cell else ' |' for cell in cells)}\n"


def _cell(value: Any) -> str:
    """A value as Markdown; the parts of a list have a slash between them, and those of a mapping their names."""
    if isinstance(value, dict):
        value = ", ".join(f"{count} {name}" for name, count in sorted(value.items()))
    return " / ".join(value) if isinstance(value, list) else str(value).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Writes the pages, or with ``--check`` lists those whose tables are not those of the files; returns the status."""
    differ = [page for page in pages() if with_tables(page) != page.read_text("utf-8")]
    for page in differ:
        print(page.relative_to(_DOCS.parent))
        if "--check" not in arguments:
            page.write_text(with_tables(page), "utf-8")
    return int("--check" in arguments and bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
