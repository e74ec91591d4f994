"""The picture of what a transform does: t-SNE before and after, coloured once by language and once by meaning."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from eval.figures.embedding_space import tsne
from eval.figures.plots import COLOURED
from lsar_jax.arrays import unit_rows
from lsar_jax.files import new_file
from train.marks import mark

__all__ = ["draw_meaning", "flat"]

# Meanings that are coloured.
_SHOWN = 10


def flat(panels: Mapping[str, Float[np.ndarray, "vector dim"]]) -> dict[str, Float[np.ndarray, "vector 2"]]:
    """Returns the t-SNE of each panel's unit vectors, whose distances are those of the cosine."""
    return {name: tsne(np.asarray(unit_rows(jnp.asarray(x)))) for name, x in panels.items()}


def draw_meaning(
    planes: Mapping[str, Float[np.ndarray, "vector 2"]],
    languages: Sequence[str],
    units: Int[np.ndarray, " vector"] | None,
    path: Path,
    *,
    dark: bool = False,
) -> None:
    """Draws the planes side by side, coloured by language, and below them by meaning, translations joined by lines.

    Args:
      planes: title -> points in the plane; rows correspond to ``languages``.
      languages: language code of each row.
      units: number of the meaning of each row, the same for translations; None if there are no translations.
      path: the PNG to write.
      dark: draw for a dark page; the background is transparent in both cases.
    """
    labels = np.array(languages)
    every = sorted(set(languages))
    coloured = [code for code in COLOURED if code in every] if len(every) > _SHOWN else every
    figure = Figure(figsize=(4.9 * len(planes) + 1.4, 4.4 * (1 if units is None else 2)), layout="constrained")
    grid = figure.subplots(1 if units is None else 2, len(planes), squeeze=False)
    ink, faint = ("#e6e6e6", "#5a5a5a") if dark else ("#1a1a1a", "#c9c9c9")
    for axis, (title, plane) in zip(grid[0], planes.items(), strict=True):
        _frame(axis, title, ink, faint)
        rest = plane[~np.isin(labels, coloured)]
        if len(rest):
            axis.scatter(rest[:, 0], rest[:, 1], s=7, color=faint, linewidths=0, label="other")
        for index, code in enumerate(coloured):
            _points(axis, plane[labels == code], index, code)
    _legend(figure, grid[0][-1], "language", ink)
    if units is not None:
        shown = _spread(np.unique(units))
        for axis, plane in zip(grid[1], planes.values(), strict=True):
            _frame(axis, "", ink, faint)
            rest = plane[~np.isin(units, shown)]
            axis.scatter(rest[:, 0], rest[:, 1], s=4, color=faint, alpha=0.6, linewidths=0)
            for index, unit in enumerate(shown):
                points = plane[units == unit]
                middle = np.median(points, axis=0)
                lines = np.stack([np.broadcast_to(middle, points.shape), points], axis=1)
                axis.add_collection(
                    LineCollection(list(lines), colors=mark(index)["color"], linewidths=0.7, alpha=0.55)
                )
                _points(axis, points, index, f"{index + 1}")
        _legend(figure, grid[1][-1], "meaning", ink)
    for row, what in zip(grid, ("coloured by language", "coloured by meaning,\ntranslations joined"), strict=False):
        row[0].set_ylabel(what, color=ink, fontsize=11)
    with new_file(path) as partial:
        figure.savefig(partial, dpi=110, transparent=True)


def _frame(axis: Axes, title: str, ink: str, faint: str) -> None:
    axis.set_title(title, color=ink, fontsize=11)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color(faint)


def _points(axis: Axes, points: Float[np.ndarray, "vector 2"], index: int, label: str) -> None:
    axis.scatter(points[:, 0], points[:, 1], s=20, linewidths=0, label=label, **mark(index))


def _legend(figure: Figure, axis: Axes, title: str, ink: str) -> None:
    handles, names = axis.get_legend_handles_labels()
    axis.legend(
        handles, names, title=title, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8.5,
        labelcolor=ink, title_fontsize=9, markerscale=1.2,
    ).get_title().set_color(ink)  # fmt: skip


def _spread(units: Int[np.ndarray, " unit"]) -> Int[np.ndarray, " shown"]:
    """Returns at most ten of the units, evenly spaced."""
    shown = min(len(units), _SHOWN)
    return units[np.arange(shown) * len(units) // shown]
