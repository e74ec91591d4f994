"""Figures of the embedding space at one layer: PCA and t-SNE before and after methods, outliers, what LSAR removes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from eval.figures import geometry as draw
from eval.figures.plots import scatter
from eval.figures.removed import families, removed
from eval.methods import OF_FILES, Method, fit_files
from lsar_jax.geometry import expected_contributions, outlier_dimensions
from lsar_jax.retrieval import nearest

__all__ = ["draw_pair", "draw_space", "tsne"]

# The methods that are compared in figures.
_COMPARED = ("original", "lsar", "cbie", "whitening")
# Points of each language in a figure of all languages.
_POINTS = 200
# The last rank in the figure of distances.
_RANKS = 250

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


def draw_space(methods: Sequence[Method], x: ByLanguage, english: ByLanguage, title: str, out: Path) -> None:
    """Draws the original embeddings of all languages, and those that the methods transform.

    Points are those of at most 200 sentences of each language, evenly spaced in its text; histograms and means are
    those of all sentences.

    Args:
      methods: the methods of one layer.
      x: the original embeddings.
      english: language -> embeddings of the English sentences to compare it with; empty without English.
      title: layer and encoder, for the titles.
      out: folder to write to.
    """
    shares = np.stack([np.asarray(expected_contributions(rows)) for rows in x.values()])
    draw.contributions(shares, list(x), f"Contribution of dimensions, {title}", out / "contributions.png")
    means = np.stack([rows.mean(axis=0) for rows in x.values()])
    flags = np.asarray(outlier_dimensions(means))
    draw.outliers(means, flags, list(x), f"Outlier dimensions, {title}", out / "outliers.png")
    if english:
        _draw_distances(x, english, int(np.argmax(shares.mean(axis=0))), title, out)
    shown = {code: rows[_evenly(len(rows))] for code, rows in x.items()}
    codes = [code for code, rows in shown.items() for _ in rows]
    after = {method.name: method for method in methods}
    moved = {
        method.label: np.concatenate([method(rows, code) for code, rows in shown.items()])
        for method in _compared(methods) or methods[:1]
    }
    scatter({f"{name}, {title}": rows for name, rows in moved.items()}, codes, out / "pca.png")
    flat = {name: tsne(rows) for name, rows in moved.items()}
    draw.planes(flat, codes, f"t-SNE of 50 principal components, {title}", out / "tsne.png")
    if "lsar" in after and after["lsar"].transform is not None:
        basis = np.asarray(after["lsar"].transform.steps[0].basis)[:, :2]
        if basis.shape[1] == 2:
            told = f"What LSAR removes, {title}"
            removed({told: np.concatenate(list(shown.values())) @ basis}, codes, out / "removed.png")
            every = [code for code, rows in x.items() for _ in rows]
            families(np.concatenate(list(x.values())) @ basis, every, told, out / "families.png")


def draw_pair(methods: Sequence[Method], sides: ByLanguage, title: str, out: Path) -> None:
    """Draws t-SNE of two languages before and after methods (Hämmerl et al. 2023, Figure 3), as ``tsne-en-de.png``.

    CBIE and whitening are fitted on each of the two sides by itself, as in the paper.

    Args:
      methods: the methods of one layer, of which original and lsar are drawn as they were fitted.
      sides: language -> its original embeddings.
      title: layer and encoder, for the title.
      out: folder to write to.
    """
    codes = [code for code, rows in sides.items() for _ in rows]
    flat = {}
    for method in _compared(methods):
        if method.name in OF_FILES:
            [method] = fit_files(method.name, sides, dict(zip(sides, sides, strict=True)))
        moved = method.move(sides, str)
        flat[method.label] = tsne(np.concatenate(list(moved.values())))
    if flat:
        told = f"t-SNE of {' and '.join(sides)} in 50 joint principal components, {title}"
        draw.planes(flat, codes, told, out / f"tsne-{'-'.join(sides)}.png")


def tsne(x: Float[np.ndarray, "vector dim"], seed: int = 0) -> Float[np.ndarray, "vector 2"]:
    """Returns a two-dimensional t-SNE of the first 50 principal components, as in Hämmerl et al. 2023."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    reduced = PCA(min(50, *x.shape), random_state=seed).fit_transform(np.asarray(x, np.float64))
    plane = TSNE(2, perplexity=min(30, (len(x) - 1) / 3), random_state=seed)
    # One thread: OpenMP's threads busy-wait for each other at every step while XLA's occupy the cores.
    with threadpool_limits(1, "openmp"):
        return plane.fit_transform(reduced.astype(np.float32))


def _compared(methods: Sequence[Method]) -> list[Method]:
    after = {method.name: method for method in methods}
    return [after[name] for name in _COMPARED if name in after]


def _evenly(count: int) -> np.ndarray:
    """Returns the indices of at most 200 rows, evenly spaced."""
    shown = min(count, _POINTS)
    return np.arange(shown) * count // shown


def _draw_distances(x: ByLanguage, english: ByLanguage, worst: int, title: str, out: Path) -> None:
    """Draws the distances of English sentences to their neighbours in each language (Hämmerl et al. 2023, Figure 1)."""
    others = {code: x[code] for code in english}
    # As in the paper, languages that have fewer sentences than ranks are left out.
    others = {code: rows for code, rows in others.items() if len(rows) >= _RANKS} or others
    k = min(_RANKS, *(len(rows) for rows in others.values()))
    curves = {}
    for name, dropped in (("all dimensions", []), (f"without dimension {worst}", [worst])):
        factors = np.ones(next(iter(others.values())).shape[1], np.float32)
        factors[dropped] = 0
        cosines = [nearest(english[code] * factors, rows * factors, k)[0] for code, rows in others.items()]
        curves[name] = 2 - 2 * np.mean([np.mean(found, axis=0) for found in cosines], axis=0)
    draw.distances(curves, f"English to the others, {title}", out / "distance_by_rank.png")
