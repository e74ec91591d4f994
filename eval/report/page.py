"""One page with all results: tables laid out as in the papers, with the papers' numbers and the figures.

    python -m eval report results

Rows are methods; columns are encoders and layers. A cell shows the mean over seeds, with the sample standard deviation
if there are several seeds, or else the 95% interval over resampled queries. The best value of a column is bold if
higher is better; an arrow marks a value that is significantly above or below the original (paired test, p < 0.05).
Below the tables stands what they were measured with. The first section sets what methods cost in one language beside
what they gain across languages (``eval.report.tradeoff``).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import numpy as np
import tyro
from markdown_it import MarkdownIt

from eval.figures.plots import tradeoff_figure
from eval.papers.published import published
from eval.report.tables import Cell, Table, number, plain
from eval.report.tradeoff import TITLE, blocks, compare, mean_gains, summary
from lsar_jax.console.output import console
from lsar_jax.corpora.by_language import group_by
from lsar_jax.files import check_outputs, write_text
from lsar_jax.measures.compared_methods import label
from lsar_jax.measures.resampling import paired_test
from lsar_jax.measures.results import Result, read_results
from lsar_jax.report.page_kit import render

__all__ = ["ResultsPage", "provenance", "tables"]

_PICTURE = "tradeoff.png"
# Stands between a method and the text that it was fitted on.
_FITTED_ON = ", fitted on "


@dataclass(frozen=True)
class ResultsPage:
    """Writes Markdown and HTML pages of the results of all tasks under a folder.

    Attributes:
      folder: folder with results.jsonl files, directly or in subfolders; the pages are written to this folder.
      overwrite: replace files that are not of a report.
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("results")
    overwrite: bool = False

    def run(self) -> None:
        """Writes ``report.md``, ``report.html`` and, if several methods were tested, the picture of costs and gains."""
        paths = sorted(self.folder.rglob("results.jsonl"))
        # Transfer, and the counts of its examples, are no tasks: they print tables of their own.
        read = [(path.parent, results) for path in paths if (results := read_results(path))]
        found = [(folder, results) for folder, results in read if not results[0].task.startswith("transfer-")]
        sections = group_by(found, lambda of: _alike(of[1][0]))
        if not sections:
            raise FileNotFoundError(f"there are no results under {self.folder}; run python -m eval all first")
        pages = [self.folder / name for name in ("report.md", "report.html", _PICTURE)]
        ours = pages[0].is_file() and "# Results" in pages[0].read_text(encoding="utf-8", errors="replace")
        check_outputs(pages, overwrite=self.overwrite or ours)
        every = [result for section in sections.values() for _, results in section for result in results]
        parts = [part for section in sections.values() for part in self._section(section)]
        text = render("results.txt", parts=[*self._tradeoff(every), *parts])
        write_text(pages[0], text)
        write_text(pages[1], _as_html(text))
        console.print(f"wrote {pages[0]} and {pages[1]}")

    def _tradeoff(self, results: Sequence[Result]) -> list[str]:
        """The section of costs and gains, with its picture; empty if no task measured several methods."""
        try:
            found = compare(results)
        except ValueError as error:
            return [f"## {TITLE}", plain(f"Not shown: {error}.")]
        if not found.gains:
            return []
        tradeoff_figure(mean_gains(found), self.folder / _PICTURE)
        for line in summary(found):
            console.print(line)
        return blocks(found)

    def _section(self, section: Sequence[tuple[Path, Sequence[Result]]]) -> list[str]:
        """The heading, tables, provenance and figures of the folders of one task."""
        results = [result for _, of_folder in section for result in of_folder]
        first = section[0][0]
        name = results[0].task if first == self.folder else f"{first.relative_to(self.folder)}"
        figures = [file for folder, _ in section for file in sorted(folder.glob("*.png")) if file.name != _PICTURE]
        return [
            f"## {plain(name)}",
            *(found.markdown() for found in tables(results)),
            "\n".join(f"- {plain(line)}" for line in provenance(results)),
            *(f"![{plain(figure.stem)}]({quote(figure.relative_to(self.folder).as_posix())})" for figure in figures),
        ]


def _as_html(text: str) -> str:
    """A page of Markdown; a wide table scrolls in a box of its own, which the keyboard reaches."""
    body = MarkdownIt("commonmark", {"xhtmlOut": False}).enable("table").render(text)
    box = '<div class="wide" role="region" aria-label="table" tabindex="0">'
    body = body.replace("<table>", f"{box}\n<table>").replace("</table>", "</table></div>")
    return render("results.html", title="Results", body=re.sub(r"<th(?=[ >])", '<th scope="col"', body))


def tables(results: Sequence[Result]) -> list[Table]:
    """Returns a table for each metric of a task: methods as rows; encoders and layers, then papers, as columns.

    Metrics are those that cover more than two languages, or two if a paper reports them; all if none covers more.
    """
    few = all(len(r.languages) <= 2 for r in results)
    return [
        _table(of_metric)
        for of_metric in group_by(results, lambda r: r.metric).values()
        if few or any(len(r.languages) > 2 or (len(r.languages) == 2 and published(r)) for r in of_metric)
    ]


def provenance(results: Sequence[Result]) -> list[str]:
    """Lines that describe the encoders, software and devices behind the results, and the first fit of each method."""
    lines: dict[str, str] = {}
    for r in results:
        lines[r.made] = r.made
        if r.fitted_on:
            name = f"{label(r.transform, r.parameters)}{_FITTED_ON}{r.fitted_on}"
            lines.setdefault(name, f"{name}; layer {r.layer}: {'; '.join(r.fits)}")
    return list(lines.values())


def _alike(result: Result) -> str:
    """The task and its options, but for seeds: results of one section are alike in them."""
    options = {key: value for key, value in result.options.items() if "seed" not in key}
    return json.dumps([result.task, options], sort_keys=True)


def _table(results: Sequence[Result]) -> Table:
    """The table of a metric."""
    by_row = group_by(results, lambda r: _row(r, results))
    grid = {method: group_by(of, lambda r: _column(r, results)) for method, of in by_row.items()}
    columns = list(dict.fromkeys(column for row in grid.values() for column in row))
    best = {c: max(_mean(row[c]) for row in grid.values() if c in row) for c in columns}
    papers = list({id(value): value for r in results for value in published(r)}.values())
    encoders = list(dict.fromkeys((value.encoder, value.source) for value in papers))
    names = {method: method.split(_FITTED_ON)[0] for method in grid}
    # Methods that only a paper has are rows of their own.
    names |= {value.method: value.method for value in papers if not any(map(value.is_of, names.values()))}
    rows = []
    for method, name in names.items():
        row = grid.get(method, {})
        cells = [_cell(row[c], grid.get("original", {}).get(c, []), best[c]) if c in row else Cell("") for c in columns]
        for encoder in encoders:
            theirs = [v.value for v in papers if (v.encoder, v.source) == encoder and v.is_of(name)]
            cells.append(Cell(number(theirs[0], results[0].unit) if theirs else ""))
        rows.append([Cell(method), *cells])
    languages = sorted({len(set(r.languages)) for r in results})
    counts = f"{', '.join(map(str, languages))} languages, n = {max(r.n for r in results)}"
    columns += [f"{encoder} ({source})" for encoder, source in encoders]
    return Table(f"{results[0].metric} ({counts})", ["", *columns], rows)


def _mean(results: Sequence[Result]) -> float:
    return float(np.mean([r.value for r in results]))


def _row(r: Result, results: Sequence[Result]) -> str:
    """The method's label, with the text it was fitted on if that differs between results."""
    name = label(r.transform, r.parameters)
    texts = {other.fitted_on for other in results if label(other.transform, other.parameters) == name}
    return name if len(texts) == 1 else f"{name}{_FITTED_ON}{r.fitted_on}"


def _column(r: Result, results: Sequence[Result]) -> str:
    """Encoder and layer, with the other settings that differ between results of that encoder and layer."""
    same = [other for other in results if (other.encoder, other.layer) == (r.encoder, r.layer)]
    names = ("revision", "pooling", "dim", "final_norm", "prompt", "dtype", "max_length")
    varied = [f"{name} {getattr(r, name)}" for name in names if len({getattr(other, name) for other in same}) > 1]
    return ", ".join([r.encoder, f"layer {r.layer}", *varied])


def _cell(results: Sequence[Result], original: Sequence[Result], best: float) -> Cell:
    """The mean over seeds, with its spread or interval, and how it compares with the original."""
    first, note, mark = results[0], "", ""
    if len(results) > 1:
        note = f"± {number(float(np.std([r.value for r in results], ddof=1)), first.unit)}"
    elif first.low is not None and first.high is not None:
        note = f"{number(first.low, first.unit)} to {number(first.high, first.unit)}"
    if original and original[0] is not first and (queries := original[0].paired(first)):
        difference, p = paired_test(*queries)
        mark = "" if p >= 0.05 else " ▲" if difference > 0 else " ▼"
    mean = _mean(results)
    return Cell(number(mean, first.unit) + mark, first.direction == "higher" and mean == best, note)
