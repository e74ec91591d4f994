"""One page with all results: tables laid out as in the papers, with the papers' numbers and the figures.

    python -m eval report results

Rows are methods; columns are encoders and layers. A cell shows the mean over seeds, with the sample standard deviation
if there are several seeds, or else the 95% interval over resampled queries. The best value of a column is bold if
higher is better; an arrow marks a value that is significantly above or below the original (paired test, p < 0.05).
Below the tables stands what they were measured with.
"""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import tyro

from eval.methods import label
from eval.papers.published import published
from eval.report.transfer import Spread, is_transfer, sizes, transfer_rows
from eval.resampling import paired_test
from eval.results import Result, read_results
from lsar_jax.cli.console import console
from lsar_jax.files import check_outputs, write_text

__all__ = ["Cell", "Report", "Table", "provenance", "tables"]

# Stands between a method and the text that it was fitted on.
_FITTED_ON = ", fitted on "


class Cell(NamedTuple):
    """A table cell; ``note`` is set in smaller type."""

    text: str
    bold: bool = False
    note: str = ""


class Table(NamedTuple):
    """A table with a title, column headers and rows; the first cell of a row is its header."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]


class _Section(NamedTuple):
    """The results of one task: its tables, what they were measured with, and its figures."""

    name: str
    tables: list[Table]
    measured_with: list[str]
    figures: list[Path]


@dataclass(frozen=True)
class Report:
    """Writes Markdown and HTML pages of all results under a folder.

    Attributes:
      folder: folder with results.jsonl files, directly or in subfolders; the pages are written to this folder.
      metrics: prefixes of the metrics to show; by default, metrics over several languages and those that papers report.
      overwrite: replace pages that are not reports.
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("results")
    metrics: tuple[str, ...] = ()
    overwrite: bool = False

    def run(self) -> None:
        """Writes ``report.md`` and ``report.html``.

        Raises:
          FileExistsError: a page of this name is not a report, and ``overwrite`` is not given.
          FileNotFoundError: there are no results.
        """
        paths = sorted(self.folder.rglob("results.jsonl"))
        if not paths:
            raise FileNotFoundError(f"there is no results.jsonl under {self.folder}; run python -m eval all first")
        pages = {
            self.folder / "report.md": (_markdown, "# Results"),
            self.folder / "report.html": (_html, "<h1>Results"),
        }
        for page, (_, mark) in pages.items():
            ours = page.is_file() and mark in page.read_text(encoding="utf-8", errors="replace")
            check_outputs([page], overwrite=self.overwrite or ours)
        parts: list[_Section] = []
        for several in self._sections(paths).values():
            results = [result for path in several for result in read_results(path)]
            name = (
                str(several[0].parent.relative_to(self.folder)) if several[0].parent != self.folder else results[0].task
            )
            figures = [figure for path in several for figure in sorted(path.parent.glob("*.png"))]
            parts.append(_Section(name, tables(results, self.metrics), provenance(results), figures))
        for page, (render, _) in pages.items():
            write_text(page, render(parts, self.folder))
            console.print(f"wrote {page}")

    def _sections(self, paths: Sequence[Path]) -> dict[str, list[Path]]:
        """Groups files with the same task and options, regardless of encoder and seeds."""
        sections: dict[str, list[Path]] = {}
        for path in paths:
            if results := read_results(path):
                transfer = is_transfer(results[0])
                options = {
                    name: value
                    for name, value in results[0].options.items()
                    if "seed" not in name and not (transfer and name == "test")
                }
                key = json.dumps([results[0].task, options], sort_keys=True)
                sections.setdefault(key, []).append(path)
        if not sections:
            raise ValueError(f"every results.jsonl under {self.folder} is empty")
        return sections


def tables(results: Sequence[Result], metrics: Sequence[str] = ()) -> list[Table]:
    """Returns a table for each metric: methods as rows; encoders and layers as columns, then the papers' numbers."""
    if is_transfer(results[0]):
        return [_transfer_table(results)]
    every = list(dict.fromkeys(r.metric for r in results))
    chosen = [
        m for m in every if (any(m.startswith(wanted) for wanted in metrics) if metrics else _headline(m, results))
    ]
    return [_table(metric, [r for r in results if r.metric == metric]) for metric in chosen]


def provenance(results: Sequence[Result]) -> list[str]:
    """Returns lines that describe the encoders, software, devices and fits behind the results."""
    lines = []
    for r in results:
        versions = ", ".join(f"{name} {version}" for name, version in r.versions.items())
        lines.append(
            f"Encoder {r.encoder}, revision {r.revision}, {r.pooling} pooling, {r.dtype}, at most {r.max_length} "
            f"tokens; {versions}; {r.device}; {r.date or 'date not recorded'}"
        )
    fitted: dict[tuple[str, str], dict[str, None]] = {}
    for r in results:
        if r.fitted_on:
            steps = "; ".join(r.fits) or "not recorded"
            fitted.setdefault((label(r.transform, r.parameters), r.fitted_on), {})[f"layer {r.layer}: {steps}"] = None
    for (name, text), steps_of in fitted.items():
        told = list(steps_of)
        rest = f"; and {len(told) - _MOST_FITS} more" if len(told) > _MOST_FITS else ""
        lines.append(f"{name}, fitted on {text}; {'; '.join(told[:_MOST_FITS])}{rest}")
    return list(dict.fromkeys(lines))


def _transfer_table(results: Sequence[Result]) -> Table:
    """Returns the table of an encoder in each row, and a test in each column."""
    rows = transfer_rows(results)
    tests = list(rows[0].cells)
    best = {test: max(row.cells[test].mean for row in rows if test in row.cells) for test in tests}
    cells = [[Cell(row.encoder), *(_spread(row.cells.get(test), best[test]) for test in tests)] for row in rows]
    metric = results[0].metric.removesuffix(f" {results[0].options['test']}")
    task = results[0].task.removeprefix("transfer-")
    title = f"{metric} of zero-shot transfer, {task}, mean and std over seeds; {sizes(results)}"
    return Table(title, ["encoder", *tests], cells)


def _spread(spread: Spread | None, best: float) -> Cell:
    if spread is None:
        return Cell("")
    text = f"{spread.mean:.1f}{spread.mark}"
    return Cell(text, spread.mean == best, str(spread).removeprefix(text).strip())


def _headline(metric: str, results: Sequence[Result]) -> bool:
    """Returns whether to show a metric by default.

    A metric is shown if it covers more than two languages or a paper reports it; if no metric covers more than two
    languages, all are shown.
    """
    of_metric = [r for r in results if r.metric == metric]
    return any(len(r.languages) > 2 or published(r) for r in of_metric) or all(len(r.languages) <= 2 for r in results)


def _table(metric: str, results: Sequence[Result]) -> Table:
    columns = list(dict.fromkeys(_column(r, results) for r in results))
    grid: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        grid.setdefault((_row(r, results), _column(r, results)), []).append(r)
    methods = list(dict.fromkeys(method for method, _ in grid))
    means = {key: float(np.mean([r.value for r in several])) for key, several in grid.items()}
    better = metric.startswith(_HIGHER_IS_BETTER)
    best = {column: max(means[key] for key in means if key[1] == column) if better else None for column in columns}
    papers = list(dict.fromkeys(one for r in results for one in published(r)))
    encoders = list(dict.fromkeys((one.encoder, one.source) for one in papers))
    ours = [method.split(_FITTED_ON)[0] for method in methods]
    rows = []
    for method in [*methods, *dict.fromkeys(one.method for one in papers if not any(map(one.is_of, ours)))]:
        cells = [Cell(method)]
        for column in columns:
            several = grid.get((method, column), [])
            cells.append(_cell(several, grid.get(("original", column), []), means, best[column], (method, column)))
        for encoder in encoders:
            name = method.split(_FITTED_ON)[0]
            theirs = [one.value for one in papers if (one.encoder, one.source) == encoder and one.is_of(name)]
            cells.append(Cell(_number(theirs[0]) if theirs else ""))
        rows.append(cells)
    languages = sorted({len(set(r.languages)) for r in results})
    title = f"{metric} ({', '.join(map(str, languages))} languages, n = {max(r.n for r in results)})"
    return Table(title, ["", *columns, *(f"{encoder} ({source})" for encoder, source in encoders)], rows)


def _row(r: Result, results: Sequence[Result]) -> str:
    """Returns the method's label, with the text it was fitted on if that differs between results."""
    name = label(r.transform, r.parameters)
    texts = {other.fitted_on for other in results if label(other.transform, other.parameters) == name}
    return name if len(texts) == 1 else f"{name}{_FITTED_ON}{r.fitted_on}"


def _column(r: Result, results: Sequence[Result]) -> str:
    """Returns encoder and layer, with the other settings that differ between results of that encoder and layer."""
    same = [other for other in results if (other.encoder, other.layer) == (r.encoder, r.layer)]
    parts = [r.encoder, f"layer {r.layer}"]
    for name in ("revision", "pooling", "dtype", "max_length"):
        if len({getattr(other, name) for other in same}) > 1:
            parts.append(f"{name} {getattr(r, name)}")
    return ", ".join(parts)


def _cell(
    several: Sequence[Result],
    original: Sequence[Result],
    means: Mapping[tuple[str, str], float],
    best: float | None,
    key: tuple[str, str],
) -> Cell:
    if not several:
        return Cell("")
    first, note = several[0], ""
    if len(several) > 1:
        note = f"± {_number(float(np.std([r.value for r in several], ddof=1)))}"
    elif first.low is not None and first.high is not None:
        note = f"{_number(first.low)} to {_number(first.high)}"
    against = original[0].queries if original else None
    mark = ""
    if (
        first.queries is not None
        and against is not None
        and first.queries is not against
        and first.queries.same(against)
    ):
        difference, p = paired_test(against, first.queries)
        mark = "" if p >= 0.05 else " ▲" if difference > 0 else " ▼"
    return Cell(_number(means[key]) + mark, means[key] == best, note)


def _number(value: float) -> str:
    """Formats percentages with one decimal; cosines, shares and correlations with three."""
    return f"{value:.1f}" if abs(value) > 1 or value == 0 else f"{value:.3f}"


def _markdown(parts: Sequence[_Section], folder: Path) -> str:
    lines = ["# Results", "", _LEGEND]
    for name, several, measured_with, figures in parts:
        lines += ["", f"## {name}"]
        for table in several:
            heads = [head.replace("|", r"\|") for head in table.columns]
            lines += ["", f"### {table.title}", "", f"| {' | '.join(heads)} |"]
            lines.append(f"| --- |{' ---: |' * (len(heads) - 1)}")
            for row in table.rows:
                cells = [f"**{c.text}**" if c.bold else c.text for c in row]
                noted = [f"{text} <sub>{c.note}</sub>" if c.note else text for text, c in zip(cells, row, strict=True)]
                lines.append(f"| {' | '.join(noted)} |")
        lines += ["", *(f"- {line}" for line in measured_with)]
        for figure in figures:
            lines += ["", f"![{figure.stem}]({figure.relative_to(folder).as_posix()})"]
    return "\n".join(lines) + "\n"


def _html(parts: Sequence[_Section], folder: Path) -> str:
    body = [f"<h1>Results</h1><p>{html.escape(_LEGEND)}</p>"]
    for name, several, measured_with, figures in parts:
        body.append(f"<h2>{html.escape(name)}</h2>")
        for table in several:
            heads = "".join(f"<th>{html.escape(head)}</th>" for head in table.columns)
            rows = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in table.rows)
            body.append(f"<h3>{html.escape(table.title)}</h3><table><tr>{heads}</tr>{rows}</table>")
        body.append(f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in measured_with)}</ul>")
        for figure in figures:
            path = html.escape(figure.relative_to(folder).as_posix(), quote=True)
            body.append(f'<p><img src="{path}" alt="{html.escape(figure.stem, quote=True)}"></p>')
    return _PAGE.format(body="\n".join(body))


def _html_cell(cell: Cell) -> str:
    text = html.escape(cell.text)
    note = f" <small>{html.escape(cell.note)}</small>" if cell.note else ""
    return f"<td>{f'<b>{text}</b>' if cell.bold else text}{note}</td>"


# Fits of one method, over layers and seeds, that a line names.
_MOST_FITS = 4
# Prefixes of the metrics for which higher is better. Others, such as preference or a threshold, have no best value.
_HIGHER_IS_BETTER = (
    "mAP", "accuracy", "en-", "xx-", "F1", "precision", "recall", "Pearson", "Spearman", "other languages"
)  # fmt: skip
_LEGEND = (
    "Values are in percent unless noted otherwise. Bold: the best of our values in a column. Small: the 95% interval "
    "over resampled queries, or the sample standard deviation over seeds. ▲ and ▼: significantly above and below the "
    "original (paired randomisation test, p < 0.05). + and -, in tables of transfer: beyond one standard deviation of "
    "the first encoder. The papers' numbers are for their own encoders, layers and fitting text."
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
