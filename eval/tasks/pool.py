"""Any pool of many languages: does retrieval prefer the query's language, do clusters follow languages?

    python -m eval pool
    python -m eval pool --data pool --queries questions

Data: the declaration of human rights in 40 languages, half of whose paragraphs are the pool and half are fitted
on; or a folder of one text file a language, line i the same in every file. The pool's own lines are the queries, which
do not see themselves; or, with ``--queries``, those of a second folder, line i of which is answered by line i
of the pool. *Preference*, *spread* and *top 10*, which *own in pool* is to be compared with, are those of
``lsar_jax.preference``; preference needs a right answer in the query's own language, and so a second folder. *NMI* is
the mutual information of k-means clusters of the pool and its languages, over seeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from eval.data.pool import read_pool
from eval.methods import Method
from eval.metrics import language_nmi, precision_of_ranks
from eval.resampling import Queries
from eval.task import Embedded, FittedTask, Score, Texts
from lsar_jax import EncoderSpec, corpora
from lsar_jax.retrieval import candidate_ranks, nearest
from lsar_jax.retrieval.preference import language_preference, top_k_share

__all__ = ["Pool"]


@dataclass(frozen=True)
class Pool(FittedTask):
    """Preference for languages in any multilingual pool, and how far clusters follow languages.

    Attributes:
      data: udhr, or the folder of {language}.txt files, line i the same in each.
      queries: a folder of the same languages, line i of which is answered by line i of the pool.
      languages: codes; by default all that there are.
      seeds: of k-means.
    """

    name = "pool"

    out: Path = Path("results/pool")
    data: str | Path = "udhr"
    queries: Path | None = None
    languages: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on."""
        return "udhr fit" if self._halves else super().fitted_on

    @property
    def _halves(self) -> bool:
        """Whether the pool and what is fitted on are halves of one text."""
        return str(self.data) == self.fit_on == "udhr"

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on, of which none is in the pool."""
        if not self._halves:
            return super().some_fit_texts(languages)
        return {code: text[: self.fit_count] for code, text in corpora.udhr("fit", languages).items()}

    @property
    def title(self) -> str:
        """What tables and figures are called."""
        return f"A pool of {len(self.pool)} languages"

    @cached_property
    def pool(self) -> dict[str, list[str]]:
        """The lines of each language."""
        pool = read_pool(self.data, self.languages)
        if self.queries is None and len(pool) < 3:
            raise ValueError(
                f"{self.data} has {', '.join(pool)}; without --queries three languages are needed to compare"
            )
        return pool

    @cached_property
    def asked(self) -> dict[str, list[str]]:
        """The queries of each language; empty if they are the pool's own lines."""
        if self.queries is None:
            return {}
        asked = read_pool(self.queries, tuple(self.pool))
        lengths = [len(next(iter(side.values()))) for side in (asked, self.pool)]
        if lengths[0] != lengths[1]:
            raise ValueError(f"{self.queries} has {lengths[0]} lines a language and {self.data} {lengths[1]}")
        return asked

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return list(self.pool)

    def texts(self) -> Texts:
        """Returns the lines of the pool, and the queries if they are others."""
        return {("pool", code): text for code, text in self.pool.items()} | {
            ("asked", code): text for code, text in self.asked.items()
        }

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields shares in percent, like all that is printed beside them."""
        codes = self.codes()
        candidates = np.concatenate([x["pool", code] for code in codes])
        own = not self.asked
        queries = candidates if own else np.concatenate([x["asked", code] for code in codes])
        lines = len(candidates) // len(codes)
        language = np.repeat(np.arange(len(codes)), lines)
        # Line i of each language; a query that is in the pool does not see itself.
        line = np.tile(np.arange(lines), len(codes))
        right = line[:, None] + lines * np.arange(len(codes))
        itself = np.arange(len(candidates)) if own else None
        ranks = candidate_ranks(queries, candidates, right, left_out=itself)
        found = language_preference(ranks, language, len(candidates))
        k = min(10, len(candidates) - own)
        ids = np.asarray(nearest(queries, candidates, k + own)[1])
        if itself is not None:
            # A query that has copies may not be among its own first: then the last one goes.
            seen = ids != itself[:, None]
            seen[seen.all(axis=1), -1] = False
            ids = ids[seen].reshape(len(queries), k)
        top = top_k_share(ids, language, language)

        per_query = {"mAP": precision_of_ranks(ranks), "spread": found.spreads, f"top {k}": top.shares}
        for metric, values in (per_query | ({} if own else {"preference": found.preferred})).items():
            if metric == "preference":
                yield Score("own in pool", 100 * (lines - own) / (len(candidates) - own), codes, len(candidates))
            scored = Queries(100.0 * values, clusters=line)
            yield Score.of(metric, codes, scored, int(np.isfinite(values).sum()))
        if own:
            yield Score("own in pool", 100 * (lines - own) / (len(candidates) - own), codes, len(candidates))
        names = [codes[i] for i in language]
        for seed, value in zip(self.seeds, language_nmi(candidates, names, self.seeds), strict=True):
            yield Score("NMI", 100 * float(value), codes, len(candidates), seed=seed)
