"""Figures of ``python -m eval geometry``, each as a PNG for the screen and a PDF for a paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.figures.language_families import family
from train.curves import save_figure
from train.marks import mark

__all__ = [
    "AnswerPlane",
    "Plane",
    "answers",
    "bare",
    "contributions",
    "distances",
    "distinct_colours",
    "layer_curves",
    "layer_means",
    "opacity",
    "outliers",
    "planes",
]

Plane = Float[np.ndarray, "_ 2"]
Colour = tuple[float, float, float, float]


def layer_curves(curves: Mapping[str, Sequence[float]], layers: Sequence[int], title: str, path: Path) -> None:
    """Draws measures of the original embeddings against the layer."""
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    axis = figure.subplots()
    for (name, values), marker in zip(curves.items(), "osv^D*", strict=False):
        axis.plot(layers, values, marker=marker, ms=4, lw=1.4, label=name)
    axis.set_xlabel("layer")
    axis.set_xticks(layers)
    axis.set_ylabel("mean cosine; IsoScore")
    axis.axhline(0, color="0.8", lw=0.8, zorder=0)
    axis.set_title(title)
    axis.legend(frameon=False, fontsize=8)
    bare(axis)
    save_figure(figure, path)


def contributions(shares: Float[np.ndarray, "language dim"], codes: Sequence[str], title: str, path: Path) -> None:
    """Draws the contribution of the top dimensions to each language's anisotropy.

    Args:
      shares: each dimension's term in the mean cosine, one row per language.
      codes: language code of each row.
      title: title of the figure.
      path: the PNG to write.
    """
    top = np.argsort(-shares.mean(axis=0))[:12]
    figure = Figure(figsize=(0.55 * len(top) + 2.2, 0.17 * len(codes) + 1.4), layout="constrained")
    _heat_map(figure, shares, top, codes, title, "contribution to the mean cosine", cmap="magma_r", vmin=0)
    save_figure(figure, path)


def outliers(
    means: Float[np.ndarray, "language dim"],
    out: Bool[np.ndarray, "language dim"],
    codes: Sequence[str],
    title: str,
    path: Path,
) -> None:
    """Draws the mean of every dimension that is an outlier in any language; dots mark the outliers."""
    # If there are no outliers, show the largest dimensions, without dots.
    dims = np.flatnonzero(out.any(axis=0)) if out.any() else np.argsort(-np.abs(means).mean(axis=0))[:6]
    dims = dims[np.argsort(-out[:, dims].sum(axis=0), kind="stable")][:40]
    figure = Figure(figsize=(0.28 * max(len(dims), 6) + 2.2, 0.17 * len(codes) + 1.6), layout="constrained")
    size = np.abs(means[:, dims]).max(initial=1e-30)
    axis = _heat_map(figure, means, dims, codes, title, "mean", cmap="RdBu_r", vmin=-size, vmax=size)
    axis.tick_params(axis="x", rotation=90)
    rows, columns = np.nonzero(out[:, dims])
    axis.scatter(columns, rows, s=6, color="k", linewidths=0)
    save_figure(figure, path)


def layer_means(
    means: Float[np.ndarray, "layer dim"],
    out: Bool[np.ndarray, "layer dim"],
    layers: Sequence[int],
    title: str,
    path: Path,
) -> None:
    """Draws the mean embedding of each layer by dimension, with the outliers labelled."""
    columns = 4
    rows = -(-len(layers) // columns)
    figure = Figure(figsize=(2.9 * columns, 1.7 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for axis, layer, values, flags in zip(axes, layers, means, out, strict=False):
        axis.plot(values, lw=0.5, color="0.35")
        named = np.flatnonzero(flags)
        axis.plot(named, values[named], "o", ms=2.5, color="tab:red")
        for dimension in named[np.argsort(-np.abs(values[named]))][:3]:
            axis.annotate(f"{dimension}", (dimension, values[dimension]), fontsize=6, color="tab:red")
        axis.set_title(f"layer {layer}", fontsize=8)
        axis.tick_params(labelsize=6)
        bare(axis)
    for axis in axes[len(layers) :]:
        axis.set_axis_off()
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)


def distances(curves: Mapping[str, Float[np.ndarray, " k"]], title: str, path: Path) -> None:
    """Draws the mean distance to the k-th nearest neighbour against k."""
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    axis = figure.subplots()
    for name, values in curves.items():
        axis.plot(np.arange(1, len(values) + 1), values, lw=1.5, label=name)
    axis.set_xlabel("rank of the neighbour")
    axis.set_ylabel("mean distance, 2 - 2 cos")
    axis.set_title(title, fontsize=10)
    axis.legend(frameon=False, fontsize=8)
    bare(axis)
    save_figure(figure, path)


def planes(panels: Mapping[str, Plane], codes: Sequence[str], title: str, path: Path) -> None:
    """Draws points in a plane, such as t-SNE's, coloured by language, or by family if there are many languages."""
    if len(set(codes)) > 20:
        codes = [family(code) for code in codes]
    every = sorted(set(codes))
    labels = np.array(codes)
    figure = Figure(figsize=(4.8 * len(panels) + 1.4, 4.8), layout="constrained")
    for axis, (name, plane) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for index, code in enumerate(every):
            own = labels == code
            axis.scatter(plane[own, 0], plane[own, 1], s=9, label=code, linewidths=0, **mark(index))
        axis.set_title(name, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    handles, names = axis.get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside right upper",
        frameon=False,
        fontsize=6.5,
        markerscale=2,
        ncols=-(-len(every) // 24),
    )
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)


class AnswerPlane(NamedTuple):
    """Questions and candidate answers, as points in a plane.

    Attributes:
      candidates: the candidates.
      questions: one question in each language.
      answers: index of the right candidate in each language.
      ranks: rank of each candidate for the question in the asked language; 1 is the best.
    """

    candidates: Plane
    questions: Plane
    answers: Int[np.ndarray, " language"]
    ranks: Int[np.ndarray, " candidate"]


def opacity(ranks: Int[np.ndarray, " candidate"]) -> Float[np.ndarray, " candidate"]:
    """Returns an opacity that falls with the logarithm of the rank, from 1 for the first to 0.1 for the last ones."""
    return np.maximum(0.1, 1 - np.log(ranks) / np.log(max(len(ranks), 2)))


def answers(
    panels: Mapping[str, AnswerPlane],
    candidate_codes: Sequence[str],
    codes: Sequence[str],
    asked: str,
    title: str,
    path: Path,
) -> None:
    """Draws one question in all languages, its answers and the other candidates (Xie et al. 2022, Figure 2).

    The better a candidate is ranked for the question in the asked language, the more opaque it is.

    Args:
      panels: title -> points in a plane.
      candidate_codes: language code of each candidate.
      codes: language code of each question and answer.
      asked: language of the question that candidates are ranked for; its question has a thick edge.
      title: title of the figure.
      path: the PNG to write.
    """
    every = sorted(set(codes))
    colours = dict(zip(every, distinct_colours(len(every)), strict=True))
    own = np.array([colours[code] for code in candidate_codes])
    figure = Figure(figsize=(4.8 * len(panels) + 1.4, 4.8), layout="constrained")
    for axis, (name, plane) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        shown = opacity(plane.ranks)
        # The best last, so that none is hidden.
        order = np.argsort(-plane.ranks, kind="stable")
        rest = order[~np.isin(order, plane.answers)]
        axis.scatter(*plane.candidates[rest].T, s=14, color=own[rest], alpha=shown[rest], linewidths=0)
        for code, point in zip(codes, plane.questions, strict=True):
            width = 1.6 if code == asked else 0.6
            axis.scatter(*point, s=130, marker="*", color=colours[code], edgecolors="k", linewidths=width)
            axis.annotate(code, point, xytext=(5, 4), textcoords="offset points", fontsize=7)
        for code, place in zip(codes, plane.answers, strict=True):
            face = (*colours[code][:3], float(shown[place]))
            axis.scatter(*plane.candidates[place], s=45, marker="D", color=[face], edgecolors="k", linewidths=0.6)
            axis.annotate(code, plane.candidates[place], xytext=(5, 4), textcoords="offset points", fontsize=7)
        axis.set_title(name, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    handles = [
        matplotlib.lines.Line2D([], [], marker="o", ls="", ms=4, color=colours[code], label=code) for code in every
    ]
    handles += [
        matplotlib.lines.Line2D([], [], marker=marker, ls="", ms=7, color="0.7", mec="k", label=text)
        for marker, text in (("*", "question"), ("D", "answer"))
    ]
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)


def distinct_colours(count: int) -> list[Colour]:
    """Returns colours that can be told apart, up to 20; more are taken from a spectrum."""
    if count <= 20:
        name = "tab10" if count <= 10 else "tab20"  # tab20 has pairs of a dark and a light colour
        return [matplotlib.colors.to_rgba(colour) for colour in matplotlib.color_sequences[name]][:count]
    return [matplotlib.colormaps["turbo"](index / (count - 1)) for index in range(count)]


def bare(axis: Axes) -> None:
    """Hides the upper and the right border."""
    axis.spines[["top", "right"]].set_visible(False)


def _heat_map(
    figure: Figure,
    values: Float[np.ndarray, "language dim"],
    dimensions: Int[np.ndarray, " shown"],
    codes: Sequence[str],
    title: str,
    label: str,
    **colours: Any,
) -> Axes:
    """Draws the columns of ``values`` for some dimensions, with one row per language and a colour bar."""
    axis = figure.subplots()
    image = axis.imshow(values[:, dimensions], aspect="auto", **colours)
    axis.set_xticks(range(len(dimensions)), [f"{dimension}" for dimension in dimensions], fontsize=7)
    axis.set_yticks(range(len(codes)), codes, fontsize=7)
    axis.set_xlabel("dimension")
    axis.set_title(title, fontsize=10)
    figure.colorbar(image, label=label)
    return axis
