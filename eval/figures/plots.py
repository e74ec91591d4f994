"""Figures shared by the tasks: scatter plots, bar charts, heat maps, and the layer sweep."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from lsar_jax.arrays import unit_rows
from train.curves import save_figure
from train.marks import line, mark

__all__ = ["bars", "heat_maps", "rank_curves", "scatter", "sweep_figure"]


# Languages with different scripts, from different families; more colours would be hard to tell apart.
COLOURED = ("en", "ru", "zh", "ar", "hi", "th", "sw", "fi", "ta", "ka")


def scatter(panels: Mapping[str, Float[np.ndarray, "vector dim"]], languages: Sequence[str], path: Path) -> None:
    """Draws the first two principal components of each panel's unit vectors, coloured by language.

    At most ten languages are coloured; the rest are grey.

    Args:
      panels: title -> embeddings; rows correspond to ``languages``.
      languages: language code of each row.
      path: the PNG to write.
    """
    labels = np.array(languages)
    every = sorted(set(languages))
    coloured = [code for code in COLOURED if code in every] if len(every) > len(COLOURED) else every
    figure = Figure(figsize=(5.2 * len(panels) + 1, 5))
    axes = figure.subplots(1, len(panels), squeeze=False)
    for axis, (title, x) in zip(axes[0], panels.items(), strict=True):
        unit = np.asarray(unit_rows(jnp.asarray(x)))
        centred = unit - unit.mean(axis=0)
        _, values, rows = np.linalg.svd(centred, full_matrices=False)
        plane = centred @ rows[:2].T
        share = 100 * values[:2] ** 2 / (values**2).sum()
        rest = plane[~np.isin(labels, coloured)]
        if len(rest):
            axis.scatter(rest[:, 0], rest[:, 1], s=10, color="0.85", label="other", linewidths=0)
        for index, code in enumerate(coloured):
            chosen = plane[labels == code]
            axis.scatter(chosen[:, 0], chosen[:, 1], s=22, label=code, linewidths=0, **mark(index))
        axis.set_title(title)
        axis.set_xlabel(f"component 1 ({share[0]:.0f}% of variance)")
        axis.set_ylabel(f"component 2 ({share[1]:.0f}% of variance)")
        axis.set_xticks([])
        axis.set_yticks([])
    handles, names = axes[0][-1].get_legend_handles_labels()
    figure.legend(handles, names, loc="center right", frameon=False, markerscale=1.4)
    figure.tight_layout(rect=(0, 0, 1 - 0.9 / figure.get_size_inches()[0], 1))
    save_figure(figure, path)


def bars(values: Mapping[str, Mapping[str, float]], ylabel: str, title: str, path: Path) -> None:
    """Draws a group of bars for each key of ``values``, with one bar per method.

    Args:
      values: group -> method -> percentage.
      ylabel: label of the y axis.
      title: title of the figure.
      path: the PNG to write.
    """
    methods = list(dict.fromkeys(method for group in values.values() for method in group))
    width = 0.8 / len(methods)
    figure = Figure(figsize=(1.6 + 0.75 * len(methods) * len(values), 4.2))
    axis = figure.subplots()
    for index, method in enumerate(methods):
        at = [place + (index - (len(methods) - 1) / 2) * width for place in range(len(values))]
        heights = [group.get(method, np.nan) for group in values.values()]
        drawn = axis.bar(
            at, heights, 0.92 * width, label=method, color=matplotlib.colormaps["viridis"](index / len(methods))
        )
        axis.bar_label(drawn, fmt="%.1f", fontsize=8, padding=2)
    axis.set_xticks(range(len(values)), list(values))
    axis.set_ylabel(ylabel)
    axis.set_ylim(0, 108)
    axis.set_title(title)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False, ncols=len(methods), loc="upper center", bbox_to_anchor=(0.5, -0.08))
    figure.tight_layout()
    save_figure(figure, path)


def heat_maps(
    panels: Mapping[str, Float[np.ndarray, "row column"]],
    names: Sequence[str],
    row: str,
    column: str,
    title: str,
    path: Path,
) -> None:
    """Draws square tables of percentages side by side, four per line, with a shared colour scale.

    Args:
      panels: title -> values.
      names: labels of both rows and columns.
      row: label of the row axis.
      column: label of the column axis.
      title: title of the figure.
      path: the PNG to write.
    """
    lines = -(-len(panels) // 4)
    columns = min(4, len(panels))
    figure = Figure(figsize=(3.4 * columns + 0.8, 3.4 * lines + 0.4), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for axis in axes.ravel()[len(panels) :]:
        axis.set_visible(False)
    for axis, (name, values) in zip(axes.ravel(), panels.items(), strict=False):
        image = axis.imshow(values, cmap="viridis", vmin=0, vmax=100)
        axis.set_title(name, fontsize=9)
        axis.set_xticks(range(len(names)), names, fontsize=7)
        axis.set_yticks(range(len(names)), names, fontsize=7)
        axis.set_xlabel(column)
        axis.set_ylabel(row)
    figure.colorbar(image, ax=axes, shrink=0.8)
    figure.suptitle(title)
    save_figure(figure, path)


def rank_curves(
    panels: Mapping[str, Mapping[str, float]], ylabel: str, title: str, path: Path
) -> dict[str, dict[int, float]]:
    """Draws a value against the rank of LSAR or the components of LIR, as in Xie et al. 2022, Figures 6 and 7.

    Methods without a rank are horizontal lines. Nothing is drawn if no method has several ranks.

    Args:
      panels: title -> method label -> value.
      ylabel: label of the y axis.
      title: title of the figure.
      path: the PNG to write.

    Returns:
      Title and method, separated by a comma -> rank -> value, of each curve that was drawn.
    """
    curves: dict[str, dict[int, float]] = {}
    for panel, values in panels.items():
        for label, value in values.items():
            if match := re.fullmatch(r"(\S+) (?:rank|components)=(\d+)", label):
                curves.setdefault(f"{panel}, {match[1]}", {})[int(match[2])] = value
    curves = {name: dict(sorted(curve.items())) for name, curve in curves.items() if len(curve) > 1}
    if not curves:
        return {}
    figure = Figure(figsize=(4.4 * len(panels) + 1.6, 4.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (panel, values) in zip(axes, panels.items(), strict=True):
        own = {
            name.removeprefix(f"{panel}, "): curve for name, curve in curves.items() if name.startswith(f"{panel}, ")
        }
        for index, (name, curve) in enumerate(own.items()):
            axis.plot(list(curve), list(curve.values()), ms=3.5, label=name, **line(index))
        flat = {label: value for label, value in values.items() if label.split()[0] not in own}
        for index, (label, value) in enumerate(flat.items()):
            axis.axhline(value, color="0.4", ls=("--", ":", "-.")[index % 3], lw=1, label=label)
        axis.set_xlabel("dimensions removed")
        axis.set_title(panel)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(ylabel)
    axes[-1].legend(frameon=False, fontsize=7.5)
    figure.suptitle(title)
    save_figure(figure, path)
    return curves


def sweep_figure(grid: Mapping[str, Mapping[int, float]], layers: Sequence[int], title: str, path: Path) -> None:
    """Draws each method at its best rank against the layer, and a heat map of rank against layer.

    Args:
      grid: method label -> layer -> percentage; labels that differ only in ``rank=r`` or ``components=k`` are
        treated as one method.
      layers: layers, in plotting order.
      title: title of the figure.
      path: the PNG to write.
    """
    families: dict[str, list[tuple[int, str]]] = {}
    for label in grid:
        match = re.fullmatch(r"(\S+) (?:rank|components)=(\d+)", label)
        name, rank = (match[1], int(match[2])) if match else (label.partition(" ")[0], 0)
        families.setdefault(name, []).append((rank, label))
    ranked = {name: sorted(members) for name, members in families.items() if len(members) > 1}
    figure = Figure(figsize=(6.2 + 3.6 * len(ranked), 4.6), layout="constrained")
    axes = figure.subplots(1, 1 + len(ranked), width_ratios=[1.6] + [1.0] * len(ranked), squeeze=False)[0]
    for index, (name, members) in enumerate(families.items()):
        best = [max(grid[label][layer] for _, label in members) for layer in layers]
        text = name if len(members) == 1 else f"{name}, best rank"
        axes[0].plot(layers, best, ms=4, lw=1.4, label=text, **line(index))
    axes[0].set_xlabel("layer")
    axes[0].set_ylabel("mAP, %")
    axes[0].set_xticks(layers)
    axes[0].spines[["top", "right"]].set_visible(False)
    axes[0].legend(fontsize=7.5, frameon=False)
    shown = [label for members in ranked.values() for _, label in members]
    low = min((min(grid[label].values()) for label in shown), default=0)
    high = max(max(row.values()) for row in grid.values())
    for axis, (name, members) in zip(axes[1:], ranked.items(), strict=True):
        values = np.array([[grid[label][layer] for layer in layers] for _, label in members])
        image = axis.imshow(values, aspect="auto", origin="lower", cmap="viridis", vmin=low, vmax=high)
        axis.set_title(name, fontsize=10)
        axis.set_xticks(range(len(layers)), layers, fontsize=7)
        axis.set_yticks(range(len(members)), [rank for rank, _ in members])
        axis.set_xlabel("layer")
    if ranked:
        axes[1].set_ylabel("dimensions removed")
        figure.colorbar(image, ax=axes[-1], label="mAP, %")
    figure.suptitle(title)
    save_figure(figure, path)
