"""Figures of the embedding space at one layer: outliers, neighbours, and t-SNE of two languages by method."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.figures.removed import draw_removed
from eval.figures.style import heat_map, page
from lsar_jax.geometry import expected_contributions, outlier_dimensions
from lsar_jax.measures.compared_methods import OF_FILES, Method, fit_files
from lsar_jax.report.planes import Plane, points, tsne
from lsar_jax.retrieval import nearest
from lsar_jax.transforms.base.sample import evenly_spaced

__all__ = ["draw_pair", "draw_planes", "draw_space"]

# The methods that are compared in figures.
_COMPARED = ("original", "lsar", "cbie", "whitening")
# Points of each language in a figure of all languages.
_POINTS = 200
# The last rank in the figure of distances.
_RANKS = 250

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


def draw_space(methods: Sequence[Method], x: ByLanguage, english: ByLanguage, title: str, out: Path) -> None:
    """Draws the outliers of the original embeddings, their neighbours, and what LSAR removes if it is a method.

    Points are at most 200 sentences of each language, evenly spaced in its text; histograms and means are over all
    sentences. ``english`` has the English sentences to compare each language with, if there are any.
    """
    _draw_outliers(x, f"Outlier dimensions, {title}", out / "outliers.png")
    if english:
        shares = np.mean([expected_contributions(rows) for rows in x.values()], axis=0)
        _draw_distances(x, english, int(np.argmax(shares)), title, out / "distance_by_rank.png")
    lsar = {method.name: method.transform for method in methods}.get("lsar")
    if lsar is not None and (basis := np.asarray(lsar.steps[0].arrays()["basis"])).shape[1] > 1:
        full = {code: rows @ basis[:, :2] for code, rows in x.items()}
        sample = {code: plane[evenly_spaced(len(plane), _POINTS)] for code, plane in full.items()}
        draw_removed(sample, full, f"What LSAR removes, {title}", out)


def draw_pair(methods: Sequence[Method], sides: ByLanguage, title: str, out: Path) -> None:
    """Draws t-SNE of two languages before and after methods (Hämmerl et al. 2023, Figure 3), as ``tsne-en-de.png``.

    CBIE and whitening are fitted on each of the two sides by itself, as in the paper.
    """
    codes = [code for code, rows in sides.items() for _ in rows]
    planes = {}
    for method in _compared(methods):
        if method.name in OF_FILES:
            [method] = fit_files(method.name, sides, dict(zip(sides, sides, strict=True)))
        planes[method.label] = tsne(np.concatenate(list(method.transform_files(sides, str).values())))
    if planes:
        title = f"t-SNE of {' and '.join(sides)} in 50 joint principal components, {title}"
        draw_planes(planes, codes, title, out / f"tsne-{'-'.join(sides)}.png")


def draw_planes(planes: Mapping[str, Plane], codes: Sequence[str], title: str, path: Path) -> None:
    """Draws points in planes, coloured by language."""
    names = sorted(set(codes))
    with page(path, 1, len(planes), size=(4.8 * len(planes) + 1.4, 4.8), title=title, legend="right upper") as [axes]:
        for axis, (name, plane) in zip(axes, planes.items(), strict=True):
            points(axis, plane, codes, names, s=9)
            axis.set_title(name)


def _compared(methods: Sequence[Method]) -> list[Method]:
    by_name = {method.name: method for method in methods}
    return [by_name[name] for name in _COMPARED if name in by_name]


def _draw_outliers(x: ByLanguage, title: str, path: Path) -> None:
    """Draws the mean of every dimension that is an outlier in any language; dots mark the outliers."""
    means = np.stack([rows.mean(axis=0) for rows in x.values()])
    flags = np.asarray(outlier_dimensions(means))
    # Without outliers, the largest dimensions, without dots.
    dims = np.flatnonzero(flags.any(axis=0)) if flags.any() else np.argsort(-np.abs(means).mean(axis=0))[:6]
    dims = dims[np.argsort(-flags[:, dims].sum(axis=0), kind="stable")][:40]
    limit = np.abs(means[:, dims]).max(initial=1e-30)
    look = {"aspect": "auto", "cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    with page(path, size=(0.28 * max(len(dims), 6) + 2.2, 0.17 * len(x) + 1.6), title=title) as [[axis]]:
        image = heat_map(axis, means[:, dims], list(x), dims.tolist(), **look)
        axis.scatter(*np.nonzero(flags[:, dims])[::-1], s=6, color="k", linewidths=0)
        axis.tick_params(axis="x", rotation=90)
        axis.set_xlabel("dimension")
        axis.figure.colorbar(image, label="mean")


def _draw_distances(x: ByLanguage, english: ByLanguage, worst: int, title: str, path: Path) -> None:
    """Draws the distances of English sentences to their neighbours in each language (Hämmerl et al. 2023, Figure 1)."""
    # As in the paper, languages that have fewer sentences than ranks are left out.
    others = {code: x[code] for code in english if len(x[code]) >= _RANKS} or {code: x[code] for code in english}
    k = min(_RANKS, *map(len, others.values()))
    with page(path, size=(5.2, 3.8), title=f"English to the others, {title}") as [[axis]]:
        for name, without in (("all dimensions", []), (f"without dimension {worst}", [worst])):
            factors = np.ones(next(iter(others.values())).shape[1], np.float32)
            factors[without] = 0
            cosines = [nearest(english[code] * factors, rows * factors, k)[0] for code, rows in others.items()]
            distances = 2 - 2 * np.mean([np.mean(of, axis=0) for of in cosines], axis=0)
            axis.plot(np.arange(1, k + 1), distances, label=name)
        axis.set(xlabel="rank of the neighbour", ylabel="mean distance, 2 - 2 cos")
        axis.legend()
