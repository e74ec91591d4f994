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
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
import tyro

from eval.figures.plots import tradeoff_figure
from eval.methods import label
from eval.report.html_page import as_html
from eval.report.page import Cell, Table
from eval.resampling import Queries, intervals_at_once
from eval.results import Result, read_results
from lsar_jax.cli.console import console
from lsar_jax.files import check_outputs, write_text

__all__ = ["NOT_ONE_MAP", "Comparison", "Gain", "Tradeoff", "compare", "read_all"]

Kind = Literal["across languages", "in one language", "preference"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class Measure(NamedTuple):
    """A column: its name, what it is about, and the task and metric, a regular expression, of its results."""

    name: str
    kind: Kind
    task: str
    metric: str


_MEASURES = (
    Measure("XQuAD-R, pool of all", "across languages", "lareqa", "mAP"),
    Measure("declaration, pool of all", "across languages", "udhr", "mAP"),
    Measure("Tatoeba, from English", "across languages", "tatoeba", r"en-xx mean over \d+"),
    Measure("Tatoeba, into English", "across languages", "tatoeba", r"xx-en mean over \d+"),
    Measure("messages, from English", "across languages", "bitext", r"en-xx mean over \d+"),
    Measure("messages, into English", "across languages", "bitext", r"xx-en mean over \d+"),
    Measure("STS17 across", "across languages", "sts17", "Spearman cross-lingual mean"),
    Measure("topics of all", "across languages", "clustering", "purity"),
    Measure("XQuAD-R, each alone", "in one language", "lareqa", "mAP in one language"),
    Measure("STS17 alone", "in one language", "sts17", "Spearman monolingual mean"),
    Measure("topics, each alone", "in one language", "clustering", "purity in one language"),
    Measure("own language preferred", "preference", "lareqa", "preference"),
)
# Methods whose map depends on the language of a sentence or on the sentence, so that they are not one affine map.
NOT_ONE_MAP = (
    "center", "lir", "language-whitening", "cbie", "linear", "shift", "langsae", "mean+langsae"
)  # fmt: skip


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

    def cell(self) -> Cell:
        """The cell of a table."""
        mark = {1: " ▲", -1: " ▼", 0: ""}[self.sign]
        note = "" if self.low is None else f"{self.low:+.1f} to {self.high:+.1f}"
        return Cell(f"{self.value + 0.0:+.1f}{mark}", self.sign > 0, note)


# Encoder and layer.
Where = tuple[str, int]
# Where -> method -> name of a measure -> its gain.
Gains = dict[Where, dict[str, dict[str, Gain]]]


class Comparison(NamedTuple):
    """Differences between methods, whose intervals hold at once.

    Attributes:
      gains: of each method from the original embeddings.
      best: the method that gains most across languages on average, of those that need no language and are one affine
        map; only methods that all tasks measured are compared.
      leads: of the best method from each of the others.
    """

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
        tradeoff_figure(_means(found.gains), pages[2])
        for line in _summary(found):
            console.print(line)
        console.print(f"wrote {pages[1]}")


_TITLE = "What each method costs and gains"


def read_all(folder: Path) -> list[Result]:
    """Reads the results in a folder and those below it."""
    return [result for path in sorted(folder.rglob("results.jsonl")) for result in read_results(path)]


def compare(results: Sequence[Result]) -> Comparison:
    """Compares all methods, in each measure that the results have, for each encoder and layer."""
    cells: dict[Where, dict[str, dict[str, Result]]] = {}
    for measure in _MEASURES:
        groups: dict[str, dict[tuple[Where, str], list[Result]]] = {}
        for r in results:
            evaluated = r.options.get("fit_on") == "evaluated" and r.transform != "original"
            if r.task == measure.task and re.fullmatch(measure.metric, r.metric) and not evaluated:
                groups.setdefault(r.metric, {}).setdefault(((r.encoder, r.layer), _name(r)), []).append(r)
        # Of means over several sets of languages, that which most methods have, and of these the largest.
        metrics = sorted(groups.values(), key=lambda of: (len(of), max(len(r[0].languages) for r in of.values())))
        for (where, name), several in metrics[-1].items() if metrics else ():
            cells.setdefault(where, {}).setdefault(name, {})[measure.name] = _over_seeds(several)
    pairs: list[tuple[Gains, Where, str, str, Result, Result]] = []
    found = Comparison({}, {}, {})
    for where, methods in cells.items():
        original = methods.pop("original", {})
        pairs += [
            (found.gains, where, name, measure, original[measure], after)
            for name, of in methods.items()
            for measure, after in of.items()
            if measure in original
        ]
        if best := _best(methods, original):
            found.best[where] = best
            pairs += [
                (found.leads, where, name, measure, before, methods[best][measure])
                for name, of in methods.items()
                for measure, before in of.items()
                if name != best
            ]
    tested = {
        number: (before.queries, after.queries)
        for number, (*_, before, after) in enumerate(pairs)
        if before.queries is not None and after.queries is not None and before.queries.same(after.queries)
    }
    spans = dict(zip(tested, intervals_at_once(list(tested.values())), strict=True)) if tested else {}
    for number, (table, where, name, measure_name, before, after) in enumerate(pairs):
        gain = Gain(after.value - before.value, *spans.get(number, ()))
        table.setdefault(where, {}).setdefault(name, {})[measure_name] = gain
    return found


def _best(methods: Mapping[str, Mapping[str, Result]], original: Mapping[str, Result]) -> str:
    """The best of the methods that need no language and are one affine map; empty if there is none."""
    most = max((len(of) for of in methods.values()), default=0)
    across = [m.name for m in _MEASURES if m.kind == "across languages" and m.name in original]
    means = {}
    for name, of in methods.items():
        gained = [of[key].value - original[key].value for key in across if key in of]
        if gained and len(of) == most and name.split()[0] not in NOT_ONE_MAP:
            means[name] = float(np.mean(gained))
    return max(means, key=lambda name: means[name]) if means else ""


def _name(result: Result) -> str:
    """The method's label, without a rank that is full: it differs between tasks, which have other languages."""
    full = len(result.fitted_languages) - 1
    parameters = {key: value for key, value in result.parameters.items() if (key, value) != ("rank", full)}
    return label(result.transform, parameters)


def _over_seeds(results: Sequence[Result]) -> Result:
    """The mean over the seeds of a method, also of the scores of each query."""
    scored = [r.queries for r in results if r.queries is not None]
    queries: Queries | None = scored[0] if scored else None
    if queries is not None and len(scored) == len(results) > 1:
        queries = replace(queries, values=np.mean([of.values for of in scored], axis=0))
    return replace(results[0], value=float(np.mean([r.value for r in results])), queries=queries)


def _means(found: Gains) -> dict[str, dict[str, tuple[float, float]]]:
    """Panel -> method -> mean difference in one language and across languages, of methods that have both."""
    panels: dict[str, dict[str, tuple[float, float]]] = {}
    for (encoder, layer), methods in found.items():
        for name, of_method in methods.items():
            both = [_mean(of_method, kind) for kind in ("in one language", "across languages")]
            if np.isfinite(both).all():
                panels.setdefault(f"{encoder}, layer {layer}", {})[name] = both[0], both[1]
    return panels


def _mean(of_method: Mapping[str, Gain], kind: Kind) -> float:
    values = [
        of_method[measure.name].value for measure in _MEASURES if measure.kind == kind and measure.name in of_method
    ]
    return float(np.mean(values)) if values else np.nan


def _summary(found: Comparison) -> list[str]:
    """The best method of each encoder and layer, in a line."""
    lines = []
    for (encoder, layer), best in found.best.items():
        of = found.gains[encoder, layer][best]
        measured = [of[m.name] for m in _MEASURES if m.kind != "preference" and m.name in of]
        up, down = (sum(gain.sign == sign for gain in measured) for sign in (1, -1))
        alone = _mean(of, "in one language")
        cost = "" if np.isnan(alone) else f" and {alone:+.1f} in one language"
        lines.append(
            f"{encoder}, layer {layer}: of the methods that need no language and are one affine map, {best} gains "
            f"most: {_mean(of, 'across languages'):+.1f} points across languages{cost}, on average; of "
            f"{len(measured)} measures, {up} are surely higher and {down} surely lower."
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
        "Differences from the original embeddings, in points. Small: intervals that hold for all "
        f"{count} differences at once in 95% of resamples of the queries. ▲ and ▼: such an interval is above or below "
        "zero. Without an interval, queries are not scored one by one. Higher is better, except of the preference for "
        "the query's own language, which would be 100 / L percent of L languages if there were none.",
        *_summary(found),
        "![Mean difference in one language and across languages, a mark for each method](tradeoff.png)",
    ]
    for where, methods in found.gains.items():
        name = "{}, layer {}".format(*where)
        lines += [_table(f"{name}: {kind}", methods, [m.name for m in _MEASURES if m.kind == kind]) for kind in _KINDS]
        if where in found.leads:
            title = f"{name}: {found.best[where]} minus another method"
            measures = [m.name for m in _MEASURES if m.kind != "preference"]
            lines.append(_table(title, found.leads[where], measures))
    return [line for line in lines if line]


def _table(title: str, methods: Mapping[str, Mapping[str, Gain]], measures: Sequence[str]) -> str:
    """A table in Markdown, of the measures that some method has; empty without any."""
    names = [name for name in measures if any(name in of for of in methods.values())]
    rows = [
        [Cell(method), *(of[name].cell() if name in of else Cell("") for name in names)]
        for method, of in methods.items()
    ]
    return Table(title, ["", *names], rows).markdown() if names else ""
