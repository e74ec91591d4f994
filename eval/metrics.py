"""Scores from similarities, in plain numpy."""

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = [
    "accuracy",
    "average_precision",
    "mean_average_precision",
    "one_target_precision",
    "paired_cosine",
    "precision_of_ranks",
]


def mean_average_precision(
    similarity: Float[np.ndarray, "query candidate"],
    relevant: Bool[np.ndarray, "query candidate"],
    excluded: Bool[np.ndarray, "query candidate"] | None = None,
) -> float:
    """Returns the mean over queries of ``average_precision``, in percent."""
    return 100 * float(average_precision(similarity, relevant, excluded).mean())


def average_precision(
    similarity: Float[np.ndarray, "query candidate"],
    relevant: Bool[np.ndarray, "query candidate"],
    excluded: Bool[np.ndarray, "query candidate"] | None = None,
) -> Float[np.ndarray, " query"]:
    """Returns each query's average precision over the full ranking, 0 to 1.

    It is the mean, over the relevant candidates, of the precision at their rank. Ties are ranked
    by index.

    Args:
      similarity: larger is nearer; float32 is sorted several times as fast.
      relevant: the right answers; at least one in each row.
      excluded: candidates that a query does not see, such as itself.

    Raises:
      ValueError: shapes differ, or a query has no right answer.
    """
    excluded = np.zeros_like(relevant) if excluded is None else excluded
    if not similarity.shape == relevant.shape == excluded.shape:
        raise ValueError(f"shapes differ: {similarity.shape}, {relevant.shape}, {excluded.shape}")
    relevant = relevant & ~excluded
    answers = relevant.sum(axis=1)
    if not answers.all():
        raise ValueError(f"query {int(np.argmin(answers))} has no relevant candidate")
    hits = _sorted_hits(similarity, relevant, excluded)
    query, rank = np.nonzero(hits)
    nth = np.arange(len(query)) - np.repeat(np.cumsum(answers) - answers, answers) + 1
    return np.bincount(query, nth / (rank + 1), len(answers)) / answers


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


def _sorted_hits(
    similarity: Float[np.ndarray, "query candidate"],
    relevant: Bool[np.ndarray, "query candidate"],
    excluded: Bool[np.ndarray, "query candidate"],
) -> Bool[np.ndarray, "query candidate"]:
    """Returns ``relevant`` with each row in the order of the ranking."""
    if similarity.dtype != np.float32:
        ranking = np.argsort(np.where(excluded, np.inf, -similarity), axis=1, kind="stable")
        return np.take_along_axis(relevant, ranking, axis=1)
    # One whole number a candidate, sorted by its value: the float's bits in an order that is that of
    # the floats, the index, and the answer. Several times as fast as argsort.
    distance = 0 - similarity  # never -0, which sorts before 0
    distance[excluded] = np.inf
    bits = distance.view(np.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    keys = bits.astype(np.int64)
    keys <<= 32
    keys |= np.arange(similarity.shape[1], dtype=np.int64) << 1
    keys |= relevant
    keys.sort(axis=1)
    keys &= 1
    return keys.astype(bool)


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
