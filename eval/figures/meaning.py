"""The picture of what a transform does: t-SNE before and after, coloured once by language and once by meaning."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from lsar_jax.files import new_file
from lsar_jax.report.planes import Plane, draw_languages, draw_units

__all__ = ["draw_meaning"]


def draw_meaning(
    planes: Mapping[str, Plane], languages: Sequence[str], units: Int[np.ndarray, " vector"], path: Path, *,
    dark: bool = False,
) -> None:  # fmt: skip
    """Draws planes by title side by side, coloured by language, and below by meaning, translations joined by lines.

    Points have the codes ``languages``, and translations the same number in ``units``. The background is transparent,
    for a light or a dark page.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.9 * len(planes) + 1.4, 8.8), layout="constrained")
    grid = figure.subplots(2, len(planes), squeeze=False)
    ink, faint = ("#e6e6e6", "#5a5a5a") if dark else ("#1a1a1a", "#c9c9c9")
    for axis, (title, plane) in zip(grid[0], planes.items(), strict=True):
        axis.set_title(title, color=ink, fontsize=11)
        draw_languages(axis, plane, languages, faint)
    for axis, plane in zip(grid[1], planes.values(), strict=True):
        draw_units(axis, plane, units, faint)
    for axis in grid.flat:
        axis.spines[:].set_color(faint)
    for row, title, label in zip(grid, ("language", "meaning"), ("", ",\ntranslations joined"), strict=True):
        row[0].set_ylabel(f"coloured by {title}{label}", color=ink, fontsize=11)
        legend = row[-1].legend(
            title=title, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8.5, labelcolor=ink,
            title_fontsize=9, markerscale=1.2,
        )  # fmt: skip
        legend.get_title().set_color(ink)
    with new_file(path) as partial:
        figure.savefig(partial, dpi=110, transparent=True)
