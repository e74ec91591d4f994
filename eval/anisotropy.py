"""Anisotropy of English with each other language and of each language alone, and the outlier dimensions behind it.

Hämmerl et al. 2023 draw 10,000 random pairs of sentences, of a language and English on Tatoeba (Table 1), and of a
single language on Wikipedia (Tables 2 and 3). The mean cosine of the pairs is the anisotropy, and a dimension's term in
it is the dimension's contribution. The exact means over all pairs are given beside the drawn ones.

A dimension is an outlier if the magnitude of its mean is above m + 3 s, the mean and the standard deviation over
dimensions of the mean embedding: that of one language, or the unweighted mean over all languages but English.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsar_jax.geometry import expected_contributions, outlier_dimensions, pair_contributions, random_pairs

__all__ = ["ByLanguage", "Contributions", "Outlier", "mean_contributions", "of_pairs", "outliers", "within"]

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


class Contributions(NamedTuple):
    """The contribution of each dimension to the mean cosine of pairs of sentences.

    Attributes:
      drawn: mean over 10,000 random pairs, drawn with seed 0.
      exact: mean over all pairs, which is the expectation of the drawn ones.
    """

    drawn: Float[np.ndarray, " dim"]
    exact: Float[np.ndarray, " dim"]

    @property
    def anisotropy(self) -> tuple[float, float]:
        """The mean cosine of the drawn pairs, and that of all pairs."""
        return float(self.drawn.sum()), float(self.exact.sum())


class Outlier(NamedTuple):
    """An outlier dimension.

    Attributes:
      dimension: its index.
      mean: the entry of the mean embedding.
      contribution: its contribution to the mean cosine of all pairs.
    """

    dimension: int
    mean: float
    contribution: float


def within(x: Float[np.ndarray, "n dim"]) -> Contributions:
    """Returns the contributions to the cosine of two different rows.

    Raises:
      ValueError: there are fewer than two rows.
    """
    drawn = pair_contributions(x, x, random_pairs(len(x), len(x)))
    return Contributions(np.asarray(drawn, np.float64), np.asarray(expected_contributions(x), np.float64))


def of_pairs(x: Float[np.ndarray, "n dim"], english: Float[np.ndarray, "m dim"], *, parallel: bool) -> Contributions:
    """Returns the contributions to the cosine of a row of ``x`` and a row of ``english``.

    Args:
      x: embeddings of one language.
      english: embeddings of English.
      parallel: whether row i of one translates row i of the other; such pairs are left out.

    Raises:
      ValueError: ``parallel`` is given and the lengths differ, or there is no pair.
    """
    if parallel and len(x) != len(english):
        raise ValueError(f"parallel sides must have the same length; they have {len(x)} and {len(english)} rows")
    drawn = pair_contributions(x, english, random_pairs(len(x), len(english), distinct=parallel))
    exact = np.asarray(expected_contributions(x, english), np.float64)
    if parallel:
        translations = np.repeat(np.arange(len(x))[:, None], 2, axis=1)
        same = np.asarray(pair_contributions(x, english, translations), np.float64)
        # The mean over n^2 pairs, without the n pairs of translations.
        exact = exact + (exact - same) / (len(x) - 1)
    return Contributions(np.asarray(drawn, np.float64), exact)


def mean_contributions(of_languages: Sequence[Contributions]) -> Contributions:
    """Returns the unweighted mean over languages."""
    drawn, exact = (np.mean(parts, axis=0) for parts in zip(*of_languages, strict=True))
    return Contributions(drawn, exact)


def outliers(mean: Float[np.ndarray, " dim"], contributions: Contributions) -> list[Outlier]:
    """Returns the outlier dimensions of a mean embedding, from the largest magnitude to the smallest."""
    found = np.flatnonzero(np.asarray(outlier_dimensions(mean)))
    found = found[np.argsort(-np.abs(mean[found]), kind="stable")]
    return [Outlier(int(d), float(mean[d]), float(contributions.exact[d])) for d in found]
