"""Figures of the results of tasks: bars by method, heat maps, curves by rank and by layer."""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.figures.style import heat_map, page
from lsar_jax.measures.compared_methods import CSLS
from lsar_jax.measures.resampling import Interval
from lsar_jax.report.planes import lines, mark

__all__ = ["bars", "by_rank", "heat_maps", "rank_curves", "sweep_figure", "tradeoff_figure"]


def bars(values: Mapping[str, Mapping[str, Interval]], ylabel: str, title: str, path: Path) -> None:
    """Draws the percentages of group -> method -> value as groups of bars, with their intervals."""
    from matplotlib import colormaps

    methods = list(dict.fromkeys(method for group in values.values() for method in group))
    width, size = 0.8 / len(methods), (1.6 + 0.75 * len(methods) * len(values), 4.2)
    with page(path, size=size, title=title, legend="lower center", legend_columns=len(methods)) as [[axis]]:
        for index, method in enumerate(methods):
            left = np.arange(len(values)) + (index - (len(methods) - 1) / 2) * width
            spans = [group.get(method, Interval(np.nan)) for group in values.values()]
            heights, low, high = np.array(spans).T
            drawn = axis.bar(
                left, heights, 0.92 * width, label=method, color=colormaps["viridis"](index / len(methods)),
                # An interval of no width can be beside its value by a rounding.
                yerr=np.maximum((heights - low, high - heights), 0), capsize=2, ecolor="0.3",
            )  # fmt: skip
            axis.bar_label(drawn, fmt="%.1f", fontsize=8)
        axis.set_xticks(range(len(values)), list(values))
        axis.set(ylabel=ylabel, ylim=(0, 108))


def heat_maps(
    panels: Mapping[str, Float[np.ndarray, "question answer"]], codes: Sequence[str], title: str, path: Path
) -> None:
    """Draws percentages for each language of the question and of the answer, four tables per line."""
    rows, columns = -(-len(panels) // 4), min(4, len(panels))
    with page(path, rows, columns, size=(3.4 * columns + 0.8, 3.4 * rows + 0.4), title=title) as axes:
        for axis, (name, values) in zip(axes.flat, panels.items(), strict=False):
            image = heat_map(axis, values, codes, codes, vmin=0, vmax=100)
            axis.set(title=name, xlabel="answer", ylabel="question")
        axes[0, 0].figure.colorbar(image, ax=axes, shrink=0.8)


def rank_curves(panels: Mapping[str, Mapping[str, float]], ylabel: str, title: str, path: Path) -> None:
    """Draws values of panel -> method label by the rank of LSAR or LIR's components (Xie et al. 2022, Figures 6, 7).

    Methods without a rank are horizontal lines. Nothing is drawn if no method has several ranks.
    """
    ranked = {panel: by_rank(values) for panel, values in panels.items()}
    if not any(ranked.values()):
        return
    with page(path, 1, len(panels), size=(4.4 * len(panels) + 1.6, 4.2), title=title, sharey=True) as [axes]:
        for axis, (panel, values) in zip(axes, panels.items(), strict=True):
            curves = ranked[panel]
            lines(axis, {name: {rank: values[label] for rank, label in of.items()} for name, of in curves.items()})
            flat = [label for label in values if label.split()[0] not in curves]
            for label, style in zip(flat, cycle(("--", ":", "-.")), strict=False):
                axis.axhline(values[label], color="0.4", ls=style, lw=1, label=label)
            axis.set(xlabel="dimensions removed", title=panel)
        axes[0].set_ylabel(ylabel)
        axes[-1].legend()


def sweep_figure(grid: Mapping[str, Mapping[int, float]], layers: Sequence[int], title: str, path: Path) -> None:
    """Draws method label -> layer -> percentage: each method at its best rank by layer, and a heat map of all ranks."""
    ranked = by_rank(grid)
    curves: dict[str, dict[int, float]] = {}
    for label, values in grid.items():
        method = label.split()[0]
        curve = curves.setdefault(f"{method}, best rank" if method in ranked else method, {})
        curve |= {layer: max(values[layer], curve.get(layer, -np.inf)) for layer in layers}
    shown = [label for of in ranked.values() for label in of.values()]
    low = min((min(grid[label].values()) for label in shown), default=0)
    high = max(max(row.values()) for row in grid.values())
    size, widths = (6.2 + 3.6 * len(ranked), 4.6), [1.6] + [1.0] * len(ranked)
    with page(path, 1, 1 + len(ranked), size=size, title=title, width_ratios=widths) as [[first, *axes]]:
        lines(first, curves)
        first.set(xlabel="layer", ylabel="%", xticks=layers)
        first.legend()
        for axis, (method, labels) in zip(axes, ranked.items(), strict=True):
            table = np.array([[grid[label][layer] for layer in layers] for label in labels.values()])
            image = heat_map(axis, table, list(labels), layers, aspect="auto", origin="lower", vmin=low, vmax=high)
            axis.set(title=method, xlabel="layer")
        if ranked:
            axes[0].set_ylabel("dimensions removed")
            first.figure.colorbar(image, ax=axes[-1], label="%")


def tradeoff_figure(panels: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Draws each method at its mean difference in one language and across languages; nothing without methods."""
    if not panels:
        return
    names = list(dict.fromkeys(name.replace(CSLS, "") for methods in panels.values() for name in methods))
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    title = "What methods cost in one language and gain across languages, mean difference in points"
    title += " (hollow: by CSLS)" * any(CSLS in name for methods in panels.values() for name in methods)
    size = (4.4 * columns + 2.4, 4 * rows + 0.4)
    with page(path, rows, columns, size=size, title=title, legend="right center", sharey=True) as axes:
        for axis, (panel, methods) in zip(axes.flat, panels.items(), strict=False):
            for name, (alone, across) in methods.items():
                plain = name.replace(CSLS, "")
                # The plain method, where it is drawn, is in the legend for both.
                label = "" if name != plain and plain in methods else name
                drawn = axis.scatter(alone, across, s=40, label=label, **mark(names.index(plain)))
                if name != plain:
                    drawn.set_facecolor("none")
            axis.axhline(0, color="0.6", linewidth=0.8, zorder=0)
            axis.axvline(0, color="0.6", linewidth=0.8, zorder=0)
            axis.set(title=panel, xlabel="in one language")
        for row in axes:
            row[0].set_ylabel("across languages")


def by_rank(labels: Mapping[str, object]) -> dict[str, dict[int, str]]:
    """Method -> rank of LSAR or components of LIR -> label, of the methods that have several."""
    ranked: dict[str, dict[int, str]] = {}
    for label in labels:
        if match := re.fullmatch(r"(\S+) (?:rank|components)=(\d+)", label):
            ranked.setdefault(match[1], {})[int(match[2])] = label
    return {method: dict(sorted(of.items())) for method, of in ranked.items() if len(of) > 1}
