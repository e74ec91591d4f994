"""What each method costs in one language, and gains across languages: a page and a picture of the results of tasks.

    python -m eval all --profile full --encoder bundled --out results/all
    python -m eval tradeoff results/all

Cells are differences from the original embeddings of the same encoder and layer, on the same queries, with intervals
that hold for all cells of the page at once in 95% of resamples: ▲ and ▼ stand where such an interval does not contain
zero. A second table has the differences of the best method that needs no language and is one affine map from each of
the others. Methods that were fitted on the evaluated sentences themselves are left out. In the picture, a method is at
its mean difference in one language and across languages, a panel for each encoder and layer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan, nan
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import tyro

from eval.figures.plots import tradeoff_figure
from eval.report.html_page import as_html
from eval.report.page import Cell, Table
from lsar_jax.console.output import console
from lsar_jax.files import check_outputs, write_text
from lsar_jax.measures.methods import label
from lsar_jax.measures.resampling import QueryScores, simultaneous_intervals
from lsar_jax.measures.results import Result, read_results

__all__ = ["Comparison", "Gain", "Tradeoff", "compare", "read_all"]

Kind = Literal["across languages", "in one language", "preference"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class Measure(NamedTuple):
    """A column: its name, what it is about, and the task and metric, a regular expression, of its results."""

    name: str
    kind: Kind
    task: str
    metric: str


_MEASURES = (
    Measure("answers, pool of all", "across languages", "lareqa", "mAP"),
    Measure("declaration, pool of all", "across languages", "udhr", "mAP"),
    Measure("Tatoeba, from English", "across languages", "tatoeba", r"en-xx mean over \d+"),
    Measure("Tatoeba, into English", "across languages", "tatoeba", r"xx-en mean over \d+"),
    Measure("bitext, from English", "across languages", "bitext", r"en-xx mean over \d+"),
    Measure("bitext, into English", "across languages", "bitext", r"xx-en mean over \d+"),
    Measure("STS17 across", "across languages", "sts17", "Spearman cross-lingual mean"),
    Measure("topics of all", "across languages", "clustering", "purity"),
    Measure("answers, each alone", "in one language", "lareqa", "mAP in one language"),
    Measure("STS17 alone", "in one language", "sts17", "Spearman monolingual mean"),
    Measure("topics, each alone", "in one language", "clustering", "purity in one language"),
    Measure("own language preferred", "preference", "lareqa", "preference"),
)
# Options and attributes in which results of one column may differ: what a method was fitted on.
_OF_FITS = ("fit_on", "fit_count", "fit_languages", "parallel")
_OF_ENCODERS = ("revision", "pooling", "dtype", "max_length", "dim", "final_norm", "prompt")


class Gain(NamedTuple):
    """What a method changes.

    Attributes:
      value: the difference from the original, in points.
      low, high: its interval, which holds at once with those of all others; None without scores of queries.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def sign(self) -> int:
        """1 and -1 where the interval is above and below zero, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def cell(self, higher_is_better: bool) -> Cell:
        """The cell of a table; bold if it is significantly better."""
        mark = {1: " ▲", -1: " ▼", 0: ""}[self.sign]
        note = "" if self.low is None else f"{self.low:+.1f} to {self.high:+.1f}"
        return Cell(f"{self.value + 0.0:+.1f}{mark}", higher_is_better and self.sign > 0, note)


# Encoder and layer.
Where = tuple[str, int]
# Where -> method -> name of a measure -> its gain.
Gains = dict[Where, dict[str, dict[str, Gain]]]


class Comparison(NamedTuple):
    """Differences between methods, whose intervals hold at once.

    Attributes:
      columns: names of the measures that the results have, with the data where several were measured.
      data: files that were read.
      gains: of each method from the original embeddings.
      best: the method that gains most across languages on average, of those that need no language and are one affine
        map; only methods that all tasks measured are compared.
      leads: of the best method from each of the others.
    """

    columns: dict[str, Kind]
    data: list[str]
    gains: Gains
    best: dict[Where, str]
    leads: Gains


@dataclass(frozen=True)
class Tradeoff:
    """What each method costs in one language, and gains across languages.

    Attributes:
      folder: folder with the results of tasks in subfolders, as python -m eval all writes them.
      overwrite: replace files that are not of such a page.
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("results/all")
    overwrite: bool = False

    def run(self) -> None:
        """Writes ``tradeoff.md``, ``tradeoff.html``, ``tradeoff.png`` and ``tradeoff.pdf``."""
        found = compare(read_all(self.folder))
        if not found.gains:
            names = ", ".join(sorted({measure.task for measure in _MEASURES}))
            raise ValueError(
                f"{self.folder} has no results of several methods of one of {names}; run python -m eval all"
            )
        self.write(found)

    def write(self, found: Comparison) -> None:
        """Writes the page and the picture of what ``compare`` found."""
        pages = [self.folder / f"tradeoff.{end}" for end in ("md", "html", "png")]
        ours = pages[0].is_file() and _TITLE in pages[0].read_text(encoding="utf-8", errors="replace")
        check_outputs(pages, overwrite=self.overwrite or ours)
        text = "\n\n".join(_lines(found)) + "\n"
        write_text(pages[0], text)
        write_text(pages[1], as_html(_TITLE, text))
        tradeoff_figure(_means(found), pages[2])
        for line in _summary(found):
            console.print(line)
        console.print(f"wrote {pages[1]}")


_TITLE = "What each method costs and gains"


def read_all(folder: Path) -> list[Result]:
    """Reads the results in a folder and those below it."""
    return [result for path in sorted(folder.rglob("results.jsonl")) for result in read_results(path)]


def compare(results: Sequence[Result]) -> Comparison:
    """Compares all methods, in each measure that the results have, for each encoder and layer.

    Raises:
      ValueError: results of one measure and data differ in other options than those of the fit.
    """
    found = Comparison({}, [], {}, {}, {})
    # Where -> method -> column.
    cells: dict[Where, dict[str, dict[str, Result]]] = {}
    for measure in _MEASURES:
        by_data: dict[str, list[Result]] = {}
        for r in results:
            if (
                r.task == measure.task
                and re.fullmatch(measure.metric, r.metric)
                and r.options.get("fit_on") != "evaluated"
            ):
                by_data.setdefault(str(r.options.get("data") or ""), []).append(r)
        found.data.extend(data for data in by_data if data and data not in found.data)
        for data, of_data in by_data.items():
            column = measure.name if len(by_data) == 1 else f"{measure.name} ({data})"
            found.columns[column] = measure.kind
            for (where, name), several in _widest(of_data).items():
                cells.setdefault(where, {}).setdefault(name, {})[column] = _over_seeds(several)
    pairs: list[tuple[Gains, Where, str, str, Result, Result]] = []
    # The best is chosen by its scores, so that it could have been ahead of any other candidate.
    of_candidates: list[tuple[Result, Result]] = []
    for where, methods in cells.items():
        original = methods.pop("original", {})
        pairs += [
            (found.gains, where, name, measure, original[measure], after)
            for name, of in methods.items()
            for measure, after in of.items()
            if measure in original
        ]
        if means := _candidates(methods, original, found.columns):
            best = found.best[where] = max(means, key=lambda name: means[name])
            pairs += [
                (found.leads, where, name, measure, before, methods[best][measure])
                for name, of in methods.items()
                for measure, before in of.items()
                if name != best and measure in methods[best]
            ]
            of_candidates += [
                (before, methods[other][measure])
                for name, other in combinations(means, 2)
                for measure, before in methods[name].items()
                if measure in methods[other]
            ]
    tested = {number: both for number, pair in enumerate(pairs) if (both := _queries(*pair[-2:]))}
    others = [both for pair in of_candidates if (both := _queries(*pair))]
    spans = dict(zip(tested, simultaneous_intervals([*tested.values()], others=others), strict=True))
    for number, (table, where, name, measure_name, before, after) in enumerate(pairs):
        low, high = spans.get(number, (nan, nan))
        gain = Gain(after.value - before.value, *((None, None) if isnan(low) else (low, high)))
        table.setdefault(where, {}).setdefault(name, {})[measure_name] = gain
    return found


def _widest(results: Sequence[Result]) -> dict[tuple[Where, str], list[Result]]:
    """The results of each encoder, layer and method, over all seeds.

    Of means over several sets of languages, that which most methods have, and of these the largest.
    """
    groups: dict[str, dict[tuple[Where, str], list[Result]]] = {}
    for r in results:
        groups.setdefault(r.metric, {}).setdefault(((r.encoder, r.layer), _name(r)), []).append(r)
    widest = max(groups.values(), key=lambda of: (len(of), max(len(r[0].languages) for r in of.values())))
    of_where: dict[Where, list[Result]] = {}
    for (where, _), several in widest.items():
        of_where.setdefault(where, []).extend(several)
    for (_, layer), several in of_where.items():
        first, *others = map(_options, several)
        for other in others:
            if different := [name for name in {**first, **other} if first.get(name) != other.get(name)]:
                name = different[0]
                raise ValueError(
                    f"results of {several[0].task} at layer {layer} have {name} {first.get(name)!r} and "
                    f"{other.get(name)!r}; give a folder with one of them"
                )
    for (where, name), several in widest.items():
        if len({(r.fitted_on, r.seed) for r in several}) < len(several) or len({r.fitted_on for r in several}) > 1:
            fitted = " and ".join(sorted({r.fitted_on or "nothing" for r in several}))
            raise ValueError(
                f"there are {len(several)} results of {name} at layer {where[1]} in {several[0].task}, "
                f"{several[0].metric}, fitted on {fitted}; give a folder with one of them"
            )
    return widest


def _options(result: Result) -> dict[str, Any]:
    """What results must have in common to be compared."""
    of_task = {name: value for name, value in result.options.items() if name not in _OF_FITS}
    return of_task | {name: getattr(result, name) for name in _OF_ENCODERS}


def _candidates(
    methods: Mapping[str, Mapping[str, Result]], original: Mapping[str, Result], columns: Mapping[str, Kind]
) -> dict[str, float]:
    """The methods that need no language and are one affine map, with their mean gains across languages."""
    most = max((len(of) for of in methods.values()), default=0)
    means = {}
    for name, of in methods.items():
        gained = [
            result.value - original[key].value
            for key, result in of.items()
            if columns[key] == "across languages" and key in original
        ]
        if gained and len(of) == most and all(result.one_map for result in of.values()):
            means[name] = float(np.mean(gained))
    return means


def _queries(before: Result, after: Result) -> tuple[QueryScores, QueryScores] | None:
    """The scores of the queries of both, if they have them of the same."""
    first, second = before.queries, after.queries
    return (first, second) if first is not None and second is not None and first.same(second) else None


def _name(result: Result) -> str:
    """The method's label, without a rank that is full: it differs between tasks, which have other languages."""
    full = len(result.fitted_languages) - 1
    parameters = {key: value for key, value in result.parameters.items() if (key, value) != ("rank", full)}
    return label(result.transform, parameters)


def _over_seeds(results: Sequence[Result]) -> Result:
    """The mean over the seeds of a method, also of the scores of each query."""
    scored = [r.queries for r in results if r.queries is not None]
    queries: QueryScores | None = scored[0] if scored else None
    if queries is not None and len(scored) == len(results) > 1:
        queries = replace(queries, values=np.mean([of.values for of in scored], axis=0))
    return replace(results[0], value=float(np.mean([r.value for r in results])), queries=queries)


def _means(found: Comparison) -> dict[str, dict[str, tuple[float, float]]]:
    """Panel -> method -> mean difference in one language and across languages, of methods that have both."""
    panels: dict[str, dict[str, tuple[float, float]]] = {}
    for (encoder, layer), methods in found.gains.items():
        for name, of_method in methods.items():
            both = [_mean(found, of_method, kind) for kind in ("in one language", "across languages")]
            if np.isfinite(both).all():
                panels.setdefault(f"{encoder}, layer {layer}", {})[name] = both[0], both[1]
    return panels


def _mean(found: Comparison, of_method: Mapping[str, Gain], kind: Kind) -> float:
    values = [gain.value for column, gain in of_method.items() if found.columns[column] == kind]
    return float(np.mean(values)) if values else np.nan


def _summary(found: Comparison) -> list[str]:
    """The best method of each encoder and layer, in a line."""
    lines = []
    for (encoder, layer), best in found.best.items():
        of = found.gains[encoder, layer][best]
        measured = [gain for column, gain in of.items() if found.columns[column] != "preference"]
        up, down = (sum(gain.sign == sign for gain in measured) for sign in (1, -1))
        alone = _mean(found, of, "in one language")
        cost = "" if np.isnan(alone) else f" and {alone:+.1f} in one language"
        lines.append(
            f"{encoder}, layer {layer}: of the methods that need no language and are one affine map, {best} gains "
            f"most: {_mean(found, of, 'across languages'):+.1f} points across languages{cost}, on average; of "
            f"{len(measured)} measures, {up} are significantly higher and {down} significantly lower."
        )
    return lines


def _lines(found: Comparison) -> list[str]:
    """The page in Markdown, a block a line."""
    tables = (found.gains, found.leads)
    count = sum(
        gain.low is not None
        for gains in tables
        for of in gains.values()
        for row in of.values()
        for gain in row.values()
    )
    lines = [
        f"# {_TITLE}",
        "Differences from the original embeddings, in points. Small: intervals that hold at once in 95% of resamples "
        f"of the queries for these {count} differences and for all between the methods of which the best is chosen. "
        "▲ and ▼: such an interval is above or below zero. Without an interval, queries are not scored one by one. "
        "Higher is better, except of the preference for the query's own language, which would be 100 / L percent of L "
        "languages if there were none.",
        *([f"Data: {', '.join(found.data)}."] if found.data else []),
        *_summary(found),
        "![Mean difference in one language and across languages, a mark for each method](tradeoff.png)",
    ]
    for where, methods in found.gains.items():
        name = "{}, layer {}".format(*where)
        lines += [
            _table(
                f"{name}: {kind}", methods, [c for c, of in found.columns.items() if of == kind], kind != "preference"
            )
            for kind in _KINDS
        ]
        if where in found.leads:
            title = f"{name}: {found.best[where]} minus another method"
            columns = [column for column, kind in found.columns.items() if kind != "preference"]
            lines.append(_table(title, found.leads[where], columns))
    return [line for line in lines if line]


def _table(
    title: str, methods: Mapping[str, Mapping[str, Gain]], columns: Sequence[str], higher_is_better: bool = True
) -> str:
    """A table in Markdown, of the columns that some method has; empty without any."""
    names = [name for name in columns if any(name in of for of in methods.values())]
    rows = [
        [Cell(method), *(of[name].cell(higher_is_better) if name in of else Cell("") for name in names)]
        for method, of in methods.items()
    ]
    return Table(title, ["", *names], rows).markdown() if names else ""
