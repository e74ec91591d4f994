"""Figures of the report as SVG: every measure by layer, and the space before and after the recommended transform.

Each panel is a picture of its own, so that a narrow screen can show them one below the other. What is not coloured has
the colour of the text around it, and of the style sheet, for light and dark pages.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import numpy as np

from lsar_jax.measures.compared_methods import Method
from lsar_jax.options.user_text import UserText
from lsar_jax.report.measured import ByLanguage, Measured
from lsar_jax.report.planes import draw_languages, draw_units, flat, lines

__all__ = ["draw_layers", "draw_space"]

# Points in a picture of the space.
_POINTS = 600
# Stand for the colour of the text and for that of points without a colour, until the figure is on the page.
_INK, _FAINT = "#010203", "#040506"
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "", "font.size": 12, "axes.spines.top": False, "axes.spines.right": False,
    "lines.markersize": 4, "lines.linewidth": 1.4, "legend.frameon": False, "legend.labelcolor": _INK,
} | dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK)  # fmt: skip


def draw_layers(measured: Sequence[Measured], metric: str) -> dict[str, str]:
    """Draws each measure against the layer, with a line for each method; without search, ``metric`` is empty.

    Of the ranks of a method, the one with the best search at its best layer is drawn, or without search the highest.
    Returns an SVG for each measure by its name, and one of the legend.
    """
    measures: dict[str, Callable[[Measured], float]] = {
        metric: lambda entry: entry.score,
        "neighbours in the own language": lambda entry: entry.own,
        "language identified by a linear classifier": lambda entry: entry.space.identified,
        "IsoScore": lambda entry: entry.space.isoscore,
    }
    best: dict[str, Measured] = {}
    for entry in measured:
        known = best.setdefault(entry.method.name, entry)
        if entry.search is None or entry.score > known.score:
            best[entry.method.name] = entry
    labels = [entry.method.label for entry in best.values()]
    curves = {label: [entry for entry in measured if entry.method.label == label] for label in labels}
    layers, expected = sorted({entry.layer for entry in measured}), measured[0].expected
    drawn: dict[str, str] = {}
    with _picture(drawn, "the methods", (4.6, 0.3 + 0.22 * (len(curves) + 1))) as axis:
        lines(axis, {label: {0: np.nan} for label in curves})
        axis.plot([], [], color=_INK, lw=1, ls=":", label="without preference")
        axis.set_axis_off()
        axis.legend(loc="center", fontsize=10.5, bbox_to_anchor=(0, 0, 1, 1))
    for name, value in measures.items():
        if not name:
            continue
        with _picture(drawn, name, (4.6, 3.4)) as axis:
            lines(axis, {label: {entry.layer: value(entry) for entry in curve} for label, curve in curves.items()})
            axis.set(xlabel="layer", xticks=layers, ylabel="of 100" if name in (metric, "IsoScore") else "%")
            if name.startswith("neighbours"):
                axis.axhline(expected, color=_INK, lw=1, ls=":")
    return drawn


def draw_space(method: Method, text: UserText, x: ByLanguage) -> dict[str, str]:
    """Draws t-SNE of some sentences of each language before and after a method, by language and, aligned, by meaning.

    ``x`` has the embeddings of all sentences at the layer of the method. Returns an SVG for each title.
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
    panels = {"before": np.concatenate(list(shown.values()))}
    if method.transform is not None:
        panels["after"] = np.concatenate(list(method.transform_languages(shown).values()))
    looks: dict[str, Callable[[Any, np.ndarray], None]] = {
        "language": lambda axis, plane: draw_languages(axis, plane, codes, _FAINT)
    }
    if text.aligned:
        meanings = np.concatenate([text.units[code][rows[code]] for code in shown])
        looks["meaning"] = lambda axis, plane: draw_units(axis, plane, meanings, _FAINT)
    drawn: dict[str, str] = {}
    planes = flat(panels)
    for by, draw in looks.items():
        for when, plane in planes.items():
            with _picture(drawn, f"by {by}, {when}", (4.6, 4.4)) as axis:
                draw(axis, plane)
                axis.spines[:].set_visible(True)
                if by == "language":  # there is room for names in place of codes
                    place: Any = {"loc": "upper left", "bbox_to_anchor": (0, 0)}
                    axis.legend(**place, ncols=3, columnspacing=6.5, handletextpad=0.2, fontsize=11)
            if by == "language":
                name = f"by {by}, {when}"
                drawn[name] = re.sub(r'<text([^>]*)>([^<"]*)<', r'<text\1 data-code="\2">\2<', drawn[name])
    return drawn


@contextmanager
def _picture(drawn: dict[str, str], name: str, size: tuple[float, float]) -> Iterator[Any]:
    """Yields an axis, and adds its picture to those that are drawn."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        yield axis
        written = StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = written.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same in every figure
    svg = re.sub("<(?:path|use)[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), svg)
    drawn[name] = svg.replace(_INK, "currentColor").replace(_FAINT, "var(--faint, #c9c9c9)")
