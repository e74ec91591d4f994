"""The picture of what a transform does: t-SNE before and after, coloured once by language and once by meaning."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from eval.figures.embedding_space import tsne
from eval.figures.style import Plane, points
from lsar_jax.arrays import unit_rows
from lsar_jax.files import new_file
from train.marks import mark

__all__ = ["draw_languages", "draw_meaning", "draw_units", "flat"]

# Languages with different scripts, from different families; more colours would be hard to tell apart.
_COLOURED = ("en", "ru", "zh", "ar", "hi", "th", "sw", "fi", "ta", "ka")
# Languages, and meanings, that are coloured.
_SHOWN = 10


def flat(panels: Mapping[str, Float[np.ndarray, "vector dim"]]) -> dict[str, Plane]:
    """The t-SNE of each panel's unit vectors, whose distances rank as cosines do."""
    return {name: tsne(np.asarray(unit_rows(jnp.asarray(x)))) for name, x in panels.items()}


def draw_meaning(
    planes: Mapping[str, Plane], languages: Sequence[str], units: Int[np.ndarray, " vector"] | None, path: Path, *,
    dark: bool = False,
) -> None:  # fmt: skip
    """Draws planes by title side by side, coloured by language, and below by meaning, translations joined by lines.

    Points have the codes ``languages``, and translations the same number in ``units``, which is None without any. The
    background is transparent, for a light or a dark page.
    """
    from matplotlib.figure import Figure

    rows = 1 if units is None else 2
    figure = Figure(figsize=(4.9 * len(planes) + 1.4, 4.4 * rows), layout="constrained")
    grid = figure.subplots(rows, len(planes), squeeze=False)
    ink, faint = ("#e6e6e6", "#5a5a5a") if dark else ("#1a1a1a", "#c9c9c9")
    for axis, (title, plane) in zip(grid[0], planes.items(), strict=True):
        axis.set_title(title, color=ink, fontsize=11)
        draw_languages(axis, plane, languages, faint)
    if units is not None:
        for axis, plane in zip(grid[1], planes.values(), strict=True):
            draw_units(axis, plane, units, faint)
    for axis in grid.flat:
        axis.spines[:].set_color(faint)
    for row, title, label in zip(grid, ("language", "meaning"), ("", ",\ntranslations joined"), strict=False):
        row[0].set_ylabel(f"coloured by {title}{label}", color=ink, fontsize=11)
        legend = row[-1].legend(
            title=title, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8.5, labelcolor=ink,
            title_fontsize=9, markerscale=1.2,
        )  # fmt: skip
        legend.get_title().set_color(ink)
    with new_file(path) as partial:
        figure.savefig(partial, dpi=110, transparent=True)


def draw_languages(axis: Any, plane: Plane, languages: Sequence[str], faint: str) -> None:
    """Draws points coloured by language, or of many languages ten; the others have the colour ``faint``."""
    codes = sorted(set(languages))
    if len(codes) > _SHOWN:
        codes = [code for code in _COLOURED if code in codes]
    others = plane[~np.isin(languages, codes)]
    if len(others):
        axis.scatter(*others.T, s=7, color=faint, linewidths=0, label="other")
    points(axis, plane, languages, codes, s=20)


def draw_units(axis: Any, plane: Plane, units: Int[np.ndarray, " vector"], faint: str) -> None:
    """Draws points of ten units in colours, joined by lines; the others have the colour ``faint``."""
    from matplotlib.collections import LineCollection

    distinct = np.unique(units)
    shown = distinct[np.arange(min(len(distinct), _SHOWN)) * len(distinct) // min(len(distinct), _SHOWN)]
    numbers = {unit: f"{number}" for number, unit in enumerate(shown, 1)}
    axis.scatter(*plane[~np.isin(units, shown)].T, s=4, color=faint, alpha=0.6, linewidths=0)
    for index, unit in enumerate(shown):
        translations = plane[units == unit]
        lines = [(np.median(translations, axis=0), point) for point in translations]
        axis.add_collection(LineCollection(lines, colors=mark(index)["color"], linewidths=0.7, alpha=0.55))
    points(axis, plane, [numbers.get(unit, "") for unit in units], list(numbers.values()), s=20)
