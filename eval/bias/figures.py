"""Figures of the bias report: every measure by layer, and the space before and after the recommended transform."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from eval.anisotropy import ByLanguage
from eval.bias.measures import Candidate
from eval.bias.user_text import UserText
from eval.figures.meaning import draw_meaning, flat
from eval.figures.style import lines, page
from eval.methods import Method

__all__ = ["draw_layers", "draw_space"]

# Points in the picture of the space.
_POINTS = 1200


def draw_layers(candidates: Sequence[Candidate], metric: str, path: Path) -> None:
    """Draws each measure against the layer, with a line for each method; without search, ``metric`` is empty.

    Of the ranks of a method, the one with the best search is drawn, or without search the highest.
    """
    measures: dict[str, Callable[[Candidate], float]] = {
        f"{metric}, %": lambda candidate: candidate.score,
        "neighbours in the own language, %": lambda candidate: candidate.neutrality.own,
        "language identified by a linear classifier, %": lambda candidate: candidate.neutrality.identified,
        "IsoScore, %": lambda candidate: candidate.neutrality.isoscore,
    }
    if not metric:
        del measures[", %"]
    best: dict[str, dict[int, Candidate]] = {}
    for candidate in candidates:
        of_method = best.setdefault(candidate.method.name, {})
        known = of_method.get(candidate.layer)
        if known is None or candidate.search is None or candidate.score > known.score:
            of_method[candidate.layer] = candidate
    layers, expected = sorted({candidate.layer for candidate in candidates}), candidates[0].neutrality.expected
    with page(path, 2, 2, size=(10.5, 7.2), legend="right upper") as axes:
        for axis, (name, value) in zip(axes.flat, measures.items(), strict=False):
            lines(axis, {method: {at: value(of[at]) for at in sorted(of)} for method, of in best.items()})
            axis.set(xlabel="layer", xticks=layers, ylabel=name)
            if name.startswith("neighbours"):
                axis.axhline(expected, color="0.4", lw=1, ls=":")
                place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
                axis.annotate("without preference", (0.98, expected), fontsize=7.5, color="0.3", **place)


def draw_space(method: Method, text: UserText, x: ByLanguage, path: Path) -> None:
    """Draws t-SNE of some sentences of each language before and after a method, by language and, aligned, by meaning.

    ``x`` has the embeddings of all sentences at the layer of the method.
    """
    most = max(5, _POINTS // len(x))
    if text.aligned:
        # Translations of the same content in as many languages as possible.
        units, counts = np.unique(np.concatenate(list(text.units.values())), return_counts=True)
        common = units[np.argsort(-counts, kind="stable")[:most]]
        rows = {code: np.flatnonzero(np.isin(unit, common)) for code, unit in text.units.items()}
    else:
        rows = {code: np.arange(min(most, len(value))) for code, value in x.items()}
    shown = {code: x[code][chosen] for code, chosen in rows.items() if len(chosen)}
    codes = [code for code, value in shown.items() for _ in value]
    panels = {"original": np.concatenate(list(shown.values()))}
    if method.transform is not None:
        panels[method.label] = np.concatenate(list(method.move_together(shown).values()))
    meanings = np.concatenate([text.units[code][rows[code]] for code in shown]) if text.aligned else None
    draw_meaning(flat(panels), codes, meanings, path)
