"""The scores of individual queries, in strata and clusters, and how sets of them are combined."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

__all__ = ["QueryScores", "Stratum", "difference_of", "strata_of"]


class Stratum(NamedTuple):
    """One stratum of queries: its sorted clusters, and the sum and number of the scores in each."""

    cluster: Int[np.ndarray, " cluster"]
    total: Float[np.ndarray, " cluster"]
    number: Float[np.ndarray, " cluster"]

    @property
    def mean(self) -> float:
        """The mean of the scores."""
        return float(self.total.sum() / self.number.sum())


@dataclass(frozen=True, eq=False)
class QueryScores:
    """The scores of individual queries.

    Attributes:
      values: the scores; NaN values are ignored.
      strata: stratum of each query, from 0, if there are several; the score is the mean of the stratum means.
      clusters: cluster of each query, if they are not independent; a cluster is resampled as a whole.
      varying: whether the number of scores in a cluster may differ between methods, as for mined pairs.
    """

    values: Real[np.ndarray, " query"]
    strata: Int[np.ndarray, " query"] | None = None
    clusters: Int[np.ndarray, " query"] | None = None
    varying: bool = False

    def __post_init__(self) -> None:
        for name, numbers in (("strata", self.strata), ("clusters", self.clusters)):
            if numbers is not None and numbers.shape != self.values.shape:
                raise ValueError(f"{name} has shape {numbers.shape}; it must be that of values, {self.values.shape}")
        if not np.isfinite(self.values).any():
            raise ValueError("no query has a score")

    @property
    def mean(self) -> float:
        """The mean of the stratum means."""
        return float(np.mean([part.mean for part in self.parts()]))

    def parts(self) -> list[Stratum]:
        """The scores of each stratum, summed by cluster."""
        known = np.isfinite(self.values)
        each = np.arange(len(self.values))
        values = self.values[known]
        strata = (np.zeros_like(each) if self.strata is None else self.strata)[known]
        clusters = (each if self.clusters is None else self.clusters)[known]
        result = []
        for stratum in np.unique(strata):
            inside = strata == stratum
            names, number = np.unique(clusters[inside], return_inverse=True)
            result.append(Stratum(names, np.bincount(number, values[inside]), np.bincount(number).astype(float)))
        return result

    def same(self, other: "QueryScores") -> bool:
        """Whether ``other`` has scores of the same queries."""
        if self.varying and other.varying:
            mine, theirs = (set() if q.strata is None else set(q.strata.tolist()) for q in (self, other))
            return mine == theirs
        return len(self.values) == len(other.values) and all(
            a is b or (a is not None and b is not None and np.array_equal(a, b))
            for a, b in ((self.strata, other.strata), (self.clusters, other.clusters))
        )


def strata_of(parts: Sequence[QueryScores]) -> QueryScores:
    """Combines sets of queries without strata, each as a stratum; either all or none have clusters.

    Strata are resampled independently, also where clusters are in several of them; ``difference_of`` draws these
    together.
    """
    strata = np.repeat(np.arange(len(parts)), [len(part.values) for part in parts])
    values = np.concatenate([part.values for part in parts])
    return QueryScores(values, strata, _clusters(parts), any(part.varying for part in parts))


def difference_of(first: Sequence[QueryScores], second: Sequence[QueryScores] = ()) -> QueryScores:
    """Combines sets of queries, whose score is the mean over the means of ``first`` minus the mean over ``second``.

    Either all or none have clusters; unlike strata, the clusters that sets share are resampled together. The score is
    linear in the queries' scores (Efron and Tibshirani 1993, chapter 6): each set's mean, and what a query adds.
    """
    signed = [(part, 1 / len(first)) for part in first] + [(part, -1 / len(second)) for part in second]
    value = sum(weight * part.mean for part, weight in signed)
    numbers = [int(np.isfinite(part.values).sum()) for part, _ in signed]
    values = [
        value + weight * sum(numbers) / number * (part.values - part.mean)
        for (part, weight), number in zip(signed, numbers, strict=True)
    ]
    return QueryScores(np.concatenate(values), clusters=_clusters([part for part, _ in signed]))


def _clusters(parts: Sequence[QueryScores]) -> Int[np.ndarray, " query"] | None:
    clusters = [part.clusters for part in parts if part.clusters is not None]
    return np.concatenate(clusters) if clusters else None
