"""Colours, markers and line styles of series in figures, which are told apart without colour too."""

from typing import Any

__all__ = ["COLOURS", "MARKERS", "line", "mark"]

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
