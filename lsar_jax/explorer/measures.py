"""What is computed for a page from whole vectors: shares of neighbours, axes of the map, and how exact the page is."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.extras import import_extra
from lsar_jax.retrieval.preference import top_k_share

__all__ = ["COMPARED", "Neighbours", "Shares", "compare", "map_axes", "measure", "tsne_plane"]

# The weight of the variance of sentences, beside that of the means of languages, in the choice of the map's axes.
_SENTENCES = 0.1
# Sentences whose cosines on the page are compared with those of whole vectors.
COMPARED = 250


class Neighbours:
    """The language and the translations of each sentence, and how many neighbours are looked at: ten, if there are."""

    def __init__(self, language: Int[np.ndarray, " sentence"], unit: Int[np.ndarray, " sentence"] | None) -> None:
        self.language, self.unit = language, unit
        self.k = min(10, len(language) - 1)


class Shares(NamedTuple):
    """Of the nearest neighbours of all sentences: the share in the sentence's language, and that of translations found.

    Of a sentence with more than ten translations, ten count. Those of a language are means over its sentences.
    ``found`` is None if there are no translations.
    """

    same: float
    found: float | None
    same_of: list[float]
    found_of: list[float | None]


def measure(near: Int[np.ndarray, "sentence k"], of: Neighbours) -> Shares:
    """Returns the shares of the nearest other sentences, over all sentences and over those of each language."""
    languages = int(of.language.max()) + 1
    same = top_k_share(near, of.language, of.language).shares
    found = np.full(len(near), np.nan)
    if of.unit is not None:
        numbers = np.unique(of.unit, return_inverse=True)[1]
        pairs = np.bincount(numbers * languages + of.language, minlength=(numbers.max() + 1) * languages)
        of_language = pairs.reshape(-1, languages)
        others = of_language.sum(axis=1)[numbers] - of_language[numbers, of.language]
        right = ((numbers[near] == numbers[:, None]) & (of.language[near] != of.language[:, None])).sum(axis=1)
        found[others > 0] = (right / np.clip(others, 1, of.k))[others > 0]
    rows = [of.language == number for number in range(languages)]
    mean_found, *found_of = (_mean(found[chosen]) for chosen in (np.full(len(near), True), *rows))
    return Shares(float(same.mean()), mean_found, [round(float(same[chosen].mean()), 3) for chosen in rows], found_of)


def _mean(shares: Float[np.ndarray, " sentence"]) -> float | None:
    """The mean of the shares that are defined, in thousandths."""
    defined = shares[~np.isnan(shares)]
    return round(float(defined.mean()), 3) if len(defined) else None


def map_axes(
    z: Float[np.ndarray, "sentence width"],
    language: Int[np.ndarray, " sentence"],
    last: Float[np.ndarray, "sentence 2"] | None,
) -> Float[np.ndarray, "width 2"]:
    """Returns the two axes in which the means of the languages differ most, and where they do not, centred vectors z.

    They are turned and mirrored so that the map is as near as can be to last, by the orthogonal Procrustes problem.
    The principal axes of z alone show topics, and hardly change when language is removed.
    """
    from scipy.linalg import eigh  # jax needs it too; unlike numpy's, it computes two vectors alone

    width = z.shape[1]
    sums = np.eye(int(language.max()) + 1)[language].T @ z
    between = (sums.T / np.bincount(language)) @ sums
    _, vectors = eigh(between + _SENTENCES * (z.T @ z), subset_by_index=(max(width - 2, 0), width - 1))
    axes = np.concatenate([vectors, np.zeros((width, 2 - vectors.shape[1]))], axis=1)[:, ::-1]
    if last is None:
        return axes
    left, _, right = np.linalg.svd(axes.T @ z.T @ last)
    return axes @ left @ right


def compare(
    x: Float[np.ndarray, "sentence dim"],
    z: Float[np.ndarray, "sentence width"],
    residual: Float[np.ndarray, " sentence"],
    k: int,
) -> tuple[float, float]:
    """Returns the largest difference of the page's cosines, and the share of neighbours that are the right ones."""
    rows = np.unique(np.linspace(0, len(x) - 1, COMPARED).astype(int))
    right, ours = ((side[rows] @ side.T) for side in (x, z))
    for cosines, squares in ((right, (x**2).sum(axis=1)), (ours, (z**2).sum(axis=1) + residual**2.0)):
        lengths = np.sqrt(np.where(squares > 0, squares, 1))
        cosines /= lengths[rows, None] * lengths
    largest = float(np.abs(right - ours).max(where=rows[:, None] != np.arange(len(x)), initial=0))
    for cosines in (right, ours):
        cosines[np.arange(len(rows)), rows] = -np.inf
    first, second = (np.argpartition(-cosines, k - 1)[:, :k] for cosines in (right, ours))
    return largest, float(np.mean([len({*a} & {*b}) / k for a, b in zip(first, second, strict=True)]))


def tsne_plane(x: Float[np.ndarray, "sentence dim"], seed: int) -> Float[np.ndarray, "sentence 2"]:
    """scikit-learn's t-SNE of the first 50 principal components."""
    decomposition = import_extra("sklearn.decomposition", "eval", "t-SNE", "scikit-learn")
    manifold = import_extra("sklearn.manifold", "eval", "t-SNE", "scikit-learn")
    pools = import_extra("threadpoolctl", "eval", "t-SNE")
    reduced = decomposition.PCA(min(50, *x.shape), random_state=seed).fit_transform(x)
    perplexity = min(30, (len(x) - 1) / 3)
    # One thread: OpenMP's threads wait for each other without sleeping, and take the cores from XLA's.
    with pools.threadpool_limits(1, "openmp"):
        return manifold.TSNE(2, perplexity=perplexity, random_state=seed).fit_transform(reduced).astype(np.float64)
