"""Anisotropy of English with each other language and of each language alone, and the outlier dimensions behind it.

Hämmerl et al. 2023 draw 10,000 random pairs of sentences, of a language and English on Tatoeba (Table 1), and of a
single language on Wikipedia (Tables 2 and 3). The mean cosine of the pairs is the anisotropy, and a dimension's term in
it is the dimension's contribution, given for the pairs drawn with seed 0, and for all pairs, their expectation.

A dimension is an outlier if the magnitude of its mean is above m + 3 s, the mean and the standard deviation over
dimensions of the mean embedding: of one language, or the unweighted mean over all languages but English.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.geometry import expected_contributions, outlier_dimensions, pair_contributions, random_pairs

__all__ = ["ByLanguage", "Contributions", "of_pairs", "outliers", "within"]

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]
# The contribution of each dimension to the mean cosine of drawn pairs, and of all pairs; their sums are the anisotropy.
Contributions = Float[np.ndarray, "2 dim"]


def within(x: Float[np.ndarray, "n dim"]) -> Contributions:
    """The contributions to the cosine of two different rows; there must be at least two."""
    return np.array([pair_contributions(x, x, random_pairs(len(x), len(x))), expected_contributions(x)], np.float64)


def of_pairs(x: Float[np.ndarray, "n dim"], english: Float[np.ndarray, "m dim"], *, parallel: bool) -> Contributions:
    """The contributions to the cosine of a row and an English row; with ``parallel``, row i of each is left out."""
    drawn = pair_contributions(x, english, random_pairs(len(x), len(english), distinct=parallel))
    exact = np.asarray(expected_contributions(x, english), np.float64)
    if parallel:
        translations = np.repeat(np.arange(len(x))[:, None], 2, axis=1)
        same = np.asarray(pair_contributions(x, english, translations), np.float64)
        # The mean over n^2 pairs, without the n pairs of translations.
        exact = exact + (exact - same) / (len(x) - 1)
    return np.stack([np.asarray(drawn, np.float64), exact])


def outliers(mean: Float[np.ndarray, " dim"]) -> Int[np.ndarray, " outlier"]:
    """The outlier dimensions of a mean embedding, from the largest magnitude to the smallest."""
    found = np.flatnonzero(np.asarray(outlier_dimensions(mean)))
    return found[np.argsort(-np.abs(mean[found]), kind="stable")]
