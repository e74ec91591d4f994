"""What was measured of a text at some layers, and the answer of a layer in a line."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from eval.bias.choice import Choice, choose
from eval.bias.measures import Candidate
from lsar_jax.options.user_text import UserText

__all__ = ["Measured", "best_candidate", "difference", "metric_of"]


class Measured(NamedTuple):
    """What was measured.

    Attributes:
      text: the text, read as aligned or not.
      candidates: every measured layer and method.
      x: language -> embeddings at all layers.
      metric: name of the score in search; empty without search.
      yardstick: language -> paragraphs of the UDHR that were searched, for text that is not aligned.
    """

    text: UserText
    candidates: list[Candidate]
    x: Mapping[str, Float[np.ndarray, "layer _ dim"]]
    metric: str
    yardstick: Mapping[str, Sequence[str]]

    def choice(self) -> Choice | None:
        """The choice among the candidates, of which those that need no language are preferred; None without search."""
        searches = [candidate.search for candidate in self.candidates if candidate.search is not None]
        return choose(searches, [not candidate.needs_language for candidate in self.candidates]) if searches else None


def metric_of(text: UserText, yardstick: Mapping[str, Sequence[str]]) -> str:
    """The name of the score in search; empty without search."""
    if text.aligned:
        return "accuracy of pairs" if text.pairs else "mAP"
    return "mAP on the UDHR" if yardstick else ""


def best_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the highest score in search, or without search the most neutral one."""
    if candidates[0].search is None:
        return min(candidates, key=lambda candidate: candidate.neutrality.own)
    return max(candidates, key=lambda candidate: candidate.score)


def difference(candidates: Sequence[Candidate], metric: str) -> str:
    """What the best of the candidates of a layer changes, in words."""
    before, best = next(c for c in candidates if c.method.name == "original"), best_candidate(candidates)
    if best is before:
        return (f"{metric} {best.score:.1f}, " if metric else "") + "no method is better than none"
    found = f"{metric} {before.score:.1f} before and {best.score:.1f} after, " if metric else ""
    return (
        f"{best.method.label}: {found}own language among neighbours {before.neutrality.own:.1f}% before and "
        f"{best.neutrality.own:.1f}% after"
    )
