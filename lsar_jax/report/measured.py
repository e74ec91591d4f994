"""A layer, a method and its rank with what was measured of them: the value that the report and the explorer share.

Both transform sentences of all languages by the method, and search each sentence's neighbours in a ``Pool``: the report
in each fold of the text, by a fit on the other folds; the explorer in the text of the fit.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.encoders.progress import Meter
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.retrieval.preference import fair_share, top_k_share
from lsar_jax.retrieval.search import nearest_others
from lsar_jax.spec import EncoderSpec

__all__ = [
    "FORMAT", "UNMEASURED", "ByLanguage", "Measured", "Neighbours", "Pool", "Space", "in_threads", "read_measured",
    "spanned_rank", "write_measured",
]  # fmt: skip

# Format of the files of measures.
FORMAT = "lsar_jax.measured.v4"

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


class Neighbours(NamedTuple):
    """The nearest other sentences of each sentence, the nearest first.

    Attributes:
      rows, cosines: their numbers in the pool, and their cosines.
      own: share of them that are in the sentence's language.
      fair: the same, as expected if language does not matter.
      found: share of its translations that are among them, of at most k translations; NaN if it has none.
    """

    rows: Int[np.ndarray, "sentence k"]
    cosines: Float[np.ndarray, "sentence k"]
    own: Float[np.ndarray, " sentence"]
    fair: float
    found: Float[np.ndarray, " sentence"]


@dataclass(frozen=True, eq=False)
class Pool:
    """Sentences that are searched together.

    Attributes:
      language: number of the language of each, from 0.
      unit: sentences of the same unit in different languages are translations; None if that is not known.
      most: most neighbours that are looked at.
    """

    language: Int[np.ndarray, " sentence"]
    unit: Int[np.ndarray, " sentence"] | None = None
    most: int = 10

    @property
    def k(self) -> int:
        """How many neighbours are looked at: in a small pool, at most a third of it."""
        return max(1, min(self.most, (len(self.language) - 1) // 3))

    @property
    def fair(self) -> float:
        """The share of neighbours in the sentence's language that is expected if language does not matter."""
        return fair_share(np.bincount(self.language))

    def search(self, x: Float[np.ndarray, "sentence dim"], few: slice = slice(None)) -> Neighbours:
        """Finds the neighbours of each sentence, or of a few, by the cosine of embeddings."""
        cosines, rows = nearest_others(x.astype(np.float32), self.k, rows=few)
        return self.neighbours(rows, cosines, few)

    def neighbours(
        self, rows: Int[np.ndarray, "few k"], cosines: Float[np.ndarray, "few k"], few: slice = slice(None)
    ) -> Neighbours:
        """Returns neighbours that were found, with the shares of them."""
        own = top_k_share(rows, self.language, self.language[few]).shares
        found = np.full(len(rows), np.nan)
        if self.unit is not None:
            _, unit = np.unique(self.unit, return_inverse=True)
            counts = np.zeros((unit.max() + 1, self.language.max() + 1), int)
            np.add.at(counts, (unit, self.language), 1)
            others = (counts.sum(axis=1)[unit] - counts[unit, self.language])[few]
            right = (unit[rows] == unit[few, None]) & (self.language[rows] != self.language[few, None])
            found[others > 0] = (right.sum(axis=1) / np.clip(others, 1, self.k))[others > 0]
        return Neighbours(rows, cosines, own, self.fair, found)

    def by_language(self, shares: Float[np.ndarray, " sentence"]) -> list[float | None]:
        """Returns the mean of the shares that are not NaN in each language; None where there are none."""
        parts = [shares[(self.language == number) & ~np.isnan(shares)] for number in range(self.language.max() + 1)]
        return [round(float(part.mean()), 3) if len(part) else None for part in parts]


class Space(NamedTuple):
    """Measures of the space of held-out sentences, in percent; NaN where they were not measured.

    Attributes:
      identified: sentences of which a linear classifier, fitted on others of them, identifies the language.
      isoscore: their IsoScore.
      cosine: mean cosine of two of them, times 100.
    """

    identified: float
    isoscore: float
    cosine: float


UNMEASURED = Space(nan, nan, nan)


@dataclass(frozen=True, eq=False)
class Measured:
    """A layer, a method and its rank, and what was measured of them.

    Attributes:
      spec: the encoder at the layer; of vectors, only a name is known.
      method: fitted on the whole text.
      parts: the neighbours of the sentences in each pool.
      space: of the first pool.
      search: the scores of queries, in percent; None if there is nothing aligned to search.
      hubs: measures of the search by cosine, and by CSLS with a bank of the text of the fit, in the first pool.
      stand_ins: the scores by each of the texts that stand in for one that is not aligned; ``search`` has their means.
    """

    spec: EncoderSpec
    method: Method
    parts: Sequence[Neighbours]
    space: Space = UNMEASURED
    search: QueryScores | None = None
    hubs: Float[np.ndarray, "2 measure"] = field(default_factory=lambda: np.full((2, 4), nan))
    stand_ins: tuple[float, ...] = ()

    @property
    def layer(self) -> int:
        """The layer."""
        return self.spec.layer

    @property
    def label(self) -> str:
        """Its name in tables; vectors, which have no pooling, have no known layer."""
        return f"layer {self.layer}, {self.method.label}" if self.spec.pooling else self.method.label

    @cached_property
    def own(self) -> float:
        """The percentage of the nearest neighbours that are in the sentence's language: the mean over the pools."""
        return float(np.mean([100 * part.own.mean() for part in self.parts]))

    @cached_property
    def expected(self) -> float:
        """The same without preference: the percentage of the other sentences that are in its language."""
        return float(np.mean([100 * part.fair for part in self.parts]))

    @cached_property
    def score(self) -> float:
        """The score in search, in percent; NaN without search."""
        return nan if self.search is None else self.search.mean

    @property
    def moves(self) -> bool:
        """Whether there is a transform: the original embeddings have none."""
        return self.method.transform is not None

    @property
    def needs_language(self) -> bool:
        """Whether its transform needs the language of each sentence."""
        return self.method.transform is not None and self.method.transform.languages is not None


def in_threads(function: Callable[[_Item], _Found], items: Sequence[_Item], text: str = "") -> Iterator[_Found]:
    """Yields what a function returns for each item, in order: a small search leaves cores to another.

    With a text, it is shown how far this is.
    """
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads, Meter(bool(text)) as meter:
        for number, found in enumerate(threads.map(function, items), 1):
            meter(text, number, len(items))
            yield found


def write_measured(path: Path, measured: Sequence[Measured]) -> None:
    """Writes what was measured of the methods of a layer; all have the same pools, and scores of the same queries."""
    arrays = {name: np.array([getattr(entry, name) for entry in measured]) for name in ("space", "hubs", "stand_ins")}
    for part in range(len(measured[0].parts)):
        arrays[f"rows.{part}"] = np.stack([entry.parts[part].rows for entry in measured])
        arrays[f"cosines.{part}"] = np.stack([entry.parts[part].cosines for entry in measured])
    if searches := [entry.search for entry in measured if entry.search is not None]:
        queries = {"strata": searches[0].strata, "clusters": searches[0].clusters}
        arrays |= {"values": np.stack([search.values for search in searches])}
        arrays |= {name: array for name, array in queries.items() if array is not None}
    save_arrays(path, arrays, format=FORMAT, header=[entry.method.label for entry in measured])


def read_measured(path: Path, spec: EncoderSpec, methods: Sequence[Method], pools: Sequence[Pool]) -> list[Measured]:
    """Reads what ``write_measured`` wrote."""
    with open_arrays(path, format=FORMAT, what="measures of a layer") as file:
        if file.header != [method.label for method in methods]:
            raise ValueError(f"{path} has measures of other methods; delete the file")
        arrays = {name: file.read(name) for name in file.names}
    strata, clusters = arrays.get("strata"), arrays.get("clusters")
    measured = []
    for number, (method, space, hubs) in enumerate(zip(methods, arrays["space"].tolist(), arrays["hubs"], strict=True)):
        lists = [[arrays[f"{name}.{part}"][number] for name in ("rows", "cosines")] for part in range(len(pools))]
        parts = [pool.neighbours(*found) for pool, found in zip(pools, lists, strict=True)]
        search = QueryScores(arrays["values"][number], strata, clusters) if "values" in arrays else None
        stand_ins = tuple(arrays["stand_ins"][number].tolist())
        measured.append(Measured(spec, method, parts, Space(*space), search, hubs, stand_ins))
    return measured


def spanned_rank(means: Float[np.ndarray, "language dim"]) -> int:
    """Returns the number of dimensions in which the means of the languages differ: the highest rank of LSAR."""
    precise = means.astype(np.float64)
    return int(np.linalg.matrix_rank(precise - precise.mean(axis=0), tol=1e-4 * np.abs(precise).max()))
