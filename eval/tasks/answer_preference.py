"""Language preference among XQuAD-R's answers in one pool, and a plot of one question.

The pool holds the candidate sentences of eleven languages; each question has one relevant sentence in every language.
*Preference* is the share of questions whose best-ranked answer is in their own language (one in eleven by chance).
*Spread* is the difference in rank between the best and the worst answer, divided by the size of the pool. Both are
measured by ``python -m eval geometry --xquad``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from eval.data.xquad import XQUAD_R, Questions, read_xquad
from eval.figures import geometry as draw
from eval.fitted_task import FittedTask
from eval.methods import Method
from eval.resampling import Queries, interval
from eval.results import Result
from eval.score import Score
from eval.task import Embedded, Key, Texts
from lsar_jax import EncoderSpec
from lsar_jax.arrays import unit_rows
from lsar_jax.cli.console import print_table
from lsar_jax.corpora.tables import Data
from lsar_jax.retrieval import candidate_ranks
from lsar_jax.retrieval.preference import language_preference

__all__ = ["AnswerPreference"]

# Number of questions used per language; the candidate sentences up to the last answer to them form the pool.
_QUESTIONS = 100
# The methods of the picture, in its order, and the language of the question that it ranks the candidates for.
_SHOWN = ("original", "center", "lir", "lsar")
_ASKED = "en"


@dataclass(frozen=True)
class AnswerPreference(FittedTask):
    """Language preference on XQuAD-R, with methods fitted on the UDHR in the same eleven languages.

    Attributes:
      data: folder of XQuAD-R.
    """

    name = "geometry"

    data: Data = Path("data/xquad-r")

    _rows: list[list[str | float]] = field(default_factory=list, init=False, repr=False, compare=False)
    # Method -> title -> its picture.
    _planes: dict[str, dict[str, draw.AnswerPlane]] = field(
        default_factory=lambda: {name: {} for name in _SHOWN}, init=False, repr=False, compare=False
    )

    @property
    def title(self) -> str:
        """The title of the table."""
        return "XQuAD-R: is the best answer in the question's language?"

    @cached_property
    def questions(self) -> dict[str, Questions]:
        """The questions of each language, after checking that the first ones are the same in all languages."""
        data = read_xquad(self.data)
        first = data[XQUAD_R[0]].ids[: self._count(data)]
        for code, one in data.items():
            if one.ids[: len(first)] != first:
                raise ValueError(f"the first {len(first)} questions of XQuAD-R differ between {XQUAD_R[0]} and {code}")
        return data

    def codes(self) -> Sequence[str]:
        """Returns the languages to fit on."""
        return XQUAD_R

    def texts(self) -> Texts:
        """Returns questions as group ``q`` and candidate sentences as group ``c``."""
        result: dict[Key, list[str]] = {}
        for code, one in self.questions.items():
            answers = one.answers[: self.count]
            result |= {("q", code): one.questions[: self.count], ("c", code): one.candidates[: max(answers) + 1]}
        return result

    @property
    def count(self) -> int:
        """The number of questions per language."""
        return self._count(self.questions)

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields preference and spread."""
        questions = np.concatenate([x["q", code] for code in XQUAD_R])
        candidates = np.concatenate([x["c", code] for code in XQUAD_R])
        starts = np.cumsum([0, *(len(x["c", code]) for code in XQUAD_R[:-1])])
        table = starts + np.array([self.questions[code].answers[: self.count] for code in XQUAD_R]).T
        ranks = candidate_ranks(questions, candidates, np.tile(table, (len(XQUAD_R), 1)))
        asked = np.repeat(np.arange(len(XQUAD_R)), self.count)
        found = language_preference(ranks, asked, len(candidates))
        # Translations of a question form a cluster.
        translations = np.tile(np.arange(self.count), len(XQUAD_R))
        low, high = interval(Queries(found.preferred, clusters=translations))
        yield Score("XQuAD-R preference", found.preference, XQUAD_R, len(questions))
        yield Score("XQuAD-R spread", found.spread, XQUAD_R, len(questions))
        title = f"layer {spec.layer}, {method.label}"
        row = f"layer {spec.layer}: {method.label}"
        self._rows.append([row, f"{found.preference:.3f}", f"{low:.3f} to {high:.3f}", f"{found.spread:.3f}"])
        if spec.layer == self.layers[0] and method.name in _SHOWN:
            self._planes[method.name][title] = self._plane(x)

    def report(self, results: Sequence[Result]) -> None:
        """Prints the table, and draws the first question at the first layer."""
        panels = {title: plane for several in self._planes.values() for title, plane in several.items()}
        if panels:
            candidates = [code for code in XQUAD_R for _ in self.texts()["c", code]]
            title = (
                f"One question in {len(XQUAD_R)} languages, its answers, and the other candidates;\n"
                f"a candidate's opacity falls with its rank for the question in {_ASKED}"
            )
            draw.answers(panels, candidates, XQUAD_R, _ASKED, title, self.out / "answers.png")
        print_table(self.title, ["", "preference", "95% of resamples", "spread"], self._rows)

    def _plane(self, x: Embedded) -> draw.AnswerPlane:
        """Projects all candidates and the first question onto the candidates' principal plane, and ranks them."""
        candidates = np.concatenate([x["c", code] for code in XQUAD_R])
        questions = np.stack([x["q", code][0] for code in XQUAD_R])
        starts = np.cumsum([0, *(len(x["c", code]) for code in XQUAD_R[:-1])])
        right = starts + [self.questions[code].answers[0] for code in XQUAD_R]
        asked = x["q", _ASKED][:1]
        ranks = 1 + candidate_ranks(asked, candidates, np.arange(len(candidates))[None])[0]
        parts = [np.asarray(unit_rows(jnp.asarray(part))) for part in (candidates, questions)]
        mean = parts[0].mean(axis=0)
        axes = np.linalg.svd(parts[0] - mean, full_matrices=False)[2][:2].T
        return draw.AnswerPlane((parts[0] - mean) @ axes, (parts[1] - mean) @ axes, right, ranks)

    @staticmethod
    def _count(data: dict[str, Questions]) -> int:
        return min(_QUESTIONS, *(len(one.ids) for one in data.values()))
