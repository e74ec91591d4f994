"""A task of the evaluations, as a value: its texts, and a function from transformed embeddings to scores.

A file of a task finds here what it is written with, metrics, methods and scores of queries, too.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from eval.data.fit_text import FitText
from eval.data.keyed_texts import Embedded, Key, Texts
from lsar_jax import EncoderSpec
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.metric import Metric
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.results import Result

__all__ = [
    "Embedded", "Key", "Method", "Metric", "Panel", "QueryScores", "Score", "Setting", "Task", "Texts", "language_of",
]  # fmt: skip


class Score(NamedTuple):
    """One measured value of some languages.

    Attributes:
      n: number of queries, vectors or languages measured.
      queries: scores of individual queries, for the interval and the paired test.
      low, high: 95% interval, if the task computes it itself.
      seed: seed of the measurement; None for the method's.
    """

    metric: Metric
    value: float
    languages: Sequence[str]
    n: int
    queries: QueryScores | None = None
    low: float | None = None
    high: float | None = None
    seed: int | None = None

    @classmethod
    def of(cls, metric: Metric, languages: Sequence[str], queries: QueryScores) -> "Score":
        """Returns the mean over the queries, as a score with as many queries as have a value."""
        return cls(metric, queries.mean, languages, int(np.isfinite(queries.values).sum()), queries)


class Panel(NamedTuple):
    """Values for a figure that results alone cannot draw; each panel has a title of its own."""

    title: str
    values: Any


class Setting(NamedTuple):
    """Where scores are taken.

    Attributes:
      spec: the encoder at the layer.
      first: whether it is the first of the layers, which figures show.
      fitted, paired: languages of the text, and of the parallel text, that methods are fitted on.
    """

    spec: EncoderSpec
    first: bool
    fitted: Collection[str]
    paired: Collection[str]

    def title(self, method: Method) -> str:
        """Returns the title of a method's panel."""
        seed = "" if method.seed is None else f", seed {method.seed}"
        return f"layer {self.spec.layer}, {method.label}{seed}"


@dataclass(frozen=True)
class Task:
    """A set of texts and the scores of their transformed embeddings.

    Attributes:
      name, title: names in results, and of the table and figures.
      languages: languages to fit on.
      parts: texts to measure; each part is encoded and scored before the next.
      scores: the scores, and panels for figures, of a part whose embeddings a method has transformed; the first shown
        metric is also drawn as bars.
      own_text: texts to fit on that only this task has, by the value of ``--fit-on``.
      evaluated: how ``--fit-on evaluated`` fits: on all texts of a language together; or, whitening and clustering, on
        each text by itself, as Hämmerl et al. 2023 do. ``no`` if that is not possible.
      queries: first word of the groups of queries, which ``--move documents`` leaves as they are; empty without any.
      some: whether a method that was fitted on some of the languages is tested on these.
      means: further scores, from the scores of all parts.
      of_layer: of a task of one part, further scores of a layer, from all embeddings there and the methods.
      searches: whether it ranks by the ``bank`` of a method too, if it has one.
      every_layer: whether the one part is encoded at all layers, for the panel ``layers``.
      half_rank: whether LSAR, if no ranks are given, is fitted at half of its full rank too.
      draw: draws figures, besides the bars, from the results and panels into a folder.
      options: the task's options, as results record them.
      least: number of languages that it needs.
    """

    name: str
    title: str
    languages: Sequence[str]
    parts: Sequence[Texts]
    scores: Callable[[Embedded, Method, Setting], Iterable[Score | Panel]]
    own_text: Mapping[str, FitText] = field(default_factory=dict)
    evaluated: Literal["no", "by language", "by file"] = "no"
    queries: str = ""
    some: bool = False
    means: Callable[[Sequence[Score]], Iterable[Score]] = lambda _: ()
    of_layer: Callable[[Embedded, Sequence[Method], Setting], Iterable[tuple[Method, Score] | Panel]] = lambda *_: ()
    searches: bool = False
    every_layer: bool = False
    half_rank: bool = False
    draw: Callable[[Sequence[Result], Mapping[str, Any], Path], None] = lambda *_: None
    options: Mapping[str, Any] = field(default_factory=dict)
    least: int = 1

    def __post_init__(self) -> None:
        if len(codes := dict.fromkeys(self.languages)) < self.least:
            raise ValueError(f"{self.name} needs at least {self.least} languages; it has {', '.join(codes)}")


def language_of(key: Key) -> str:
    """Returns the language of a set of texts, which is English for a group ``en``, ``fit en`` or ``near en``."""
    return "en" if key[0] in ("en", "fit en", "near en") else key[1]
