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
from eval.scores.pools import search_pool
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from eval.tasks.udhr import HALF
from lsar_jax.measures.ranking import language_nmi

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

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        return measures(x, list(lines), seeds)

    return Task(
        name="pool",
        title=f"A pool of {len(lines)} languages",
        languages=list(lines),
        parts=[{("pool", code): text for code, text in lines.items()} | {("asked", c): t for c, t in asked.items()}],
        scores=scores,
        # A line needs two translations besides itself; a query finds its own language too.
        least=2 if asked else 3,
        # The pool and the text to fit on are the two halves of the UDHR.
        own_text={"udhr": HALF} if str(data) == "udhr" else {},
    )


def measures(x: Embedded, codes: list[str], seeds: tuple[int, ...]) -> Iterator[Score]:
    """Yields all measures, in percent; row i of each language has the same content."""
    of = line_pool(codes, len(x["pool", codes[0]]), "asked" if ("asked", codes[0]) in x else "pool")
    asked, candidates = ([x[key] for key in keys] for keys in (of.asked, of.searched))
    found, pool = search_pool(asked, candidates, of.relevant, itself=of.itself), np.concatenate(candidates)
    for name, values in found.values.items():
        if name != "preference" or not of.itself:
            metric = Metric(name, "higher" if name == "mAP" else "neither", shown=True)
            yield Score.of(metric, codes, QueryScores(values, clusters=of.question))
    yield Score(Metric("pool share", "neither", shown=True), found.pool_share, codes, len(pool))
    names = [code for code, rows in zip(codes, candidates, strict=True) for _ in rows]
    for seed, value in zip(seeds, language_nmi(pool, names, seeds), strict=True):
        yield Score(Metric("NMI", "neither", shown=True), 100 * float(value), codes, len(pool), seed=seed)


COMMAND = command(pool)
