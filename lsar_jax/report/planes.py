"""Sentences in the plane: the two directions in which languages differ most, t-SNE; colours, markers and lines.

Series are told apart without colour too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh  # here: a limit of threads holds for what is loaded; unlike numpy's, two vectors alone

from lsar_jax.arrays import unit_rows
from lsar_jax.extras import import_extra
from lsar_jax.report.measured import in_threads

__all__ = [
    "COLOURS", "MARKERS", "Plane", "draw_languages", "draw_units", "flat", "language_plane", "line", "lines", "mark",
    "plain_tsne", "points", "tsne",
]  # fmt: skip

Plane = Float[np.ndarray, "vector 2"]

# The first six are those of Okabe and Ito, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#999933", "#7f7f7f", "#44aa99")
# As their number is prime, 110 series have a colour and a marker that no other has.
MARKERS = "osD^v<>P*Xh"
_STYLES = ("-", "--", "-.", ":")

# The weight of the variance of sentences, beside that of the means of languages, in the choice of the map's axes.
_SENTENCES = 0.1
# Languages with different scripts, from different families; more colours would be hard to tell apart.
_COLOURED = ("en", "ru", "zh", "ar", "hi", "th", "sw", "fi", "ta", "ka")
# Languages, and meanings, that are coloured.
_SHOWN = 10


def mark(index: int) -> dict[str, Any]:
    """Returns the colour and the marker of a series of points."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def line(index: int) -> dict[str, Any]:
    """Returns the colour, the marker and the style of a line."""
    return {**mark(index), "linestyle": _STYLES[index % len(_STYLES)]}


def lines(axis: Any, curves: Mapping[str, Mapping[int, int | float]]) -> None:
    """Draws a line for each name: its values by x."""
    for index, (name, values) in enumerate(curves.items()):
        axis.plot(list(values), list(values.values()), label=name, **line(index))


def points(axis: Any, plane: Plane, labels: Sequence[str], names: Sequence[str], **look: Any) -> None:
    """Draws points without ticks, with a colour and a marker for each name; rows of the plane have the labels."""
    for index, name in enumerate(names):
        x, y = plane[np.array(labels) == name].T
        axis.scatter(x, y, label=name, linewidths=0, **mark(index), **look)
    axis.set(xticks=[], yticks=[])


def language_plane(
    x: Float[np.ndarray, "sentence dim"], language: Int[np.ndarray, " sentence"], last: Plane | None = None
) -> tuple[Plane, float]:
    """Returns sentences in the two directions in which the means of the languages differ most, or else sentences do.

    The principal axes of sentences alone show topics, and hardly change when language is removed. The plane is turned
    and mirrored so that it is as near as can be to ``last`` (the orthogonal Procrustes problem). Returns the share of
    the variance that it has, too.
    """
    centred = np.asarray(x, np.float64) - x.mean(axis=0)
    width = centred.shape[1]
    sums = np.eye(int(language.max()) + 1)[language].T @ centred
    between = (sums.T / np.bincount(language)) @ sums
    _, vectors = eigh(between + _SENTENCES * (centred.T @ centred), subset_by_index=(max(width - 2, 0), width - 1))
    plane = centred @ np.concatenate([vectors, np.zeros((width, 2 - vectors.shape[1]))], axis=1)[:, ::-1]
    if last is not None:
        left, _, right = np.linalg.svd(plane.T @ last)
        plane = plane @ left @ right
    return plane, float((plane**2).sum() / max((centred**2).sum(), np.finfo(float).tiny))


def tsne(x: Float[np.ndarray, "vector dim"]) -> Plane:
    """A two-dimensional t-SNE of the first 50 principal components, as in Hämmerl et al. 2023."""
    decomposition = import_extra("sklearn.decomposition", "report", "t-SNE", "scikit-learn")
    reduced = decomposition.PCA(min(50, *x.shape), random_state=0).fit_transform(np.asarray(x, np.float64))
    return plain_tsne(reduced.astype(np.float32), 30, random_state=0)


def plain_tsne(x: Float[np.ndarray, "vector dim"], perplexity: int, **options: Any) -> Plane:
    """scikit-learn's t-SNE, with a lower perplexity for few vectors."""
    manifold = import_extra("sklearn.manifold", "report", "t-SNE", "scikit-learn")
    pools = import_extra("threadpoolctl", "report", "t-SNE")
    # One thread: OpenMP's threads busy-wait for each other at every step while XLA's occupy the cores.
    with pools.threadpool_limits(1, "openmp"):
        return manifold.TSNE(2, perplexity=min(perplexity, (len(x) - 1) / 3), **options).fit_transform(x)


def flat(
    panels: Mapping[str, Float[np.ndarray, "vector dim"]], advance: Callable[[float], object] = lambda share: None
) -> dict[str, Plane]:
    """The t-SNE of each panel's unit vectors, whose distances rank as cosines do; ``advance`` as for a layer."""
    unit = [np.asarray(unit_rows(jnp.asarray(x))) for x in panels.values()]
    planes = dict[str, Plane]()
    for name, plane in zip(panels, in_threads(tsne, unit), strict=True):
        planes[name] = plane
        advance(len(planes) / len(panels))
    return planes


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
