"""One value that a task measured, before the loop makes a result of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from eval.resampling import Queries

__all__ = ["Score"]


@dataclass(frozen=True)
class Score:
    """One value measured by a task.

    Attributes:
      metric: name of the metric.
      value: the measured value.
      languages: codes of the languages that the value covers.
      n: number of queries, vectors or languages measured.
      queries: scores of individual queries, for the interval and the paired test.
      low: lower end of the 95% interval, if the task computes the interval itself.
      high: upper end of the same interval.
      seed: seed of the measurement; None for the seed of the method.
      fitted_on: the text that the method was fitted on; None for the one that the task names.
    """

    metric: str
    value: float
    languages: Sequence[str]
    n: int
    queries: Queries | None = None
    low: float | None = None
    high: float | None = None
    seed: int | None = None
    fitted_on: str | None = None

    @classmethod
    def of(cls, metric: str, languages: Sequence[str], queries: Queries, n: int | None = None) -> "Score":
        """Returns the score whose value is the mean over the queries."""
        return cls(metric, queries.mean, languages, len(queries.values) if n is None else n, queries)
