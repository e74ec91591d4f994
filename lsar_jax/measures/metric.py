"""A metric as a value: its name, which way is better, and where tables show it."""

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Direction", "Kind", "Metric"]

Direction = Literal["higher", "lower", "neither"]
Kind = Literal["", "across languages", "in one language", "preference"]


@dataclass(frozen=True)
class Metric:
    """The metric of a score.

    Attributes:
      name: its name in results, unique within a task; a number of languages may be part of it.
      direction: whether higher or lower values are better.
      kind: the side of a method's cost and gain that it measures; such metrics of all tasks are set side by side.
      column: its name there, the same for every number of languages; by default ``name``.
      unit: ``%``; or empty, for cosines, correlations and shares from 0 to 1.
      shown: whether the table of its task shows it.
    """

    name: str
    direction: Direction = "higher"
    kind: Kind = ""
    column: str = ""
    unit: str = "%"
    shown: bool = False

    def over(self, count: int) -> "Metric":
        """Returns the mean over so many languages, or pairs of them, as a metric of its own."""
        return replace(self, name=f"{self.name} over {count}", column=self.column or self.name)
