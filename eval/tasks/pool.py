"""Any multilingual pool: does retrieval prefer the query's language, and do clusters follow languages?

    python -m eval pool
    python -m eval pool --data pool --queries questions

By default, the pool is one half of the paragraphs of the Universal Declaration of Human Rights in 40 languages, and
transforms are fitted on the other half. The lines of the pool are also the queries, and each is excluded from its own
results. With ``--queries``, the queries are the lines of a second folder, and line i of the pool answers query i.

*Preference*, *spread* and *top 10* (to be compared with *pool share*) are defined in
``lsar_jax.retrieval.preference``. Preference needs ``--queries``. *NMI* is the normalised mutual information between
k-means clusters of the pool and its languages, for each seed.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from eval.command import command
from eval.data.multilingual_pool import line_pool, read_lines
from eval.task import Embedded, Score, Setting, Task
from eval.tasks.udhr import HALF
from lsar_jax.measures.methods import Method
from lsar_jax.measures.ranking import language_nmi, own_share, precision_of_ranks
from lsar_jax.measures.resampling import QueryScores
from lsar_jax.retrieval import nearest
from lsar_jax.retrieval.preference import language_preference, top_k_share

__all__ = ["COMMAND", "measures", "pool"]


def pool(
    data: str | Path = "udhr",
    queries: Path | None = None,
    languages: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0, 1, 2),
) -> Task:
    """Language preference in any multilingual pool, and how closely clusters follow languages.

    Args:
      data: udhr, or a folder of {language}.txt files, where line i has the same content in all files.
      queries: folder of queries in the same languages; line i of the pool answers line i of the queries.
      languages: language codes; by default, all available.
      seeds: seeds of k-means.
    """
    lines, asked = read_lines(data, queries, languages)
    if len(lines) < (2 if asked else 3):
        raise ValueError(f"{data} has only {', '.join(lines)}; give at least three languages, or two with --queries")

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        return measures(x, list(lines), seeds)

    return Task(
        name="pool",
        title=f"A pool of {len(lines)} languages",
        languages=list(lines),
        parts=[{("pool", code): text for code, text in lines.items()} | {("asked", c): t for c, t in asked.items()}],
        scores=scores,
        # The pool and the text to fit on are the two halves of the UDHR.
        own_text={"udhr": HALF} if str(data) == "udhr" else {},
    )


def measures(x: Embedded, codes: list[str], seeds: tuple[int, ...]) -> Iterator[Score]:
    """Yields all measures, in percent; row i of each language has the same content."""
    lines = len(x["pool", codes[0]])
    of = line_pool(codes, lines, "asked" if ("asked", codes[0]) in x else "pool")
    queries, candidates, ranks = of.search(x)
    language, itself = np.repeat(np.arange(len(codes)), lines), of.itself
    found = language_preference(ranks, language, len(candidates))
    k = min(10, len(candidates) - itself)
    if itself:
        top = own_share(candidates, language, k)
    else:
        top = top_k_share(np.asarray(nearest(queries, candidates, k)[1]), language, language)

    def of_queries(metric: str, values: np.ndarray) -> Score:
        return Score.of(
            metric, codes, QueryScores(100.0 * values, clusters=of.question), int(np.isfinite(values).sum())
        )

    yield of_queries("mAP", precision_of_ranks(ranks))
    yield of_queries("spread", found.spreads)
    yield of_queries(f"top {k}", top.shares)
    yield Score("pool share", 100 * (lines - itself) / (len(candidates) - itself), codes, len(candidates))
    if not itself:
        yield of_queries("preference", found.preferred)
    names = [codes[i] for i in language]
    for seed, value in zip(seeds, language_nmi(candidates, names, seeds), strict=True):
        yield Score("NMI", 100 * float(value), codes, len(candidates), seed=seed)


COMMAND = command(pool)
