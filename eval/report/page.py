"""One page with all results: tables laid out as in the papers, with the papers' numbers and the figures.

    python -m eval report results

Rows are methods; columns are encoders and layers. A cell shows the mean over seeds, with the sample standard deviation
if there are several seeds, or else the 95% interval over resampled queries. The best value of a column is bold if
higher is better; an arrow marks a value that is significantly above or below the original (paired test, p < 0.05).
Below the tables stands what they were measured with.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import quote

import numpy as np
import tyro

from eval.papers.published import published
from eval.report.html_page import as_html, plain, table
from eval.report.transfer import by_task, is_transfer, sizes, transfer_rows
from lsar_jax.console.output import console
from lsar_jax.files import check_outputs, write_text
from lsar_jax.measures.methods import label
from lsar_jax.measures.resampling import paired_test
from lsar_jax.measures.results import Result, read_results

__all__ = ["Cell", "Report", "Table", "provenance", "tables"]

# Stands between a method and the text that it was fitted on.
_FITTED_ON = ", fitted on "
# Fits of one method, over layers and seeds, that a line names.
_MOST_FITS = 4
_LEGEND = (
    "Values are in percent unless noted otherwise. Bold: the best of our values in a column. Small: the 95% interval "
    "over resampled queries, or the sample standard deviation over seeds. ▲ and ▼: significantly above and below the "
    "original (paired randomisation test, p < 0.05). + and -, in tables of transfer: beyond one standard deviation of "
    "the first encoder. The papers' numbers are for their own encoders, layers and fitting text."
)


class Cell(NamedTuple):
    """A cell of a table; the note is set in smaller type."""

    text: str
    bold: bool = False
    note: str = ""

    def markdown(self) -> str:
        """The cell as Markdown."""
        text = f"**{plain(self.text)}**" if self.bold else plain(self.text)
        return f"{text} <sub>{plain(self.note)}</sub>" if self.note else text


class Table(NamedTuple):
    """A table; the first cell of a row is its header."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]

    def markdown(self) -> str:
        """The table as Markdown."""
        rows = [[cell.markdown() for cell in row] for row in self.rows]
        return f"### {plain(self.title)}\n\n{table(list(map(plain, self.columns)), rows)}"


@dataclass(frozen=True)
class Report:
    """Writes Markdown and HTML pages of all results under a folder.

    Attributes:
      folder: folder with results.jsonl files, directly or in subfolders; the pages are written to this folder.
      overwrite: replace pages that are not reports.
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("results")
    overwrite: bool = False

    def run(self) -> None:
        """Writes ``report.md`` and ``report.html``."""
        paths = sorted(self.folder.rglob("results.jsonl"))
        if not paths:
            raise FileNotFoundError(f"there is no results.jsonl under {self.folder}; run python -m eval all first")
        pages = {self.folder / "report.md": "# Results", self.folder / "report.html": "<h1>Results"}
        for page, mark in pages.items():
            ours = page.is_file() and mark in page.read_text(encoding="utf-8", errors="replace")
            check_outputs([page], overwrite=self.overwrite or ours)
        sections: dict[str, list[tuple[Path, list[Result]]]] = {}
        for path in paths:
            if results := read_results(path):
                sections.setdefault(_alike(results[0]), []).append((path.parent, results))
        if not sections:
            raise ValueError(f"every results.jsonl under {self.folder} is empty")
        parts = ["# Results", _LEGEND, *(part for section in sections.values() for part in self._section(section))]
        text = "\n\n".join(parts) + "\n"
        for page in pages:
            write_text(page, text if page.suffix == ".md" else as_html("Results", text))
            console.print(f"wrote {page}")

    def _section(self, section: Sequence[tuple[Path, Sequence[Result]]]) -> list[str]:
        """The heading, tables, provenance and figures of the folders of one task."""
        results = [result for _, of_folder in section for result in of_folder]
        first = section[0][0]
        name = results[0].task if first == self.folder else f"{first.relative_to(self.folder)}"
        figures = [figure for folder, _ in section for figure in sorted(folder.glob("*.png"))]
        return [
            f"## {plain(name)}",
            *(found.markdown() for found in tables(results)),
            "\n".join(f"- {plain(line)}" for line in provenance(results)),
            *(f"![{plain(figure.stem)}]({quote(figure.relative_to(self.folder).as_posix())})" for figure in figures),
        ]


def tables(results: Sequence[Result]) -> list[Table]:
    """A table for each metric of a task: methods as rows; encoders and layers as columns, then the papers' numbers.

    Metrics are those that cover more than two languages, or two if a paper reports them; all if none covers more.
    """
    if is_transfer(results[0]):
        return [_transfer_table(of_task) for of_task in by_task(results)]
    if not results[0].encoder:
        return [_count_table(results)]
    by_metric: dict[str, list[Result]] = {}
    for r in results:
        by_metric.setdefault(r.metric, []).append(r)
    few = all(len(r.languages) <= 2 for r in results)
    return [
        _table(metric, of_metric)
        for metric, of_metric in by_metric.items()
        if few or any(len(r.languages) > 2 or (len(r.languages) == 2 and published(r)) for r in of_metric)
    ]


def provenance(results: Sequence[Result]) -> list[str]:
    """Lines that describe the encoders, software, devices and fits behind the results."""
    lines: dict[str, None] = {}
    fitted: dict[str, dict[str, None]] = {}
    for r in [r for r in results if r.encoder]:
        versions = ", ".join(f"{name} {version}" for name, version in r.versions.items())
        cut = f" cut to {r.dim}" * (r.dim is not None) + ", final norm on all layers" * r.final_norm
        cut += f", prompt {r.prompt!r}" * (r.prompt != "")
        what = f"Encoder {r.encoder}, revision {r.revision}, {r.pooling} pooling{cut}, {r.dtype}, at most "
        what = f"{what}{r.max_length} tokens" if r.pooling else f"Vectors {r.encoder}"  # of which no more is known
        lines[f"{what}; {versions}; {r.device}; {r.date or 'date not recorded'}"] = None
        if r.fitted_on:
            name = f"{label(r.transform, r.parameters)}{_FITTED_ON}{r.fitted_on}"
            fitted.setdefault(name, {})[f"layer {r.layer}: {'; '.join(r.fits) or 'not recorded'}"] = None
    for name, fits in fitted.items():
        more = f"; and {len(fits) - _MOST_FITS} more" if len(fits) > _MOST_FITS else ""
        lines[f"{name}; {'; '.join(list(fits)[:_MOST_FITS])}{more}"] = None
    return list(lines)


def _alike(result: Result) -> str:
    """The task and its options, but for seeds and the test of transfer: results of one section are alike in them."""
    transfer = is_transfer(result)
    options = {key: v for key, v in result.options.items() if "seed" not in key and not (transfer and key == "test")}
    return json.dumps([result.task, options], sort_keys=True)


def _count_table(results: Sequence[Result]) -> Table:
    """What ``python -m eval study --count`` counted: parts of the text as rows, tasks as columns."""
    counts = {(r.metric, r.task): Cell(f"{r.n:,}") for r in results}
    parts, tasks = (list(dict.fromkeys(key[n] for key in counts)) for n in (0, 1))
    rows = [[Cell(part), *(counts[part, task] for task in tasks)] for part in parts]
    return Table("Number of examples", ["", *(task.removeprefix("transfer-") for task in tasks)], rows)


def _transfer_table(results: Sequence[Result]) -> Table:
    """The table of an encoder in each row, and a test in each column."""
    rows = transfer_rows(results)
    tests = list(next(iter(rows.values())))
    best = {test: max(cells[test].mean for cells in rows.values() if test in cells) for test in tests}
    lines = []
    for encoder, cells in rows.items():
        spreads = [(cells.get(test), best[test]) for test in tests]
        lines.append([Cell(encoder), *(Cell(s.text, s.mean == top, s.note) if s else Cell("") for s, top in spreads)])
    metric = results[0].metric.partition(" ")[0]
    task = results[0].task.removeprefix("transfer-")
    title = f"{metric} of zero-shot transfer, {task}, mean and std over seeds; {sizes(results)}"
    return Table(title, ["encoder", *tests], lines)


def _table(metric: str, results: Sequence[Result]) -> Table:
    grid: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        grid.setdefault((_row(r, results), _column(r, results)), []).append(r)
    methods, columns = (list(dict.fromkeys(key[n] for key in grid)) for n in (0, 1))
    means = {key: float(np.mean([r.value for r in of_cell])) for key, of_cell in grid.items()}
    best = {column: max(value for (_, other), value in means.items() if other == column) for column in columns}
    papers = list({id(value): value for r in results for value in published(r)}.values())
    encoders = list(dict.fromkeys((value.encoder, value.source) for value in papers))
    names = [method.split(_FITTED_ON)[0] for method in methods]
    rows = []
    for method in [*methods, *dict.fromkeys(value.method for value in papers if not any(map(value.is_of, names)))]:
        cells = [Cell(method)]
        for column in columns:
            bold = results[0].direction == "higher" and means.get((method, column)) == best[column]
            cells.append(_cell(grid.get((method, column), []), grid.get(("original", column), []), bold))
        for encoder in encoders:
            name = method.split(_FITTED_ON)[0]
            theirs = [v.value for v in papers if (v.encoder, v.source) == encoder and v.is_of(name)]
            cells.append(Cell(_number(theirs[0]) if theirs else ""))
        rows.append(cells)
    languages = sorted({len(set(r.languages)) for r in results})
    title = f"{metric} ({', '.join(map(str, languages))} languages, n = {max(r.n for r in results)})"
    return Table(title, ["", *columns, *(f"{encoder} ({source})" for encoder, source in encoders)], rows)


def _row(r: Result, results: Sequence[Result]) -> str:
    """The method's label, with the text it was fitted on if that differs between results."""
    name = label(r.transform, r.parameters)
    texts = {other.fitted_on for other in results if label(other.transform, other.parameters) == name}
    return name if len(texts) == 1 else f"{name}{_FITTED_ON}{r.fitted_on}"


def _column(r: Result, results: Sequence[Result]) -> str:
    """Encoder and layer, with the other settings that differ between results of that encoder and layer."""
    same = [other for other in results if (other.encoder, other.layer) == (r.encoder, r.layer)]
    parts = [r.encoder, f"layer {r.layer}"]
    for name in ("revision", "pooling", "dim", "final_norm", "prompt", "dtype", "max_length"):
        if len({getattr(other, name) for other in same}) > 1:
            parts.append(f"{name} {getattr(r, name)}")
    return ", ".join(parts)


def _cell(results: Sequence[Result], original: Sequence[Result], bold: bool) -> Cell:
    """The mean over seeds, with its spread or interval, and how it compares with the original."""
    if not results:
        return Cell("")
    values = [r.value for r in results]
    first, note, mark = results[0], "", ""
    if len(values) > 1:
        note = f"± {_number(float(np.std(values, ddof=1)))}"
    elif first.low is not None and first.high is not None:
        note = f"{_number(first.low)} to {_number(first.high)}"
    before, after = original[0].queries if original else None, first.queries
    if before is not None and after is not None and before is not after and after.same(before):
        difference, p = paired_test(before, after)
        mark = "" if p >= 0.05 else " ▲" if difference > 0 else " ▼"
    return Cell(_number(float(np.mean(values))) + mark, bold, note)


def _number(value: float) -> str:
    """Formats percentages with one decimal; cosines, shares and correlations with three."""
    return f"{value:.1f}" if abs(value) > 1 or value == 0 else f"{value:.3f}"
