"""Do clusters of paragraphs in many languages follow their topics, or their languages?

    python -m eval clustering --data data/xquad-r

As in Fan et al., "The Medium Is Not the Message", 2025 (arXiv 2507.01234), who erase language by LEACE: k-means with as
many clusters as there are topics, on documents of all languages together. *purity* is the share of documents whose
topic is the most frequent one of their cluster; *ARI* is the adjusted Rand index of clusters and topics, and *ARI of
languages* the index of clusters and languages. *purity in one language* clusters each language by itself, as far as its
topics are told apart without others. The documents are the paragraphs of XQuAD-R, and their topics its 48 articles.

Vectors are divided by their length, so that distances rank as cosines do; whether the paper does so was not found.
k-means++ has one start for each seed. Purity is the mean over seeds, and its interval is over topics.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from eval.command import command
from eval.data.xquad import NOT_ON_HUB, read_articles
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.arrays import unit_rows
from lsar_jax.corpora.tables import Data

__all__ = ["COMMAND", "clustering"]


def clustering(
    data: Data = Path("data/xquad-r"), languages: tuple[str, ...] = (), seeds: tuple[int, ...] = (0, 1, 2)
) -> Task:
    """Clusters of paragraphs in several languages: whether they follow topics or languages.

    Args:
      data: folder of {language}.json files of XQuAD-R.
      languages: language codes; by default, all in the folder.
      seeds: seeds of k-means.
    """
    articles = read_articles(data, languages)
    topics = {code: np.array(of) for code, (_, of) in articles.items()}

    def scores(x: Embedded, method: Method, _: Setting) -> Iterator[Score]:
        yield from _scores({code: x["document", code] for code in topics}, topics, seeds)

    return Task(
        name="clustering",
        title=f"Clusters of paragraphs in {len(articles)} languages",
        languages=list(articles),
        parts=[{("document", code): paragraphs for code, (paragraphs, _) in articles.items()}],
        scores=scores,
        least=2,
    )


def _scores(
    x: Mapping[str, Float[np.ndarray, "_ dim"]], topics: Mapping[str, Int[np.ndarray, " _"]], seeds: tuple[int, ...]
) -> Iterator[Score]:
    from sklearn.metrics import adjusted_rand_score

    codes = list(x)
    pool, topic = np.concatenate(list(x.values())), np.concatenate(list(topics.values()))
    language = np.repeat(np.arange(len(codes)), [len(rows) for rows in x.values()])
    found = [_clusters(pool, len(np.unique(topic)), seed) for seed in seeds]
    pure = np.mean([_pure(clusters, topic) for clusters in found], axis=0)
    purity = Metric("purity", kind="across languages", column="topics of all", shown=True)
    yield Score.of(purity, codes, QueryScores(100 * pure, clusters=topic))
    alone = [
        np.mean([_pure(_clusters(x[code], len(np.unique(of)), seed), of) for seed in seeds], axis=0)
        for code, of in topics.items()
    ]
    purity = Metric("purity in one language", kind="in one language", column="topics, each alone", shown=True)
    yield Score.of(purity, codes, QueryScores(100 * np.concatenate(alone), clusters=topic))
    metrics = {Metric("ARI", shown=True): topic, Metric("ARI of languages", "neither", shown=True): language}
    for (metric, classes), (seed, clusters) in product(metrics.items(), zip(seeds, found, strict=True)):
        yield Score(metric, 100 * adjusted_rand_score(classes, clusters), codes, len(pool), seed=seed)


def _clusters(x: Float[np.ndarray, "document dim"], count: int, seed: int) -> Int[np.ndarray, " document"]:
    from sklearn.cluster import KMeans

    return KMeans(count, n_init=1, random_state=seed).fit_predict(unit_rows(x))


def _pure(
    clusters: Int[np.ndarray, " document"], topic: Int[np.ndarray, " document"]
) -> Float[np.ndarray, " document"]:
    """Whether the topic of each document is the most frequent one of its cluster."""
    counts = np.zeros((clusters.max() + 1, topic.max() + 1), int)
    np.add.at(counts, (clusters, topic), 1)
    return (counts.argmax(axis=1)[clusters] == topic).astype(float)


COMMAND = command(clustering, not_on_hub=NOT_ON_HUB, rare=("seeds",))
