"""Scores from ranks and similarities, and how well the language can be read off embeddings."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

__all__ = [
    "accuracy",
    "language_nmi",
    "language_probe",
    "one_target_precision",
    "paired_cosine",
    "precision_of_ranks",
]


def precision_of_ranks(ranks: Int[np.ndarray, "query relevant"]) -> Float[np.ndarray, " query"]:
    """Returns each query's average precision from the ranks of its relevant candidates, 0 to 1.

    Args:
      ranks: 0 the best, -1 for none, as ``lsar_jax.ranks.candidate_ranks`` finds them.

    Raises:
      ValueError: a query has no relevant candidate.
    """
    answers = (ranks >= 0).sum(axis=1)
    if not answers.all():
        raise ValueError(f"query {int(np.argmin(answers))} has no relevant candidate")
    ordered = np.sort(np.where(ranks < 0, np.iinfo(np.int32).max, ranks), axis=1).astype(np.int64)
    precision = np.arange(1, ranks.shape[1] + 1) / (ordered + 1)
    return np.where(np.arange(ranks.shape[1]) < answers[:, None], precision, 0).sum(axis=1) / answers


def one_target_precision(ranks: Int[np.ndarray, "query relevant"]) -> Float[np.ndarray, "query relevant"]:
    """Returns 1 / rank of each relevant candidate when the query's others are not in the pool.

    Args:
      ranks: over the whole pool, 0 the best, -1 for none; no two of a query are equal.

    Returns:
      0 to 1; NaN where there is none.
    """
    known = ranks >= 0
    ahead = (ranks[:, None, :] < ranks[:, :, None]) & known[:, None, :]
    return np.where(known, 1 / np.where(known, ranks - ahead.sum(axis=2) + 1, 1), np.nan)


def accuracy(found: Int[np.ndarray, " query"], gold: Int[np.ndarray, " query"]) -> float:
    """Returns the share of queries whose answer is the gold one, in percent."""
    if found.shape != gold.shape or not found.size:
        raise ValueError(f"{found.shape} answers for {gold.shape} gold ones")
    return 100 * float((found == gold).mean())


def paired_cosine(a: Float[np.ndarray, "pair dim"], b: Float[np.ndarray, "pair dim"]) -> Float[np.ndarray, " pair"]:
    """Returns the cosine of row i of ``a`` and row i of ``b``, in float64; 0 where one is zero."""
    if a.shape != b.shape:
        raise ValueError(f"shapes differ: {a.shape}, {b.shape}")
    x, y = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.einsum("pd,pd->p", x, y) / np.where(norms > 0, norms, 1)


def language_nmi(
    x: Float[np.ndarray, "vector dim"], languages: Sequence[str], seeds: Sequence[int] = (0,)
) -> Float[np.ndarray, " seed"]:
    """Returns the normalised mutual information of k-means clusters and languages, 0 to 1, a value a seed.

    As in Xie et al. 2022, as far as they say it: as many clusters as languages, on embeddings that are not
    normalised; k-means++ with 10 starts and 300 steps, arithmetic averaging.

    Args:
      x: embeddings.
      languages: code of each row.
      seeds: of the starts.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    if len(languages) != len(x):
        raise ValueError(f"{len(languages)} languages for {len(x)} embeddings")
    clusters = len(set(languages))
    centred = x - x.mean(axis=0)
    found = [KMeans(clusters, n_init=10, max_iter=300, random_state=seed).fit_predict(centred) for seed in seeds]
    return np.array([normalized_mutual_info_score(languages, labels) for labels in found])


def language_probe(
    x: Float[np.ndarray, "vector dim"], languages: Sequence[str], groups: Sequence[int], seed: int = 0
) -> float:
    """Returns the accuracy of a linear classifier of languages, in percent.

    Least squares with a ridge of 1e-3 of the variance, trained and tested on five stratified folds; chance is
    the share of the largest language.

    Args:
      x: embeddings.
      languages: code of each row; at least five of each.
      groups: rows of one group are in one fold, as translations of each other should be: a probe that was
        trained on one would know the other by its meaning.
      seed: of the folds.
    """
    from sklearn.linear_model import RidgeClassifier
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_score

    if len(languages) != len(x):
        raise ValueError(f"{len(languages)} languages for {len(x)} embeddings")
    rare = min(set(languages), key=list(languages).count)
    if list(languages).count(rare) < 5:
        raise ValueError(f"five folds need five embeddings of each language; {rare} has {list(languages).count(rare)}")
    centred = np.asarray(x, np.float64) - x.mean(axis=0)
    scaled = centred / (np.sqrt((centred**2).mean()) or 1.0)
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=seed)
    probe = RidgeClassifier(alpha=1e-3 * len(x))
    return 100 * float(cross_val_score(probe, scaled, np.array(languages), groups=np.array(groups), cv=folds).mean())
