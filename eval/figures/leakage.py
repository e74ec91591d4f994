"""Figures of semantic leakage, after Ki, Park and Kim 2024, Figures 3 to 6."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from train.curves import save_figure
from train.marks import COLOURS

__all__ = ["bases", "leakage", "pair_planes", "similarity"]

# (layer, objective, part) -> column -> one value per seed.
Scores = Mapping[tuple[int, str, str], Mapping[str, Sequence[float]]]
_LOOKS = {"meaning": {"color": COLOURS[0]}, "language": {"color": COLOURS[5], "hatch": "//", "edgecolor": "white"}}


def leakage(scores: Scores, layers: Sequence[int], path: Path) -> None:
    """Draws accuracy by meaning against accuracy by language on Tatoeba, as in Figure 3.

    Each point is an objective; its marker shows the base, its colour what is added to the base. Markers are hollow, so
    that points in one place are seen.
    """
    figure, axes = _panels(layers, "Tatoeba", scores)
    if figure is None:
        return
    every = [_named(name) for layer in layers for name in _objectives(scores, layer)]
    markers = dict(zip(dict.fromkeys(base for base, _ in every), itertools.cycle("oDs^vP*X"), strict=False))
    # The ten colours of tab10, then their lighter forms.
    tab20 = matplotlib.color_sequences["tab20"]
    colours = dict(
        zip(dict.fromkeys(added for _, added in every), itertools.cycle(tab20[::2] + tab20[1::2]), strict=False)
    )
    for axis, layer in zip(axes, layers, strict=True):
        for name in _objectives(scores, layer):
            base, added = _named(name)
            x, y = (scores[layer, name, part]["Tatoeba"] for part in ("language", "meaning"))
            axis.errorbar(
                np.mean(x), np.mean(y), xerr=_deviation(x), yerr=_deviation(y), fmt=markers[base], capsize=2,
                color=colours[added], markerfacecolor="none", markeredgewidth=1.6, label=name,
            )  # fmt: skip
        if (original := scores.get((layer, "original", "meaning"))) is not None and "Tatoeba" in original:
            axis.axhline(original["Tatoeba"][0], color="0.6", linestyle=":", label="without heads")
        axis.set_xlabel("accuracy by language embeddings, % (lower is better)")
        axis.set_title(f"layer {layer}")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy by meaning embeddings, % (higher is better)")
    figure.suptitle("Tatoeba: retrieval by meaning and by language")
    _legend(figure)
    save_figure(figure, path)


def similarity(scores: Scores, layers: Sequence[int], path: Path) -> None:
    """Draws bars of Spearman's correlation on STS17 by meaning and by language, as in Figure 4."""
    _bars(scores, layers, "STS17", "Spearman, %", "STS17: similarity by meaning and by language", path)


def bases(scores: Scores, layers: Sequence[int], path: Path) -> None:
    """Draws bars of Tatoeba accuracy for each base with and without ORACLE, and ORACLE alone, as in Figure 6."""
    _bars(scores, layers, "Tatoeba", "accuracy, %", "Tatoeba: with and without a base objective", path)


def pair_planes(
    panels: Mapping[str, Mapping[str, Float[np.ndarray, "vector dim"]]], title: str, path: Path, seed: int = 0
) -> None:
    """Draws a joint t-SNE (perplexity 10, cosine) of both sides' meaning and language embeddings, as in Figure 5.

    Args:
      panels: objective -> label of side and part -> embeddings.
      title: title of the figure.
      path: the PNG to write.
      seed: seed of t-SNE.
    """
    from sklearn.manifold import TSNE

    if not panels:
        return
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 0.6 + 4.2 * rows))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, (name, groups) in zip(axes, panels.items(), strict=False):
        x = np.concatenate(list(groups.values()))
        perplexity = min(10, (len(x) - 1) / 3)
        flat = TSNE(2, perplexity=perplexity, metric="cosine", init="random", max_iter=300, random_state=seed)
        parts = np.split(flat.fit_transform(x), np.cumsum([len(group) for group in groups.values()])[:-1])
        for (label, _), part, marker, colour in zip(
            groups.items(), parts, "osx+", (COLOURS[0], COLOURS[5], COLOURS[4], COLOURS[1]), strict=True
        ):
            axis.scatter(part[:, 0], part[:, 1], s=9, marker=marker, color=colour, linewidths=0.8, label=label)
        axis.set_title(name, fontsize="small")
        axis.set_xticks([])
        axis.set_yticks([])
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=2 if columns == 1 else 4, frameon=False)
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0.06 / rows, 1, 1))
    save_figure(figure, path)


def _bars(scores: Scores, layers: Sequence[int], column: str, ylabel: str, title: str, path: Path) -> None:
    figure, axes = _panels(layers, column, scores)
    if figure is None:
        return
    for axis, layer in zip(axes, layers, strict=True):
        names = _objectives(scores, layer)
        for offset, part in ((-0.2, "meaning"), (0.2, "language")):
            several = [scores[layer, name, part][column] for name in names]
            axis.bar(
                np.arange(len(names)) + offset, [np.mean(values) for values in several], 0.4, label=part,
                yerr=[_deviation(values) for values in several], capsize=2, **_LOOKS[part],
            )  # fmt: skip
        if (original := scores.get((layer, "original", "meaning"))) is not None and column in original:
            axis.axhline(original[column][0], color="0.4", linestyle=":", label="without heads")
        axis.set_xticks(np.arange(len(names)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize="small")
        axis.set_title(f"layer {layer}")
    axes[0].set_ylabel(ylabel)
    figure.suptitle(title)
    _legend(figure)
    save_figure(figure, path)


def _panels(layers: Sequence[int], column: str, scores: Scores) -> tuple[Figure | None, Sequence]:
    """Returns a figure with one panel per layer; None if no run has the column."""
    if not any(column in columns for (_, name, _), columns in scores.items() if name != "original"):
        return None, ()
    figure = Figure(figsize=(6.2 * len(layers) + 2, 5.6), layout="constrained")
    return figure, figure.subplots(1, len(layers), squeeze=False, sharey=True)[0]


def _objectives(scores: Scores, layer: int) -> list[str]:
    return list(dict.fromkeys(name for at, name, part in scores if at == layer and part == "language"))


def _named(objective: str) -> tuple[str, str]:
    """Splits an objective into its base and what is added to it; the base of ORACLE alone is empty."""
    base, _, added = objective.partition(" + ")
    return ("", objective) if objective.startswith("oracle") else (base, added)


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _legend(figure: Figure) -> None:
    labelled: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            # The marker alone: with its error bars, markers look alike.
            labelled[name] = handle[0] if isinstance(handle, ErrorbarContainer) else handle
    figure.legend(list(labelled.values()), list(labelled), loc="outside right center", frameon=False, fontsize="small")
