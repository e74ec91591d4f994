"""Any multilingual pool: does retrieval prefer the query's language, and do clusters follow languages?

    python -m eval pool
    python -m eval pool --data pool --queries questions

By default, the pool is one half of the paragraphs of the Universal Declaration of Human Rights in 40 languages, and
transforms are fitted on the other half. A pool can also be a folder with one text file per language, where line i has
the same content in every file. The lines of the pool are also the queries, and each is excluded from its own results.
With ``--queries``, the queries are the lines of a second folder instead, and line i of the pool answers query i.

*Preference*, *spread* and *top 10* (to be compared with *own in pool*) are defined in
``lsar_jax.retrieval.preference``. Preference needs a relevant answer in the query's own language, and therefore
``--queries``. *NMI* is the normalised mutual information between k-means clusters of the pool and its languages, for
each seed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from eval.data.pool import read_pool
from eval.fitted_task import FittedTask
from eval.methods import Method
from eval.metrics import language_nmi, precision_of_ranks
from eval.resampling import Queries
from eval.score import Score
from eval.task import Embedded, Texts
from lsar_jax import EncoderSpec, corpora
from lsar_jax.retrieval import candidate_ranks, nearest
from lsar_jax.retrieval.preference import language_preference, top_k_share

__all__ = ["Pool"]


@dataclass(frozen=True)
class Pool(FittedTask):
    """Language preference in any multilingual pool, and how closely clusters follow languages.

    Attributes:
      data: udhr, or a folder of {language}.txt files, where line i has the same content in all files.
      queries: folder of queries in the same languages; line i of the pool answers line i of the queries.
      languages: language codes; by default, all available.
      seeds: seeds of k-means.
    """

    name = "pool"

    out: Path = Path("results/pool")
    data: str | Path = "udhr"
    queries: Path | None = None
    languages: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
        return "udhr fit" if self._halves else super().fitted_on

    @property
    def _halves(self) -> bool:
        """Whether the pool and the fitting text are the two halves of the UDHR."""
        return str(self.data) == self.fit_on == "udhr"

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on; with the UDHR, none of it is in the pool."""
        if not self._halves:
            return super().some_fit_texts(languages)
        return {code: text[: self.fit_count] for code, text in corpora.udhr("fit", languages).items()}

    @property
    def title(self) -> str:
        """The title of tables and figures."""
        return f"A pool of {len(self.pool)} languages"

    @cached_property
    def pool(self) -> dict[str, list[str]]:
        """The lines of each language."""
        pool = read_pool(self.data, self.languages)
        if self.queries is None and len(pool) < 3:
            raise ValueError(
                f"{self.data} has only {', '.join(pool)}; without --queries, at least three languages are needed"
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
            raise ValueError(
                f"{self.queries} has {lengths[0]} lines per language but {self.data} has {lengths[1]}; give one query "
                "for each line of the pool"
            )
        return asked

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return list(self.pool)

    def texts(self) -> Texts:
        """Returns the lines of the pool, and the queries of ``--queries`` if given."""
        return {("pool", code): text for code, text in self.pool.items()} | {
            ("asked", code): text for code, text in self.asked.items()
        }

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields all measures, in percent."""
        codes = self.codes()
        candidates = np.concatenate([x["pool", code] for code in codes])
        own = not self.asked
        queries = candidates if own else np.concatenate([x["asked", code] for code in codes])
        lines = len(candidates) // len(codes)
        language = np.repeat(np.arange(len(codes)), lines)
        # Line i of every language is relevant to query i. A query from the pool is excluded from its own results.
        line = np.tile(np.arange(lines), len(codes))
        right = line[:, None] + lines * np.arange(len(codes))
        itself = np.arange(len(candidates)) if own else None
        ranks = candidate_ranks(queries, candidates, right, left_out=itself)
        found = language_preference(ranks, language, len(candidates))
        k = min(10, len(candidates) - own)
        ids = np.asarray(nearest(queries, candidates, k + own)[1])
        if itself is not None:
            # Drop the query itself; if copies of it have pushed it out of the results, drop the last result.
            seen = ids != itself[:, None]
            seen[seen.all(axis=1), -1] = False
            ids = ids[seen].reshape(len(queries), k)
        top = top_k_share(ids, language, language)

        def of_queries(metric: str, values: np.ndarray) -> Score:
            scored = Queries(100.0 * values, clusters=line)
            return Score.of(metric, codes, scored, int(np.isfinite(values).sum()))

        yield of_queries("mAP", precision_of_ranks(ranks))
        yield of_queries("spread", found.spreads)
        yield of_queries(f"top {k}", top.shares)
        yield Score("own in pool", 100 * (lines - own) / (len(candidates) - own), codes, len(candidates))
        if not own:
            yield of_queries("preference", found.preferred)
        names = [codes[i] for i in language]
        for seed, value in zip(self.seeds, language_nmi(candidates, names, self.seeds), strict=True):
            yield Score("NMI", 100 * float(value), codes, len(candidates), seed=seed)
