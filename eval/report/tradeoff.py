"""The costs of each method in one language, and its gains across languages: a section of the report.

Cells are differences from the original embeddings of the same encoder and layer, on the same queries, with intervals
that hold for all cells of the section at once in 95% of resamples: ▲ and ▼ stand where such an interval does not
contain zero. A second table has the differences of the best method that needs no language and is one affine map from
each of the others. Methods that were fitted on the evaluated sentences themselves are left out. In the picture, a
method is at its mean difference in one language and across languages, a panel for each encoder and layer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import nan
from typing import Any, NamedTuple, get_args

import numpy as np

from eval.report.scaling_alone import scaling_alone
from eval.report.tables import Cell, Table, difference_cell
from lsar_jax.corpora.by_language import group_by
from lsar_jax.measures.compared_methods import label
from lsar_jax.measures.metric import Kind
from lsar_jax.measures.resampling import Interval, simultaneous_intervals
from lsar_jax.measures.results import Result
from lsar_jax.report.page_kit import render

__all__ = ["TITLE", "CostsAndGains", "blocks", "compare", "mean_gains", "over_seeds", "summary"]

TITLE = "What each method costs and gains"
# Options and attributes in which results of one column may differ: what a method was fitted on.
_OF_FITS = ("fit_on", "fit_count", "fit_languages", "parallel", "method")
_OF_ENCODERS = ("revision", "pooling", "dtype", "max_length", "dim", "final_norm", "prompt")

# Encoder and layer, method and column.
Place = tuple[str, str, str]
Differences = dict[Place, Interval]


class CostsAndGains(NamedTuple):
    """Differences between methods, whose intervals hold at once.

    Attributes:
      kinds: kind of each column, which is a metric of a task, with the data where several were measured.
      data: files that were read.
      best: the method that gains most across languages on average, of those that need no language and are one affine
        map; only methods that all tasks measured are compared.
      gains: difference of each method from the original embeddings, in points.
      leads: difference of the best method from each of the others.
    """

    kinds: dict[str, Kind]
    data: list[str]
    best: dict[str, str]
    gains: Differences
    leads: Differences


def compare(results: Sequence[Result]) -> CostsAndGains:
    """Compares all methods, in each metric whose kind says what it tells of them, for each encoder and layer.

    Raises:
      ValueError: results of one metric and data differ in options that are not of the fit.
    """
    measured = [r for r in results if r.kind and r.options.get("fit_on") != "evaluated"]
    columns = _columns(measured)
    kinds = {column: next(iter(of.values())).kind for column, of in columns.items()}
    rows: dict[str, dict[str, dict[str, Result]]] = {}
    for column, of in columns.items():
        for (where, name), result in of.items():
            rows.setdefault(where, {}).setdefault(name, {})[column] = result
    gains: dict[Place, tuple[Result, Result]] = {}
    leads: dict[Place, tuple[Result, Result]] = {}
    best: dict[str, str] = {}
    # The best is chosen by its scores, so that it could have been ahead of any other candidate.
    others: list[tuple[Result, Result]] = []
    for where, methods in rows.items():
        original = methods.pop("original", {})
        gains |= {(where, name, c): pair for name, of in methods.items() for c, pair in _both(original, of).items()}
        if means := _candidates(methods, original, kinds):
            top = best[where] = max(means, key=lambda name: means[name])
            rest = {name: _both(of, methods[top]) for name, of in methods.items() if name != top}
            leads |= {(where, name, c): pair for name, of in rest.items() for c, pair in of.items()}
            others += [pair for a, b in combinations(means, 2) for pair in _both(methods[a], methods[b]).values()]
    intervals = iter(_at_once([*gains.values(), *leads.values()], others))
    data = list(dict.fromkeys(str(r.options["data"]) for r in measured if r.options.get("data")))
    of_gains, of_leads = ({place: next(intervals) for place in places} for places in (gains, leads))
    return CostsAndGains(kinds, data, best, of_gains, of_leads)


def _both(before: Mapping[str, Result], after: Mapping[str, Result]) -> dict[str, tuple[Result, Result]]:
    """The results of two methods in the columns that both have."""
    return {column: (before[column], result) for column, result in after.items() if column in before}


def mean_gains(found: CostsAndGains) -> dict[str, dict[str, tuple[float, float]]]:
    """Returns panel -> method -> mean difference in one language and across languages, of methods that have both.

    The means of a panel are over the columns that all of its methods have.
    """
    both = [at for at in dict.fromkeys(place[:2] for place in found.gains) if not np.isnan(_means(found, *at)).any()]
    means = {}
    for where, panel in group_by(both, lambda at: at[0]).items():
        shared = {*found.kinds}.intersection(*(_gains(found, *at) for at in panel))
        means[where] = {name: _means(found, where, name, shared) for _, name in panel}
    return means


def summary(found: CostsAndGains) -> list[str]:
    """Returns lines about what CSLS reaches alone, and about the best method of each encoder and layer."""
    lines = scaling_alone(found.gains, found.kinds)
    for where, best in found.best.items():
        signs = [gain.sign for c, gain in _gains(found, where, best).items() if found.kinds[c] != "preference"]
        alone, across = _means(found, where, best)
        cost = "" if np.isnan(alone) else f" and {alone:+.1f} in one language"
        lines.append(
            f"{where}: of the methods that need no language and are one affine map, {best} gains most: {across:+.1f} "
            f"points across languages{cost}, on average; of {len(signs)} measures, {signs.count(1)} are significantly "
            f"higher and {signs.count(-1)} significantly lower."
        )
    return lines


def blocks(found: CostsAndGains) -> list[str]:
    """Returns the section in Markdown."""
    count = sum(difference.known for of in (found.gains, found.leads) for difference in of.values())
    lines, pictured = summary(found), bool(mean_gains(found))
    words = render("tradeoff.txt", title=TITLE, count=count, data=found.data, lines=lines, pictured=pictured)
    parts = [words.strip()]
    for where in dict.fromkeys(place[0] for place in found.gains):
        parts += [_table(f"{where}: {kind}", found.gains, where, found.kinds, (kind,)) for kind in get_args(Kind)]
        if where in found.best:
            title = f"{where}: {found.best[where]} minus another method"
            parts.append(_table(title, found.leads, where, found.kinds, ("across languages", "in one language")))
    return [part for part in parts if part]


def _table(title: str, differences: Differences, where: str, kinds: Mapping[str, Kind], shown: Sequence[Kind]) -> str:
    """A table in Markdown of the columns that some method has; empty without any."""
    here = {(name, column): d for (at, name, column), d in differences.items() if at == where}
    methods = dict.fromkeys(name for name, _ in here)
    columns = [c for c, kind in kinds.items() if kind in shown and any((name, c) in here for name in methods)]
    rows = []
    for name in methods:
        found = [here.get((name, column)) for column in columns]
        cells = [difference_cell(d, higher_is_better="preference" not in shown) if d else Cell("") for d in found]
        rows.append([Cell(name), *cells])
    return Table(title, ["", *columns], rows).markdown() if columns else ""


def _columns(results: Sequence[Result]) -> dict[str, dict[tuple[str, str], Result]]:
    """Column -> encoder and layer, and method -> its result, the mean over seeds."""
    columns = {}
    for name, of in group_by(results, lambda r: f"{r.task}, {r.column or r.metric}").items():
        by_data = group_by(of, lambda r: str(r.options.get("data") or ""))
        for data, of_data in by_data.items():
            column = name if len(by_data) == 1 else f"{name} ({data})"
            columns[column] = {place: over_seeds(several) for place, several in _widest(of_data).items()}
    return columns


def _widest(results: Sequence[Result]) -> dict[tuple[str, str], list[Result]]:
    """The results of each encoder, layer and method, over all seeds.

    Of means over several sets of languages, that which most methods have, and of these the largest.
    """
    by_metric = group_by(results, lambda r: r.metric).values()
    groups = [group_by(of, lambda r: (f"{r.encoder}, layer {r.layer}", _name(r))) for of in by_metric]
    widest = max(groups, key=lambda of: (len(of), max(len(r[0].languages) for r in of.values())))
    first: dict[str, dict[str, Any]] = {}
    for (where, name), several in widest.items():
        task, layer = several[0].task, several[0].layer
        for other in map(_options, several):
            same = first.setdefault(where, other)
            if different := [option for option in {**same, **other} if same.get(option) != other.get(option)]:
                values = " and ".join(repr(of.get(different[0])) for of in (same, other))
                raise ValueError(f"{task} at layer {layer} has {different[0]} {values}; give a folder with one of them")
        texts = {r.fitted_on for r in several}
        if len({r.seed for r in several}) < len(several) or len(texts) > 1:
            raise ValueError(
                f"there are {len(several)} results of {name} at layer {layer} in {task}, {several[0].metric}, fitted "
                f"on {' and '.join(sorted(text or 'nothing' for text in texts))}; give a folder with one of them"
            )
    return widest


def _options(result: Result) -> dict[str, Any]:
    """The options that must be the same for results to be compared."""
    of_task = {name: value for name, value in result.options.items() if name not in _OF_FITS}
    return of_task | {name: getattr(result, name) for name in _OF_ENCODERS}


def _candidates(
    methods: Mapping[str, Mapping[str, Result]], original: Mapping[str, Result], kinds: Mapping[str, Kind]
) -> dict[str, float]:
    """The methods that need no language and are one affine map, with their mean gains across languages."""
    most = max((len(of) for of in methods.values()), default=0)
    means = {}
    for name, of in methods.items():
        pairs = [pair for c, pair in _both(original, of).items() if kinds[c] == "across languages"]
        if pairs and len(of) == most and all(result.one_map for result in of.values()):
            means[name] = float(np.mean([after.value - before.value for before, after in pairs]))
    return means


def _at_once(pairs: Sequence[tuple[Result, Result]], others: Sequence[tuple[Result, Result]]) -> list[Interval]:
    """Differences of pairs; those on the same queries have simultaneous intervals."""
    scored = {n: both for n, pair in enumerate(pairs) if (both := pair[0].paired(pair[1]))}
    further = [both for pair in others if (both := pair[0].paired(pair[1]))]
    ends = dict(zip(scored, simultaneous_intervals([*scored.values()], others=further), strict=True))
    return [Interval(b.value - a.value, *ends.get(n, (nan, nan))) for n, (a, b) in enumerate(pairs)]


def _name(result: Result) -> str:
    """The method's label, without a rank that is full: it differs between tasks, which have other languages."""
    full = len(result.fitted_languages) - 1
    parameters = {key: value for key, value in result.parameters.items() if (key, value) != ("rank", full)}
    return label(result.transform, parameters)


def over_seeds(results: Sequence[Result]) -> Result:
    """The mean over the seeds of a method, also of the scores of each query."""
    queries, scored = results[0].queries, [r.queries for r in results if r.queries is not None]
    if queries is not None and len(scored) == len(results) > 1:
        queries = replace(queries, values=np.mean([of.values for of in scored], axis=0))
    return replace(results[0], value=float(np.mean([r.value for r in results])), queries=queries)


def _means(
    found: CostsAndGains, where: str, method: str, columns: Collection[str] | None = None
) -> tuple[float, float]:
    """The mean differences of a method in one language and across languages; NaN where it has none."""
    gains = {c: gain.value for c, gain in _gains(found, where, method).items() if columns is None or c in columns}
    kinds = ("in one language", "across languages")
    one, across = ([value for c, value in gains.items() if found.kinds[c] == kind] for kind in kinds)
    return float(np.mean(one)) if one else nan, float(np.mean(across)) if across else nan


def _gains(found: CostsAndGains, where: str, method: str) -> dict[str, Interval]:
    """The differences of a method from the original embeddings, by column."""
    return {column: gain for (*at, column), gain in found.gains.items() if at == [where, method]}
