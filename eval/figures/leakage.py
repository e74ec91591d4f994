"""Figures of semantic leakage, after Ki, Park and Kim 2024, Figures 3 to 6."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from eval.figures.style import page
from lsar_jax.report.planes import COLOURS, plain_tsne

__all__ = ["front", "leakage", "objective_bars", "pair_planes"]

# (layer, objective, part) -> column -> one value per seed.
Scores = Mapping[tuple[int, str, str], Mapping[str, Sequence[float]]]
_LOOKS = {"meaning": {"color": COLOURS[0]}, "language": {"color": COLOURS[5], "hatch": "//", "edgecolor": "white"}}


def leakage(scores: Scores, layers: Sequence[int], column: str, path: Path, *, pairs: bool = False) -> None:
    """Draws accuracy by meaning against accuracy by language in a column, if there are scores of it.

    Each point is an objective, or with ``pairs``, as in Figure 3, one of its language pairs, and the mean is grey. The
    marker shows the base, the colour what is added to it. Markers are hollow, so that points in one place are seen.
    """
    from matplotlib import color_sequences

    named = [_named(name) for layer in layers for name in _objectives(scores, layer)]
    markers = dict(zip(dict.fromkeys(base for base, _ in named), cycle("oDs^vP*X"), strict=False))
    # The ten colours of tab10, then their lighter forms.
    tab20 = color_sequences["tab20"]
    colours = dict(zip(dict.fromkeys(added for _, added in named), cycle(tab20[::2] + tab20[1::2]), strict=False))
    for axis, layer in _planes(scores, layers, column, f"{column}: retrieval by meaning and by language", path):
        for name in _objectives(scores, layer):
            base, added = _named(name)
            sides = [scores[layer, name, part] for part in ("language", "meaning")]
            each = [[np.mean(of[key]) for key in of if pairs and f"{column}, " in key] for of in sides]
            axis.scatter(*each, s=20, marker=markers[base], color=colours[added], facecolors="none", label=name)
            x, y = (of[column] for of in sides)
            axis.errorbar(
                np.mean(x), np.mean(y), xerr=_deviation(x), yerr=_deviation(y), fmt=markers[base], capsize=2,
                color="0.5" if pairs else colours[added], markersize=6, markerfacecolor="none", markeredgewidth=1.6,
            )  # fmt: skip


def front(scores: Scores, layers: Sequence[int], weights: Mapping[str, float], path: Path) -> None:
    """Draws Tatoeba's accuracy by meaning against that by language for each weight of ORACLE's losses, joined in order.

    ``weights`` has the objectives that differ in nothing else. Nothing is drawn if they are fewer than two.
    """
    if len(weights) < 2:
        return
    title = "Tatoeba: the front of meaning against leakage, by the weight of ORACLE's losses"
    for axis, layer in _planes(scores, layers, "Tatoeba", title, path, listed=False):
        names = [name for name in sorted(weights, key=weights.__getitem__) if (layer, name, "language") in scores]
        x, y = (
            np.array([np.mean(scores[layer, name, part]["Tatoeba"]) for name in names])
            for part in ("language", "meaning")
        )
        axis.plot(x, y, color="0.7", linewidth=1, zorder=1)
        axis.scatter(x, y, c=np.arange(len(names)), cmap="viridis", s=36, zorder=2, label="weights")
        for place, name in enumerate(names):
            # With many weights, every label would hide its neighbours.
            if place % max(1, len(names) // 6) == 0 or place == len(names) - 1:
                at = (x[place], y[place])
                axis.annotate(f"{weights[name]:g}", at, (5, 5), textcoords="offset points", fontsize="small")


def objective_bars(scores: Scores, layers: Sequence[int], column: str, ylabel: str, title: str, path: Path) -> None:
    """Draws bars by meaning and by language for each objective, as in Figures 4 and 6, if there are scores."""
    for axis, layer in _layers(scores, layers, column, title, path, ylabel):
        names = _objectives(scores, layer)
        for offset, part in ((-0.2, "meaning"), (0.2, "language")):
            values = [scores[layer, name, part][column] for name in names]
            heights, errors = list(map(np.mean, values)), list(map(_deviation, values))
            places = np.arange(len(names)) + offset
            axis.bar(places, heights, 0.4, label=part, yerr=errors, capsize=2, **_LOOKS[part])
        axis.set_xticks(range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize="small")


def pair_planes(panels: Mapping[str, Mapping[str, Float[np.ndarray, "vector dim"]]], title: str, path: Path) -> None:
    """Draws a joint t-SNE (perplexity 10, cosine) of both sides' meaning and language embeddings, as in Figure 5."""
    if not panels:
        return
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    size, listed = (4.6 * columns, 0.6 + 4.2 * rows), 2 * min(columns, 2)
    with page(path, rows, columns, size=size, title=title, legend="lower center", legend_columns=listed) as axes:
        for axis, (name, groups) in zip(axes.flat, panels.items(), strict=False):
            x = np.concatenate(list(groups.values()))
            plane = plain_tsne(x, 10, metric="cosine", init="random", max_iter=300, random_state=0)
            planes = np.split(plane, np.cumsum([len(group) for group in groups.values()])[:-1])
            colours = (COLOURS[0], COLOURS[5], COLOURS[4], COLOURS[1])
            for label, plane, marker, colour in zip(groups, planes, "osx+", colours, strict=True):
                axis.scatter(*plane.T, s=9, marker=marker, color=colour, linewidths=0.8, label=label)
            axis.set(title=name, xticks=[], yticks=[])


def _layers(
    scores: Scores, layers: Sequence[int], column: str, title: str, path: Path, ylabel: str, listed: bool = True
) -> Iterator[tuple[Any, int]]:
    """Yields an axis for each layer, to which the score without heads is added; none without scores in the column."""
    if not any(column in columns for (_, name, _), columns in scores.items() if name != "original"):
        return
    size, legend = (6.2 * len(layers) + 2 * listed, 5.6 if listed else 5.2), "right center" if listed else ""
    with page(path, 1, len(layers), size=size, title=title, legend=legend, sharey=True) as [axes]:
        for axis, layer in zip(axes, layers, strict=True):
            yield axis, layer
            if original := scores.get((layer, "original", "meaning"), {}).get(column):
                axis.axhline(original[0], color="0.5", linestyle=":", label="without heads")
            axis.set_title(f"layer {layer}")
        axes[0].set_ylabel(ylabel)


def _planes(
    scores: Scores, layers: Sequence[int], column: str, title: str, path: Path, listed: bool = True
) -> Iterator[tuple[Any, int]]:
    """Yields axes, as ``_layers`` does, of accuracy by meaning against accuracy by language."""
    ylabel = "accuracy by meaning embeddings, % (higher is better)"
    for axis, layer in _layers(scores, layers, column, title, path, ylabel, listed):
        yield axis, layer
        axis.set_xlabel("accuracy by language embeddings, % (lower is better)")
        axis.grid(alpha=0.3)


def _objectives(scores: Scores, layer: int) -> list[str]:
    return list(dict.fromkeys(name for at, name, part in scores if at == layer and part == "language"))


def _named(objective: str) -> tuple[str, str]:
    """Splits an objective into its base and what is added to it; the base of ORACLE alone is empty."""
    base, _, added = objective.partition(" + ")
    return ("", objective) if objective.startswith("oracle") else (base, added)


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
