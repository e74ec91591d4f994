"""Scores from ranks and similarities, and measures of the language information in embeddings."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.retrieval import candidate_ranks, nearest

__all__ = [
    "bitext_f1", "into_english", "language_nmi", "ndcg", "paired_cosine", "pool_precision", "precision_of_ranks",
    "probe_accuracy", "probe_folds", "recall", "top1_hits",
]  # fmt: skip

# Vectors that scores by CSLS are scaled against; None for scores by cosine.
Bank = Float[np.ndarray, "row dim"] | None
Vectors = Float[np.ndarray, "vector dim"]
# The language of each embedding, by its code or number.
Languages = Sequence[str] | Int[np.ndarray, " vector"]
# Ranks or ids of the relevant candidates of each query, less than 0 where there are no more.
Candidates = Int[np.ndarray, "query relevant"]


def precision_of_ranks(ranks: Candidates) -> Float[np.ndarray, " query"]:
    """Returns the average precision of each query, 0 to 1, from the ranks of its relevant candidates.

    Ranks come from ``lsar_jax.retrieval.candidate_ranks``: from 0 (best), -1 for a missing candidate.
    """
    answers = (ranks >= 0).sum(axis=1)
    if not answers.all():
        raise ValueError(f"query {int(np.argmin(answers))} has no relevant candidate")
    ordered = np.sort(np.where(ranks < 0, np.iinfo(np.int32).max, ranks), axis=1).astype(np.int64)
    precision = np.arange(1, ranks.shape[1] + 1) / (ordered + 1)
    return np.where(np.arange(ranks.shape[1]) < answers[:, None], precision, 0).sum(axis=1) / answers


def ndcg(
    found: Int[np.ndarray, "query k"],
    relevant: Candidates,
    gains: Float[np.ndarray, "query relevant"],
) -> Float[np.ndarray, " query"]:
    """Returns the normalised discounted cumulative gain of each query's first k results, 0 to 1.

    The gain of a result is its grade, divided by ``log2(rank + 1)``, as in ``ndcg_cut`` of trec_eval, which MTEB uses
    (Järvelin and Kekäläinen, TOIS 2002).

    Args:
      found: indices of the first k candidates, best first, as ``lsar_jax.retrieval.nearest`` returns them.
      relevant: indices of each query's relevant candidates; -1 for none.
      gains: their grades, above 0; 0 for none.
    """
    discounts = 1 / np.log2(np.arange(2, found.shape[1] + 2))
    best = -np.sort(-gains, axis=1)[:, : len(discounts)]
    gained = (_where_relevant(found, relevant) * gains[:, None, :]).sum(axis=2)
    return gained @ discounts / (best @ discounts[: best.shape[1]])


def recall(found: Int[np.ndarray, "query k"], relevant: Candidates) -> Float[np.ndarray, " query"]:
    """Returns the share of each query's relevant candidates among its first k results; the arguments are as above."""
    return _where_relevant(found, relevant).any(axis=1).sum(axis=1) / (relevant >= 0).sum(axis=1)


def _where_relevant(found: Int[np.ndarray, "query k"], relevant: Candidates) -> Bool[np.ndarray, "query k relevant"]:
    return (found[:, :, None] == relevant[:, None, :]) & (relevant >= 0)[:, None, :]


def bitext_f1(found: Int[np.ndarray, " pair"]) -> Float[np.ndarray, " pair"]:
    """Returns the F1 of each sentence's translation as a class, 0 to 1; their mean is the F1 of MTEB's bitext mining.

    Args:
      found: index of the translation that each sentence finds; i is right for sentence i. With one right sentence a
        class, F1 is ``2 / (1 + n)`` if it is found, where n sentences found this translation, else 0.
    """
    times = np.bincount(found, minlength=len(found))[: len(found)]
    return np.where(found == np.arange(len(found)), 2 / (1 + times), 0.0)


def top1_hits(
    queries: Float[np.ndarray, "pair dim"], candidates: Float[np.ndarray, "pair dim"], bank: Bank = None
) -> Bool[np.ndarray, " pair"]:
    """Whether the candidate nearest to query i, by cosine or with a bank by CSLS, is candidate i, its translation."""
    return np.asarray(nearest(queries, candidates, bank=bank)[1])[:, 0] == np.arange(len(queries))


def pool_precision(x: Mapping[str, Float[np.ndarray, "paragraph dim"]], bank: Bank = None) -> QueryScores:
    """Returns the average precision of each text as a query for its translations among all others, in percent.

    Row i has the same content in all languages, and is a cluster.
    """
    pool, paragraphs = np.concatenate(list(x.values())), len(next(iter(x.values())))
    paragraph = np.tile(np.arange(paragraphs), len(x))
    relevant = paragraph[:, None] + paragraphs * np.arange(len(x))
    ranks = candidate_ranks(pool, pool, relevant, bank=bank, left_out=np.arange(len(pool)))
    return QueryScores(100 * precision_of_ranks(ranks), clusters=paragraph)


def into_english(x: Mapping[str, Float[np.ndarray, "paragraph dim"]], bank: Bank = None) -> QueryScores:
    """Returns 100 for each text whose nearest English text is its translation, else 0; translations form a cluster."""
    others = [code for code in x if code != "en"]
    hits = [100.0 * top1_hits(x[code], x["en"], bank) for code in others]
    # Every language has the same number of texts, so the mean is also the mean over languages.
    return QueryScores(np.concatenate(hits), clusters=np.tile(np.arange(len(x["en"])), len(others)))


def paired_cosine(a: Float[np.ndarray, "pair dim"], b: Float[np.ndarray, "pair dim"]) -> Float[np.ndarray, " pair"]:
    """Returns the cosine of row i of ``a`` and row i of ``b``, in float64; 0 if either row is zero."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.einsum("pd,pd->p", x, y) / np.where(norms > 0, norms, 1)


def language_nmi(x: Vectors, languages: Sequence[str], seeds: Sequence[int] = (0,)) -> Float[np.ndarray, " seed"]:
    """Returns the normalised mutual information of k-means clusters and languages, 0 to 1, for each seed.

    The setup follows Xie et al. 2022 as far as they describe it: there are as many clusters as languages, and
    embeddings are not normalised. k-means++ has 10 starts of up to 300 steps, and the mutual information is divided by
    the arithmetic mean of the two entropies.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    clusters = len(set(languages))
    centred = x - x.mean(axis=0)
    found = [KMeans(clusters, n_init=10, max_iter=300, random_state=seed).fit_predict(centred) for seed in seeds]
    return np.array([normalized_mutual_info_score(languages, labels) for labels in found])


def probe_folds(languages: Languages, groups: Sequence[int], seed: int = 0) -> Int[np.ndarray, " vector"]:
    """Returns the fold of each embedding, from 0 to 4, of five that have as many of each language.

    A group stays in one fold; put translations of a sentence in one group, because a probe that is fitted on one of
    them can recognise the others by their meaning.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    rare = min(set(languages), key=list(languages).count)
    if list(languages).count(rare) < 5:
        raise ValueError(f"five folds need five embeddings of each language; {rare} has {list(languages).count(rare)}")
    fold = np.zeros(len(languages), int)
    parts = StratifiedGroupKFold(5, shuffle=True, random_state=seed).split(fold, np.array(languages), np.array(groups))
    for number, (_, tested) in enumerate(parts):
        fold[tested] = number
    return fold


def probe_accuracy(x: Vectors, languages: Languages, fold: Int[np.ndarray, " vector"]) -> float:
    """Returns the accuracy of a linear language classifier, in percent, as a mean over the folds of ``probe_folds``.

    The classifier is fitted by least squares with a ridge of 1e-3 of the variance; the fits of all folds share the
    products of the rows. The accuracy expected by chance is the share of the largest language.
    """
    from scipy.linalg import solve

    centred = np.asarray(x, np.float64) - x.mean(axis=0)
    centred /= np.sqrt((centred**2).mean()) or 1.0
    _, number = np.unique(languages, return_inverse=True)
    target = 2.0 * np.eye(number.max() + 1)[number] - 1
    parts = [fold == one for one in np.unique(fold)]
    products = [centred[part].T @ centred[part] for part in parts]
    total, right = sum(products), centred.T @ target
    accuracies = []
    for part, product in zip(parts, products, strict=True):
        rows, means = (~part).sum(), (centred[~part].mean(axis=0), target[~part].mean(axis=0))
        gram = total - product - rows * np.outer(means[0], means[0])
        gram[np.diag_indices_from(gram)] += 1e-3 * len(x)
        answer = right - centred[part].T @ target[part] - rows * np.outer(*means)
        weights = solve(gram, answer, assume_a="pos", check_finite=False, overwrite_a=True)
        found = ((centred[part] - means[0]) @ weights + means[1]).argmax(axis=1)
        accuracies.append((found == number[part]).mean())
    return 100 * float(np.mean(accuracies))
