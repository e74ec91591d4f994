"""Figures of what LSAR removes: its first directions by language family, and syntax in the means of languages."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.figures.language_families import families_of, family
from eval.figures.style import page
from lsar_jax.report.planes import Plane, line, points

__all__ = ["draw_removed", "draw_syntax", "family_histograms"]


def draw_removed(sample: Mapping[str, Plane], full: Mapping[str, Plane], title: str, out: Path) -> None:
    """Draws coordinates along the first two removed directions by language family (Xie et al. 2022, Figure 4).

    ``removed.png`` shows the points of the sample; ``families.png`` has a histogram of all along each direction.
    """
    names = families_of(full)
    with page(out / "removed.png", size=(6.6, 4.8), title=title, legend="right upper") as [[axis]]:
        labels = [family(code) for code, plane in sample.items() for _ in plane]
        points(axis, np.concatenate(list(sample.values())), labels, names, s=10, alpha=0.6)
        for code, plane in sample.items():
            axis.text(*plane.mean(axis=0), code, fontsize=7, ha="center", va="center", weight="bold")
        axis.set(xlabel="first direction", ylabel="second direction")
    with page(out / "families.png", 1, 2, size=(11.6, 4), title=title, legend="right upper") as [axes]:
        for direction, axis in enumerate(axes):
            edges, shares = family_histograms({code: plane[:, direction] for code, plane in full.items()})
            for name, share in shares.items():
                look = line(names.index(name))
                axis.stairs(share, edges, fill=True, alpha=0.15, color=look["color"])
                axis.stairs(share, edges, color=look["color"], ls=look["linestyle"], lw=1.4, label=name)
            axis.set_xlabel(f"direction {direction + 1}")
        axes[0].set_ylabel("share of the family's sentences")


def family_histograms(
    x: Mapping[str, Float[np.ndarray, " sentence"]],
) -> tuple[Float[np.ndarray, " edge"], dict[str, Float[np.ndarray, " bin"]]]:
    """The edges of 40 bins, and the share of each language family's sentences in each of them."""
    edges = np.histogram_bin_edges(np.concatenate(list(x.values())), 40)
    shares = {}
    for name in families_of(x):
        values = np.concatenate([of for code, of in x.items() if family(code) == name])
        shares[name] = np.histogram(values, edges)[0] / len(values)
    return edges, shares


def draw_syntax(rows: Sequence[Mapping[str, Mapping[str, tuple[float, float]]]], title: str, path: Path) -> None:
    """Draws the cosine with English's mean against the syntactic similarity to English (Xie et al. 2022, Figure 5).

    Each row has title -> language code -> (syntactic similarity to English, cosine with English's mean).
    """
    columns = max(map(len, rows))
    with page(path, len(rows), columns, size=(4.8 * columns, 4.2 * len(rows) + 0.2), title=title) as axes:
        for row, panels in zip(axes, rows, strict=True):
            for axis, (name, of) in zip(row, panels.items(), strict=False):
                axis.plot(*np.array(list(of.values())).T, "o", ms=3, color="tab:blue")
                for code, point in of.items():
                    axis.annotate(code, point, xytext=(3, 2), textcoords="offset points", fontsize=7)
                axis.set(title=name, xlabel="syntactic similarity to English", ylabel="cosine with English's mean")
