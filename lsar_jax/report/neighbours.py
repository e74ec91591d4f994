"""The engine of the report and the explorer: the nearest sentences of each sentence, and how many share its language.

Both fit methods by ``measures.methods.fit_methods``, transform sentences of all languages, and search each sentence's
neighbours among them here: the report in the fold that a fit left out, the explorer in the text of the fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.retrieval.preference import fair_share, top_k_share
from lsar_jax.retrieval.search import nearest_others

__all__ = ["ByLanguage", "Neighbours", "Pool", "spanned_rank"]

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


class Neighbours(NamedTuple):
    """The nearest other sentences of each sentence, the nearest first.

    Attributes:
      rows, cosines: which ones they are, and their cosines.
      own: share of them that are in the sentence's language.
      found: share of its translations that are among them, of at most k translations; NaN if it has none.
    """

    rows: Int[np.ndarray, "sentence k"]
    cosines: Float[np.ndarray, "sentence k"]
    own: Float[np.ndarray, " sentence"]
    found: Float[np.ndarray, " sentence"]


@dataclass(frozen=True, eq=False)
class Pool:
    """Sentences that are searched together.

    Attributes:
      language: number of the language of each, from 0.
      unit: sentences of the same unit in different languages are translations; None if that is not known.
    """

    language: Int[np.ndarray, " sentence"]
    unit: Int[np.ndarray, " sentence"] | None = None

    @property
    def k(self) -> int:
        """How many neighbours are looked at: ten, but in a small pool at most a third of it."""
        return max(1, min(10, (len(self.language) - 1) // 3))

    @property
    def fair(self) -> float:
        """The share of neighbours in the sentence's language that is expected if language does not matter."""
        return fair_share(np.bincount(self.language))

    def search(self, x: Float[np.ndarray, "sentence dim"]) -> Neighbours:
        """Finds the neighbours of each sentence by the cosine of embeddings."""
        cosines, rows = nearest_others(x.astype(np.float32), self.k)
        own = top_k_share(rows, self.language, self.language).shares
        found = np.full(len(rows), np.nan)
        if self.unit is not None:
            _, unit = np.unique(self.unit, return_inverse=True)
            counts = np.zeros((unit.max() + 1, self.language.max() + 1), int)
            np.add.at(counts, (unit, self.language), 1)
            others = counts.sum(axis=1)[unit] - counts[unit, self.language]
            right = (unit[rows] == unit[:, None]) & (self.language[rows] != self.language[:, None])
            found[others > 0] = (right.sum(axis=1) / np.clip(others, 1, self.k))[others > 0]
        return Neighbours(rows, cosines, own, found)

    def by_language(self, shares: Float[np.ndarray, " sentence"]) -> list[float]:
        """Returns the mean of the shares that are not NaN in each language; NaN where there are none."""
        parts = [shares[(self.language == number) & ~np.isnan(shares)] for number in range(self.language.max() + 1)]
        return [float(part.mean()) if len(part) else float("nan") for part in parts]


def spanned_rank(means: Float[np.ndarray, "language dim"]) -> int:
    """Returns the number of dimensions in which the means of the languages differ: the highest rank of LSAR."""
    precise = means.astype(np.float64)
    return int(np.linalg.matrix_rank(precise - precise.mean(axis=0), tol=1e-4 * np.abs(precise).max()))
