"""Figures of the bias report: every measure by layer, and the space before and after the recommended transform."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from eval.bias.candidate import Candidate
from eval.bias.own_text import OwnText
from eval.figures.meaning import draw_meaning, flat
from eval.methods import Method, move_together
from train.curves import save_figure
from train.marks import line

__all__ = ["draw_layers", "draw_own_space"]

# Points in the picture of the space.
_POINTS = 1200


def draw_layers(candidates: Sequence[Candidate], metric: str, path: Path) -> None:
    """Draws each measure against the layer, with a line for each method.

    Of the ranks of a method, the one with the best search is drawn, or without search the highest.

    Args:
      candidates: every layer and method.
      metric: name of the search score; empty if there is none.
      path: the PNG to write.
    """
    panels: dict[str, Callable[[Candidate], float]] = {}
    if metric:
        panels[f"{metric}, %"] = lambda one: one.score
    panels |= {
        "neighbours in the own language, %": lambda one: one.neutrality.own,
        "language identified by a linear classifier, %": lambda one: one.neutrality.identified,
        "IsoScore, %": lambda one: one.neutrality.isoscore,
    }
    figure = Figure(figsize=(10.5, 7.2), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    names = list(dict.fromkeys(one.method.name for one in candidates))
    for axis, (title, value) in zip(axes, panels.items(), strict=False):
        for index, name in enumerate(names):
            shown = _best_of_each_layer([one for one in candidates if one.method.name == name])
            axis.plot(
                [one.spec.layer for one in shown],
                [value(one) for one in shown],
                ms=4,
                lw=1.3,
                label=name,
                **line(index),
            )
        if title.startswith("neighbours"):
            expected = candidates[0].neutrality.expected
            axis.axhline(expected, color="0.4", lw=1, ls=":")
            axis.annotate("without preference", (0.98, expected), xycoords=("axes fraction", "data"), ha="right",
                          va="bottom", fontsize=7.5, color="0.3")  # fmt: skip
        axis.set_xlabel("layer")
        axis.set_xticks(sorted({one.spec.layer for one in candidates}))
        axis.set_ylabel(title)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8.5)
    save_figure(figure, path)


def draw_own_space(method: Method, text: OwnText, x: Mapping[str, Float[np.ndarray, "_ dim"]], path: Path) -> None:
    """Draws t-SNE of some sentences of each language before and after a method, by language and by meaning.

    Args:
      method: the method, fitted at this layer.
      text: the text; without aligned sentences, only the picture by language is drawn.
      x: language -> embeddings of all of its sentences.
      path: the PNG to write.
    """
    most = max(5, _POINTS // len(x))
    if text.aligned:
        # Translations of the same content in as many languages as possible.
        units, counts = np.unique(np.concatenate(list(text.units.values())), return_counts=True)
        kept = units[np.argsort(-counts, kind="stable")[:most]]
        rows = {code: np.flatnonzero(np.isin(unit, kept)) for code, unit in text.units.items()}
    else:
        rows = {code: np.arange(min(most, len(value))) for code, value in x.items()}
    shown = {code: x[code][chosen] for code, chosen in rows.items() if len(chosen)}
    codes = [code for code, value in shown.items() for _ in value]
    panels = {"original": np.concatenate(list(shown.values()))}
    if method.transform is not None:
        panels[method.label] = np.concatenate(list(move_together(method, shown).values()))
    meanings = np.concatenate([text.units[code][rows[code]] for code in shown]) if text.aligned else None
    draw_meaning(flat(panels), codes, meanings, path)


def _best_of_each_layer(candidates: Sequence[Candidate]) -> list[Candidate]:
    best: dict[int, Candidate] = {}
    for one in candidates:
        known = best.get(one.spec.layer)
        if known is None or one.search is None or one.score > known.score:
            best[one.spec.layer] = one
    return [best[layer] for layer in sorted(best)]
