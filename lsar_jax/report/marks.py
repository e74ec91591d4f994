"""Colours, markers and line styles of series in figures, which are told apart without colour too."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

__all__ = ["COLOURS", "MARKERS", "Plane", "line", "lines", "mark", "points"]

Plane = Float[np.ndarray, "vector 2"]

# The first six are those of Okabe and Ito, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#999933", "#7f7f7f", "#44aa99")
# As their number is prime, 110 series have a colour and a marker that no other has.
MARKERS = "osD^v<>P*Xh"
_STYLES = ("-", "--", "-.", ":")


def mark(index: int) -> dict[str, Any]:
    """Returns the colour and the marker of a series of points."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def line(index: int) -> dict[str, Any]:
    """Returns the colour, the marker and the style of a line."""
    return {**mark(index), "linestyle": _STYLES[index % len(_STYLES)]}


def lines(axis: Any, curves: Mapping[str, Mapping[int, int | float]]) -> None:
    """Draws a line for each name: its values by x."""
    for index, (name, values) in enumerate(curves.items()):
        axis.plot(list(values), list(values.values()), label=name, **line(index))


def points(axis: Any, plane: Plane, labels: Sequence[str], names: Sequence[str], **look: Any) -> None:
    """Draws points without ticks, with a colour and a marker for each name; rows of the plane have the labels."""
    for index, name in enumerate(names):
        x, y = plane[np.array(labels) == name].T
        axis.scatter(x, y, label=name, linewidths=0, **mark(index), **look)
    axis.set(xticks=[], yticks=[])
