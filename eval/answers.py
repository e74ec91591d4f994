"""Questions and answers of XQuAD-R in one pool: language preference, and the picture of one question.

The pool is the candidate sentences of eleven languages; a question is relevant to its answer's sentence in
each. *Preference* is the share of questions whose best-ranked answer is in their own language (chance
is one in eleven), *spread* the distance in rank between the best and the worst answer over the pool.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from eval import geometry_figures as draw
from eval.encode import encode_all
from eval.methods import fit_methods
from eval.resampling import Queries, interval
from eval.results import Result, print_table
from eval.xquad import XQUAD_R, Questions
from lsar_jax import SentenceEncoder, corpora
from lsar_jax.preference import language_preference
from lsar_jax.ranks import candidate_ranks

if TYPE_CHECKING:
    from eval.geometry import Geometry

__all__ = ["Answers"]

# The first questions of each language; the candidate sentences up to their last answer are the pool.
_QUESTIONS = 100


class Answers:
    """Measures preference after methods that are fitted on the UDHR in the eleven languages.

    Args:
      task: whose options say layers and methods.
      encoder: the encoder.
      data: of XQuAD-R.
    """

    def __init__(self, task: "Geometry", encoder: SentenceEncoder, data: dict[str, Questions]) -> None:
        self.task = task
        self.encoder = encoder
        self.data = data
        self.count = min(_QUESTIONS, *(len(one.ids) for one in data.values()))
        first = data[XQUAD_R[0]].ids[: self.count]
        for code, one in data.items():
            if one.ids[: self.count] != first:
                raise ValueError(f"the first {self.count} questions of XQuAD-R differ between {XQUAD_R[0]} and {code}")

    def run(self) -> list[Result]:
        """Encodes, measures, prints a table and draws the picture at the first layer."""
        task = self.task
        texts: dict[tuple[str, str], Sequence[str]] = {}
        for code, one in self.data.items():
            answers = one.answers[: self.count]
            texts |= {("q", code): one.questions[: self.count], ("c", code): one.candidates[: max(answers) + 1]}
        texts |= {("u", code): paragraphs for code, paragraphs in corpora.udhr("all", XQUAD_R).items()}
        x, _ = encode_all(self.encoder, texts, task.layers, task.max_length, {key: key[1] for key in texts})
        results: list[Result] = []
        rows: list[list[str | float]] = []
        for index, layer in enumerate(task.layers):
            spec = replace(self.encoder.spec, layer=layer)
            fit = {code: x["u", code][index] for code in XQUAD_R}
            planes = {}
            fitted = fit_methods(fit, task.transforms, components=task.components, source=spec)
            for method in fitted + task.saved_methods(spec):
                moved = {key: method(value[index], key[1]) for key, value in x.items() if key[0] != "u"}
                preference, spread, n, (low, high) = self._preference(moved)
                for name, value in (("preference", preference), ("spread", spread)):
                    result = task.result(spec, method, XQUAD_R, f"XQuAD-R {name}", value, n, 0.0)
                    results.append(replace(result, fitted_on="udhr all" if method.transform else ""))
                interval = f"{low:.3f} to {high:.3f}"
                rows.append([f"layer {layer}: {method.label}", f"{preference:.3f}", interval, f"{spread:.3f}"])
                if method.name in ("original", "lsar", "center"):
                    planes[f"layer {layer}, {method.label}"] = self._plane(moved)
            if index == 0 and planes:
                candidates = [code for code in XQUAD_R for _ in texts["c", code]]
                title = f"One question in {len(XQUAD_R)} languages, its answers, and the other candidates"
                draw.answers(planes, candidates, XQUAD_R, title, task.out / "answers.png")
        title = "XQuAD-R: is the best answer in the question's language?"
        print_table(title, ["", "preference", "95% of resamples", "spread"], rows)
        return results

    def _preference(self, x: dict) -> tuple[float, float, int, tuple[float, float]]:
        """Returns preference, spread, the questions, and the interval of the preference over resampled questions."""
        questions = np.concatenate([x["q", code] for code in XQUAD_R])
        candidates = np.concatenate([x["c", code] for code in XQUAD_R])
        starts = np.cumsum([0, *(len(x["c", code]) for code in XQUAD_R[:-1])])
        table = starts + np.array([self.data[code].answers[: self.count] for code in XQUAD_R]).T
        ranks = candidate_ranks(questions, candidates, np.tile(table, (len(XQUAD_R), 1)))
        asked = np.repeat(np.arange(len(XQUAD_R)), self.count)
        found = language_preference(ranks, asked, len(candidates))
        # Translations of a question belong together.
        translations = np.tile(np.arange(self.count), len(XQUAD_R))
        low_high = interval(Queries(found.preferred, clusters=translations))
        return found.preference, found.spread, len(questions), low_high

    def _plane(self, x: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns candidates, questions and answers of the first question, on their principal plane."""
        candidates = np.concatenate([x["c", code] for code in XQUAD_R])
        questions = np.stack([x["q", code][0] for code in XQUAD_R])
        right = np.stack([x["c", code][self.data[code].answers[0]] for code in XQUAD_R])
        parts = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (candidates, questions, right)]
        mean = parts[0].mean(axis=0)
        axes = np.linalg.svd(parts[0] - mean, full_matrices=False)[2][:2].T
        candidates, questions, right = ((part - mean) @ axes for part in parts)
        return candidates, questions, right
