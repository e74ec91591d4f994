"""Figures of what LSAR removes: its first directions by language family, and syntax in the means of languages."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from eval.figures.geometry import Plane, bare
from eval.figures.language_families import families_of, family
from train.curves import save_figure
from train.marks import line, mark

__all__ = ["families", "family_histograms", "removed", "syntax"]

_BINS = 40


def removed(panels: Mapping[str, Plane], codes: Sequence[str], path: Path) -> None:
    """Draws coordinates along two directions that a method removes, coloured by language family.

    Language codes mark the language means.

    Args:
      panels: title -> coordinates; rows correspond to ``codes``.
      codes: language code of each row.
      path: the PNG to write.
    """
    names = families_of(codes)
    labels = np.array(codes)
    figure = Figure(figsize=(5 * len(panels) + 1.6, 4.8), layout="constrained")
    for axis, (title, plane) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for index, name in enumerate(names):
            own = np.array([family(code) == name for code in codes])
            axis.scatter(plane[own, 0], plane[own, 1], s=10, alpha=0.6, label=name, linewidths=0, **mark(index))
        for code in sorted(set(codes)):
            axis.text(*plane[labels == code].mean(axis=0), code, fontsize=7, ha="center", va="center", weight="bold")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("first direction")
        axis.set_ylabel("second direction")
        bare(axis)
    handles, found = axis.get_legend_handles_labels()
    figure.legend(handles, found, loc="outside right upper", frameon=False, fontsize=8, markerscale=3)
    save_figure(figure, path)


def family_histograms(
    values: Float[np.ndarray, " sentence"], codes: Sequence[str]
) -> tuple[Float[np.ndarray, " edge"], dict[str, Float[np.ndarray, " bin"]]]:
    """Returns the edges of 40 bins, and the share of each language family's sentences in each bin.

    The bins are the same for all families, and each family's shares add up to 1.

    Args:
      values: coordinate of each sentence.
      codes: language code of each sentence.
    """
    edges = np.histogram_bin_edges(values, _BINS)
    own = np.array([family(code) for code in codes])
    return edges, {
        name: np.histogram(values[own == name], edges)[0] / np.sum(own == name) for name in families_of(codes)
    }


def families(
    coordinates: Float[np.ndarray, "sentence direction"], codes: Sequence[str], title: str, path: Path
) -> None:
    """Draws a histogram of each language family along each direction (Xie et al. 2022, Figure 4).

    Args:
      coordinates: coordinates of the sentences along the first directions that a method removes.
      codes: language code of each sentence.
      title: title of the figure.
      path: the PNG to write.
    """
    names = families_of(codes)
    figure = Figure(figsize=(5 * coordinates.shape[1] + 1.6, 4), layout="constrained")
    axes = figure.subplots(1, coordinates.shape[1], squeeze=False)[0]
    for number, (axis, values) in enumerate(zip(axes, coordinates.T, strict=True), 1):
        edges, shares = family_histograms(values, codes)
        for name, share in shares.items():
            axis.stairs(share, edges, fill=True, alpha=0.15, color=line(names.index(name))["color"])
            look = line(names.index(name))
            axis.stairs(share, edges, color=look["color"], ls=look["linestyle"], lw=1.4, label=name)
        axis.set_xlabel(f"direction {number}")
        bare(axis)
    axes[0].set_ylabel("share of the family's sentences")
    handles, found = axes[0].get_legend_handles_labels()
    figure.legend(handles, found, loc="outside right upper", frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)


def syntax(rows: Sequence[Mapping[str, Mapping[str, tuple[float, float]]]], title: str, path: Path) -> None:
    """Draws the cosine with English's mean against the syntactic similarity to English (Xie et al. 2022, Figure 5).

    Args:
      rows: for each row, title -> language code -> (syntactic similarity to English, cosine with English's mean).
      title: title of the figure.
      path: the PNG to write.
    """
    columns = max(map(len, rows))
    figure = Figure(figsize=(4.8 * columns, 4.2 * len(rows) + 0.2), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for axis in axes.ravel():
        axis.set_axis_off()
    for row, panels in zip(axes, rows, strict=True):
        for axis, (name, points) in zip(row, panels.items(), strict=False):
            axis.set_axis_on()
            for code, point in points.items():
                axis.plot(*point, "o", ms=3, color="tab:blue")
                axis.annotate(code, point, xytext=(3, 2), textcoords="offset points", fontsize=7)
            axis.set_title(name, fontsize=10)
            axis.set_xlabel("syntactic similarity to English")
            axis.set_ylabel("cosine with English's mean")
            bare(axis)
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)
