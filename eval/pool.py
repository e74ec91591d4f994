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

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.fitted import FittedTask
from eval.methods import Method
from eval.metrics import precision_of_ranks
from eval.probes import language_nmi
from eval.resampling import Queries
from eval.results import Result
from lsar_jax import EncoderSpec, corpora
from lsar_jax.preference import language_preference, top_k_share
from lsar_jax.ranks import candidate_ranks
from lsar_jax.retrieval import nearest

__all__ = ["Pool", "read_pool"]


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

    def run(self) -> list[Result]:
        """Encodes, fits, measures; prints a table, writes ``results.jsonl`` and a figure."""
        pool = read_pool(self.data, self.languages)
        if self.queries is None and len(pool) < 3:
            raise ValueError(
                f"{self.data} has {', '.join(pool)}; without --queries three languages are needed to compare"
            )
        asked = None if self.queries is None else read_pool(self.queries, tuple(pool))
        if asked is not None and len(next(iter(asked.values()))) != len(next(iter(pool.values()))):
            lengths = [len(next(iter(side.values()))) for side in (asked, pool)]
            raise ValueError(f"{self.queries} has {lengths[0]} lines a language and {self.data} {lengths[1]}")
        texts = {("fit", code): text for code, text in self.fit_texts(list(pool)).items()}
        texts |= {("pool", code): text for code, text in pool.items()}
        texts |= {("asked", code): text for code, text in (asked or {}).items()}
        encoder = self.prepare(len(pool))
        x = self.encode(encoder, texts)
        results: list[Result] = []
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            for method in self.fitted(x, index, spec):
                moved = {key: method(value[index], key[1]) for key, value in x.items() if key[0] != "fit"}
                results += self._score(moved, list(pool), method, spec)
        metrics = list(dict.fromkeys(r.metric for r in results))
        self.report(results, f"A pool of {len(pool)} languages", metrics, "mAP")
        return results

    def _score(
        self,
        x: Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]],
        codes: list[str],
        method: Method,
        spec: EncoderSpec,
    ) -> list[Result]:
        """Returns shares in percent, like all that is printed beside them."""
        started = time.perf_counter()
        candidates = np.concatenate([x["pool", code] for code in codes])
        own = ("asked", codes[0]) not in x
        queries = candidates if own else np.concatenate([x["asked", code] for code in codes])
        lines = len(candidates) // len(codes)
        language = np.repeat(np.arange(len(codes)), lines)
        # Line i of each language; of a query that is in the pool not itself.
        right = np.tile(np.arange(lines), len(codes))[:, None] + lines * np.arange(len(codes))
        itself = np.arange(len(candidates)) if own else None
        ranks = candidate_ranks(queries, candidates, right, left_out=itself)
        found = language_preference(ranks, language, len(candidates))
        k = min(10, len(candidates) - own)
        _, first = nearest(queries, candidates, k + own)
        ids = np.asarray(first)
        if itself is not None:
            # A query of which there are copies may not be among its own first: then the last goes.
            seen = ids != itself[:, None]
            seen[seen.all(axis=1), -1] = False
            ids = ids[seen].reshape(len(queries), k)
        top = top_k_share(ids, language, language)
        seconds = time.perf_counter() - started

        def entry(metric: str, values: Float[np.ndarray, " query"]) -> Result:
            scored = Queries(100.0 * values, clusters=np.tile(np.arange(lines), len(codes)))
            n = int(np.isfinite(values).sum())
            return self.result(spec, method, codes, metric, scored.mean, n, seconds).resampled(scored)

        results = [
            entry("mAP", precision_of_ranks(ranks)),
            entry("spread", found.spreads),
            entry(f"top {k}", top.shares),
        ]
        in_pool = 100 * (lines - own) / (len(candidates) - own)
        results.append(self.result(spec, method, codes, "own in pool", in_pool, len(candidates), seconds))
        if not own:
            results.append(entry("preference", found.preferred))
        names = [codes[i] for i in language]
        for seed, value in zip(self.seeds, language_nmi(candidates, names, self.seeds), strict=True):
            made = self.result(spec, method, codes, "NMI", 100 * float(value), len(candidates), seconds)
            results.append(replace(made, seed=seed))
        return results


def read_pool(data: str | Path, languages: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Returns the lines of each language, line i the same in each, in alphabetical order of the codes.

    Args:
      data: ``udhr``, the half that is not to fit on, or a folder of {language}.txt files.
      languages: codes; by default all that there are.

    Raises:
      FileNotFoundError: no such folder, or no file of a language.
      ValueError: fewer than two languages, or files of different numbers of lines.
    """
    if str(data) == "udhr":
        return corpora.udhr("test", languages or None)
    folder = Path(data)
    paths = corpora.language_files(folder, ".txt", languages or None)
    texts = {code: corpora.lines(path) for code, path in paths.items()}
    if len(texts) < 2:
        raise ValueError(f"{folder} has {', '.join(texts)}; a pool needs two languages")
    for code, text in texts.items():
        if blank := next((number for number, line in enumerate(text, 1) if not line.strip()), None):
            raise ValueError(f"{paths[code]}, line {blank} is blank")
    counts = {str(paths[code]): len(text) for code, text in texts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the files differ in their number of lines: {counts}")
    return texts
