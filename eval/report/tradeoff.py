"""What each method costs in one language, and gains across languages: a page and a picture of the results of tasks.

    python -m eval all --profile full --encoder bundled --out results/all
    python -m eval tradeoff results/all

Cells are differences from the original embeddings of the same encoder and layer, on the same queries, with intervals
that hold for all cells of the page at once in 95% of resamples: ▲ and ▼ stand where such an interval does not contain
zero. Where a task has no scores of queries (STS17), there is no interval and no mark. Methods that were fitted on the
evaluated sentences themselves are left out. In the picture, a method is at its mean difference in one language and
across languages, a panel for each encoder and layer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

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

__all__ = ["NOT_ONE_MAP", "Gain", "Tradeoff", "gains", "read_all"]

Kind = Literal["across languages", "in one language", "preference"]


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


# (encoder, layer) -> method -> name of a measure -> its gain.
Gains = dict[tuple[str, int], dict[str, dict[str, Gain]]]


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
        found = gains(read_all(self.folder))
        if not found:
            names = ", ".join(sorted({measure.task for measure in _MEASURES}))
            raise ValueError(
                f"{self.folder} has no results of several methods of one of {names}; run python -m eval all"
            )
        self.write(found)

    def write(self, found: Gains) -> None:
        """Writes the page and the picture of what ``gains`` found."""
        pages = [self.folder / f"tradeoff.{end}" for end in ("md", "html", "png")]
        ours = pages[0].is_file() and _TITLE in pages[0].read_text(encoding="utf-8", errors="replace")
        check_outputs(pages, overwrite=self.overwrite or ours)
        text = "\n\n".join(_lines(found)) + "\n"
        write_text(pages[0], text)
        write_text(pages[1], as_html(_TITLE, text))
        tradeoff_figure(_means(found), pages[2])
        for line in _best(found):
            console.print(line)
        console.print(f"wrote {pages[1]}")


_TITLE = "What each method costs and gains"


def read_all(folder: Path) -> list[Result]:
    """Reads the results in a folder and those below it."""
    return [result for path in sorted(folder.rglob("results.jsonl")) for result in read_results(path)]


def gains(results: Sequence[Result]) -> Gains:
    """The differences of all methods from the original, of each measure that the results have, encoder and layer."""
    pairs: dict[tuple[tuple[str, int], str, str], tuple[Result, Result]] = {}
    for measure in _MEASURES:
        groups: dict[tuple[str, int], dict[str, list[Result]]] = {}
        of_task = [r for r in results if r.task == measure.task and re.fullmatch(measure.metric, r.metric)]
        # Of means over several sets of languages, that over the largest.
        widest = max(of_task, key=lambda r: len(r.languages)).metric if of_task else ""
        for r in of_task:
            evaluated = r.options.get("fit_on") == "evaluated" and r.transform != "original"
            if r.metric == widest and not evaluated:
                groups.setdefault((r.encoder, r.layer), {}).setdefault(_name(r), []).append(r)
        for where, methods in groups.items():
            for name, several in methods.items():
                if name != "original" and "original" in methods:
                    pairs[where, name, measure.name] = methods["original"][0], _over_seeds(several)
    tested = {
        key: (a.queries, b.queries)
        for key, (a, b) in pairs.items()
        if a.queries is not None and b.queries is not None and a.queries.same(b.queries)
    }
    spans = dict(zip(tested, intervals_at_once(list(tested.values())), strict=True)) if tested else {}
    found: Gains = {}
    for (where, name, measure_name), (before, after) in pairs.items():
        gain = Gain(after.value - before.value, *spans.get((where, name, measure_name), ()))
        found.setdefault(where, {}).setdefault(name, {})[measure_name] = gain
    return found


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


def _best(found: Gains) -> list[str]:
    """The best method that needs no language and exports as one map, for each encoder and layer, in a line."""
    lines = []
    for (encoder, layer), methods in found.items():
        shared = {name: of for name, of in methods.items() if name.split()[0] not in NOT_ONE_MAP}
        means = {name: _mean(of, "across languages") for name, of in shared.items()}
        # Only methods that all tasks measured are compared.
        most = max(map(len, methods.values()))
        means = {name: mean for name, mean in means.items() if np.isfinite(mean) and len(shared[name]) == most}
        if not means:
            continue
        best = max(means, key=lambda name: means[name])
        measured = [shared[best][m.name] for m in _MEASURES if m.kind != "preference" and m.name in shared[best]]
        up, down = (sum(gain.sign == sign for gain in measured) for sign in (1, -1))
        alone = _mean(shared[best], "in one language")
        cost = "" if np.isnan(alone) else f" and {alone:+.1f} in one language"
        lines.append(
            f"{encoder}, layer {layer}: of the methods that need no language and are one affine map, {best} gains "
            f"most: {means[best]:+.1f} points across languages{cost}, on average; of {len(measured)} measures, {up} "
            f"are surely higher and {down} surely lower."
        )
    return lines


def _lines(found: Gains) -> list[str]:
    """The page in Markdown, a block a line."""
    count = sum(gain.low is not None for of in found.values() for gains in of.values() for gain in gains.values())
    lines = [
        f"# {_TITLE}",
        "Differences from the original embeddings, in points. Small: intervals that hold for all "
        f"{count} differences at once in 95% of resamples of the queries. ▲ and ▼: such an interval is above or below "
        "zero. Without an interval, queries are not scored one by one. Higher is better, except of the preference for "
        "the query's own language, which would be 100 / L percent of L languages if there were none.",
        *_best(found),
        "![Mean difference in one language and across languages, a mark for each method](tradeoff.png)",
    ]
    for (encoder, layer), methods in found.items():
        for kind in ("across languages", "in one language", "preference"):
            names = [m.name for m in _MEASURES if m.kind == kind and any(m.name in of for of in methods.values())]
            if names:
                rows = [
                    [Cell(method), *(of[name].cell() if name in of else Cell("") for name in names)]
                    for method, of in methods.items()
                ]
                lines.append(Table(f"{encoder}, layer {layer}: {kind}", ["", *names], rows).markdown())
    return lines
