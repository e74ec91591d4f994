"""Scores from similarities, in plain numpy."""

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["accuracy", "mean_average_precision"]


def mean_average_precision(
    similarity: Float[np.ndarray, "query candidate"],
    relevant: Bool[np.ndarray, "query candidate"],
    excluded: Bool[np.ndarray, "query candidate"] | None = None,
) -> float:
    """Returns the mean over queries of average precision over the full ranking, in percent.

    Average precision is the mean, over the relevant candidates, of the precision at their
    rank. Ties are ranked by index.

    Args:
      similarity: larger is nearer.
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
    ranking = np.argsort(np.where(excluded, np.inf, -similarity), axis=1, kind="stable")
    hits = np.take_along_axis(relevant, ranking, axis=1)
    precision = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    return 100 * float(((precision * hits).sum(axis=1) / answers).mean())


def accuracy(found: Int[np.ndarray, " query"], gold: Int[np.ndarray, " query"]) -> float:
    """Returns the share of queries whose answer is the gold one, in percent."""
    if found.shape != gold.shape or not found.size:
        raise ValueError(f"{found.shape} answers for {gold.shape} gold ones")
    return 100 * float((found == gold).mean())
