"""The page: an HTML template, its style and its script beside this file, Bokeh's script for the map, and the data."""

import base64
import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from lsar_jax.extras import import_extra
from lsar_jax.files import write_text

__all__ = ["LIMIT", "SENTENCES", "Explorer", "as_page", "bytes_of_page", "packed"]

# Bytes of a page of so many sentences.
LIMIT, SENTENCES = 5_000_000, 2_000

# Twelve colours with a contrast of at least 3:1 on white and on the page's dark background, and seven markers of Bokeh
# with their characters: 84 languages look different, and any twelve differ in colour.
_COLOURS = (
    "#2478d0", "#c66a00", "#168a52", "#b04fc8", "#d63c3c", "#148a96", "#8a7a10", "#d6408e", "#6d67e0", "#a8623a",
    "#5b8a1e", "#7b7f8a",
)  # fmt: skip
_MARKERS = {
    "circle": "●", "square": "■", "triangle": "▲", "diamond": "◆", "inverted_triangle": "▼", "star": "★", "hex": "⬢"
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Explorer:
    """A page, as ``explore`` makes it; a notebook shows it in a frame.

    Attributes:
      html: the whole page.
      about: what is on it.
    """

    html: str
    about: str = field(default="")

    def save(self, path: str | Path) -> None:
        """Writes the page; a file at ``path`` is replaced once the page is complete."""
        write_text(Path(path), self.html)

    @property
    def size(self) -> int:
        """Bytes of the page."""
        return len(self.html.encode())

    def _repr_html_(self) -> str:
        frame = 'style="width: 100%; height: 56rem; border: 0" title="explorer"'
        return f'<iframe {frame} srcdoc="{html.escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"Explorer({self.about}, {self.size / 1e6:.1f} MB)"


def as_page(data: Mapping[str, Any]) -> Explorer:
    """Returns the page of data in JSON's types."""
    markers = list(_MARKERS.items())
    looks = [
        {"colour": _COLOURS[number % len(_COLOURS)], "marker": markers[number % len(markers)]}
        for number in range(len(data["languages"]))
    ]
    filled = {"title": html.escape(data["title"]), "map": _json(_map()), "data": _json({**data, "looks": looks})}
    sentences, languages, layers = (len(data[name]) for name in ("texts", "languages", "layers"))
    about = f"{sentences:,} sentences in {languages} languages, {layers} layer{'s' if layers > 1 else ''}"
    return Explorer(_encodable(Template(_text("page.html")).substitute(_parts(), **filled)), about)


def bytes_of_page(data: Mapping[str, Any]) -> int:
    """Bytes of a page with these data, and room for the looks of their languages."""
    texts = [*_parts().values(), _text("page.html"), _json(_map()), _json(data), html.escape(data["title"])]
    return sum(len(_encodable(text).encode()) for text in texts) + 100 * len(data["languages"])


def packed(values: np.ndarray) -> dict[str, Any]:
    """Returns an array for the page: floats of 64 bits in 16 bits with a scale, other numbers as they are."""
    array = np.ascontiguousarray(values)
    result: dict[str, Any] = {"shape": array.shape}
    if array.dtype == np.float64:
        scale = float(np.abs(array).max(initial=0)) / 32767 or 1.0
        array, result["scale"] = np.rint(array / scale).astype("<i2"), scale
    kind = {"i1": "Int8", "i2": "Int16", "i4": "Int32", "f4": "Float32"}[array.dtype.str[1:]]
    little = array.astype(array.dtype.newbyteorder("<"))
    return result | {"kind": kind, "data": base64.b64encode(little.tobytes()).decode()}


@cache
def _parts() -> dict[str, str]:
    resources = import_extra("bokeh.resources", "explore", "the explorer", "bokeh")
    library = "\n".join(resources.Resources(mode="inline", components=["bokeh"]).js_raw)
    return {"library": library, "style": _text("page.css"), "script": _text("page.js")}


@cache
def _map() -> dict[str, Any]:
    """The map as Bokeh's JSON, without points; the page fills them in."""
    import_extra("bokeh.plotting", "explore", "the explorer", "bokeh")
    from bokeh.embed import json_item
    from bokeh.models import ColumnDataSource, CustomJS, HoverTool, PanTool, Range1d, TapTool, WheelZoomTool
    from bokeh.plotting import figure

    points = ColumnDataSource({name: [] for name in ("x", "y", "colour", "marker")}, name="points")
    rings = ColumnDataSource({name: [] for name in ("x", "y", "size", "width")}, name="rings")
    plot = figure(
        tools=[], toolbar_location=None, sizing_mode="stretch_both", min_border=0, background_fill_color=None,
        border_fill_color=None, outline_line_color=None, x_range=Range1d(name="x"), y_range=Range1d(name="y"),
        name="plot",
    )  # fmt: skip
    plot.axis.visible = plot.grid.visible = False
    marks = plot.scatter(
        "x", "y", size=7, fill_color="colour", marker="marker", line_color="white", line_width=0.5, source=points,
        name="marks",
    )  # fmt: skip
    marks.nonselection_glyph = marks.selection_glyph = None
    plot.scatter("x", "y", size="size", line_width="width", fill_alpha=0, line_color="grey", source=rings, name="ring")
    zoom = WheelZoomTool(modifiers="ctrl")
    hover = HoverTool(renderers=[marks], tooltips=None, callback=CustomJS(code="explorer.hover(cb_data)"))
    drag, tap = PanTool(), TapTool(renderers=[marks])
    plot.add_tools(drag, zoom, tap, hover)
    plot.toolbar.active_drag, plot.toolbar.active_scroll = drag, zoom
    points.selected.js_on_change("indices", CustomJS(code="explorer.tap(cb_obj.indices)"))
    return json_item(plot, "map")


def _json(value: Any) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _encodable(text: str) -> str:
    """Text with escapes of JSON for lone surrogates, which are the bytes of a path that are not UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def _text(name: str) -> str:
    return files("lsar_jax").joinpath("explorer", name).read_text(encoding="utf-8")
