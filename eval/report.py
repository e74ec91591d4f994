"""One page of all results: tables as the papers have them, the papers' numbers beside ours, the figures.

    python -m eval report results

Rows are methods, columns encoders and layers; a cell is the mean over seeds, its sample standard
deviation where there are several, or else the 95% interval over resampled queries. The best of a column is
bold; a star says that the paired test puts it apart from the original (p < 0.05).
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import tyro

from eval.methods import label
from eval.published import published
from eval.resampling import paired_test
from eval.results import Result, console, read_results

__all__ = ["Cell", "Report", "Table", "tables"]


class Cell(NamedTuple):
    """What stands in a table; ``note`` is smaller."""

    text: str
    bold: bool = False
    note: str = ""


class Table(NamedTuple):
    """A title, column heads and rows; the first cell of a row is its head."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Report:
    """Markdown and HTML of all results under a folder.

    Attributes:
      folder: with results.jsonl in it or below; the pages are written here.
      metrics: metrics that begin so; by default means and what has no language in its name.
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("results")
    metrics: tuple[str, ...] = ()

    def run(self) -> None:
        """Writes ``report.md`` and ``report.html``."""
        paths = sorted(self.folder.rglob("results.jsonl"))
        if not paths:
            raise FileNotFoundError(f"there is no results.jsonl under {self.folder}; run python -m eval all first")
        parts: list[tuple[str, list[Table], list[Path]]] = []
        for path in paths:
            results = read_results(path)
            name = str(path.parent.relative_to(self.folder)) if path.parent != self.folder else results[0].task
            parts.append((name, tables(results, self.metrics), sorted(path.parent.glob("*.png"))))
        for suffix, render in ((".md", _markdown), (".html", _html)):
            page = self.folder / f"report{suffix}"
            page.write_text(render(parts, self.folder), encoding="utf-8")
            console.print(f"wrote {page}")


def tables(results: Sequence[Result], metrics: Sequence[str] = ()) -> list[Table]:
    """Returns a table for each metric: methods down, encoders and layers across, then the papers' numbers."""
    every = list(dict.fromkeys(r.metric for r in results))
    chosen = [
        m for m in every if (any(m.startswith(wanted) for wanted in metrics) if metrics else _headline(m, results))
    ]
    return [_table(metric, [r for r in results if r.metric == metric]) for metric in chosen]


def _headline(metric: str, results: Sequence[Result]) -> bool:
    """Whether a metric is over several languages, or is all that there is."""
    return any(len(r.languages) > 2 for r in results if r.metric == metric) or all(
        len(r.languages) <= 2 for r in results
    )


def _table(metric: str, results: Sequence[Result]) -> Table:
    columns = list(dict.fromkeys((r.encoder, r.layer) for r in results))
    methods = list(dict.fromkeys(label(r.transform, r.parameters) for r in results))
    grid: dict[tuple[str, tuple[str, int]], list[Result]] = {}
    for r in results:
        grid.setdefault((label(r.transform, r.parameters), (r.encoder, r.layer)), []).append(r)
    means = {key: float(np.mean([r.value for r in several])) for key, several in grid.items()}
    best = {column: max(means[key] for key in means if key[1] == column) for column in columns}
    papers = published(results[0].task, metric)
    theirs = {(one.encoder, one.method): one for one in papers}
    encoders = list(dict.fromkeys((one.encoder, one.source) for one in papers))
    rows = []
    for method in [*methods, *dict.fromkeys(one.method for one in papers if not _known(one.method, methods))]:
        cells = [Cell(method)]
        for column in columns:
            several = grid.get((method, column), [])
            cells.append(_cell(several, grid.get(("original", column), []), means, best[column], (method, column)))
        for encoder, _ in encoders:
            one = theirs.get((encoder, method)) or theirs.get((encoder, method.split()[0]))
            cells.append(Cell("" if one is None else _number(one.value)))
        rows.append(cells)
    heads = [f"{encoder}, layer {layer}" for encoder, layer in columns]
    languages = {len(r.languages) for r in results}
    title = f"{metric} ({', '.join(str(n) for n in sorted(languages))} languages, n = {max(r.n for r in results)})"
    return Table(title, ["", *heads, *(f"{encoder} ({source})" for encoder, source in encoders)], rows)


def _known(method: str, methods: Sequence[str]) -> bool:
    return any(method in (one, one.split()[0]) for one in methods)


def _cell(
    several: Sequence[Result],
    original: Sequence[Result],
    means: Mapping[tuple[str, tuple[str, int]], float],
    best: float,
    key: tuple[str, tuple[str, int]],
) -> Cell:
    if not several:
        return Cell("")
    first, note = several[0], ""
    if len(several) > 1:
        note = f"± {_number(float(np.std([r.value for r in several], ddof=1)))}"
    elif first.low is not None and first.high is not None:
        note = f"{_number(first.low)} to {_number(first.high)}"
    against = original[0].queries if original else None
    apart = (
        first.queries is not None
        and against is not None
        and first.queries is not against
        and len(first.queries.values) == len(against.values)
        and paired_test(against, first.queries)[1] < 0.05
    )
    return Cell(_number(means[key]) + ("*" if apart else ""), means[key] == best, note)


def _number(value: float) -> str:
    """One decimal for percentages; cosines, shares and correlations need three."""
    return f"{value:.1f}" if abs(value) > 1 or value == 0 else f"{value:.3f}"


def _markdown(parts: Sequence[tuple[str, list[Table], list[Path]]], folder: Path) -> str:
    lines = ["# Results", "", _LEGEND]
    for name, several, figures in parts:
        lines += ["", f"## {name}"]
        for table in several:
            heads = [head.replace("|", r"\|") for head in table.columns]
            lines += ["", f"### {table.title}", "", f"| {' | '.join(heads)} |"]
            lines.append(f"| --- |{' ---: |' * (len(heads) - 1)}")
            for row in table.rows:
                cells = [f"**{c.text}**" if c.bold else c.text for c in row]
                noted = [f"{text} <sub>{c.note}</sub>" if c.note else text for text, c in zip(cells, row, strict=True)]
                lines.append(f"| {' | '.join(noted)} |")
        for figure in figures:
            lines += ["", f"![{figure.stem}]({figure.relative_to(folder).as_posix()})"]
    return "\n".join(lines) + "\n"


def _html(parts: Sequence[tuple[str, list[Table], list[Path]]], folder: Path) -> str:
    body = [f"<h1>Results</h1><p>{html.escape(_LEGEND)}</p>"]
    for name, several, figures in parts:
        body.append(f"<h2>{html.escape(name)}</h2>")
        for table in several:
            heads = "".join(f"<th>{html.escape(head)}</th>" for head in table.columns)
            rows = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in table.rows)
            body.append(f"<h3>{html.escape(table.title)}</h3><table><tr>{heads}</tr>{rows}</table>")
        for figure in figures:
            path = html.escape(figure.relative_to(folder).as_posix(), quote=True)
            body.append(f'<p><img src="{path}" alt="{html.escape(figure.stem, quote=True)}"></p>')
    return _PAGE.format(body="\n".join(body))


def _html_cell(cell: Cell) -> str:
    text = html.escape(cell.text)
    note = f" <small>{html.escape(cell.note)}</small>" if cell.note else ""
    return f"<td>{f'<b>{text}</b>' if cell.bold else text}{note}</td>"


_LEGEND = (
    "Percent where nothing else is said. Bold: the best of a column of ours. Small: the 95% interval over resampled "
    "queries, or the sample standard deviation over seeds. *: apart from the original, paired randomisation test, "
    "p < 0.05. The papers' numbers are of their encoders, layers and text to fit on."
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Results</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; }}
td:first-child {{ text-align: left; }} small {{ color: #666; }} img {{ max-width: 100%; }}
</style></head><body>
{body}
</body></html>
"""
