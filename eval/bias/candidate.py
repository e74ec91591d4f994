"""A layer and a method that the bias report compares, with what was measured of them."""

from dataclasses import dataclass
from functools import cached_property

from eval.bias.measures import Neutrality
from eval.methods import Method
from eval.resampling import Queries
from lsar_jax import EncoderSpec

__all__ = ["Candidate"]


@dataclass(frozen=True)
class Candidate:
    """A layer and a method.

    Attributes:
      spec: the encoder at the layer.
      method: the method, fitted on the whole text.
      neutrality: how much of the language is left, the mean over the folds.
      search: the scores of queries, in percent; None if there is nothing aligned to search.
    """

    spec: EncoderSpec
    method: Method
    neutrality: Neutrality
    search: Queries | None

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"layer {self.spec.layer}, {self.method.label}"

    @cached_property
    def score(self) -> float:
        """The score in search, in percent; NaN without search."""
        return float("nan") if self.search is None else self.search.mean

    @property
    def needs_language(self) -> bool:
        """Whether its transform needs the language of each sentence."""
        transform = self.method.transform
        return transform is not None and transform.languages is not None
