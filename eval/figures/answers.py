"""The figure of one question, its answers and the other candidates (Xie et al. 2022, Figure 2)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eval.figures.style import page
from lsar_jax.report.planes import Plane

__all__ = ["AnswerPlane", "draw_answers"]


class AnswerPlane(NamedTuple):
    """A question and candidate answers, as points in a plane."""

    candidates: Plane
    question: Float[np.ndarray, "2"]
    answers: Int[np.ndarray, " language"]  # index of the right candidate
    ranks: Int[np.ndarray, " candidate"]  # for the question; 1 is the best


def draw_answers(
    panels: Mapping[str, AnswerPlane], candidate_codes: Sequence[str], codes: Sequence[str], title: str, path: Path
) -> None:
    """Draws planes by title side by side; the better a candidate is ranked, the more opaque; at most 20 languages."""
    from matplotlib import color_sequences
    from matplotlib.colors import to_rgba

    # Pairs of a dark and a light colour.
    colours = dict(zip(sorted(set(codes)), map(to_rgba, color_sequences["tab20"]), strict=False))
    faces = np.array([colours[code] for code in candidate_codes])
    edge = {"edgecolors": "k", "linewidths": 0.6}
    with page(path, 1, len(panels), size=(4.8 * len(panels) + 1.4, 4.8), title=title, legend="right upper") as [axes]:
        for axis, (name, plane) in zip(axes, panels.items(), strict=True):
            # Falls with the logarithm of the rank, from 1 for the first to 0.1 for the last ones.
            faces[:, 3] = np.maximum(0.1, 1 - np.log(plane.ranks) / np.log(max(len(plane.ranks), 2)))
            # The best last, so that none is hidden.
            order = np.argsort(-plane.ranks, kind="stable")
            others = order[~np.isin(order, plane.answers)]
            axis.scatter(*plane.candidates[others].T, s=14, color=faces[others], linewidths=0)
            for code, answer in zip(codes, plane.answers, strict=True):
                place = plane.candidates[answer]
                axis.scatter(*place, s=45, marker="D", color=faces[[answer]], **edge)
                axis.annotate(code, place, xytext=(5, 4), textcoords="offset points", fontsize=7)
            axis.scatter(*plane.question, s=130, marker="*", color="w", **edge)
            axis.set(title=name, xticks=[], yticks=[])
        for code, colour in colours.items():
            axis.plot([], [], "o", color=colour, label=code)
        for marker, text in (("*", "question"), ("D", "answer")):
            axis.plot([], [], marker, ms=7, color="0.7", mec="k", label=text)
