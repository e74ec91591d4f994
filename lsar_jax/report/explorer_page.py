"""The explorer's page: a map that Bokeh draws, the data of the script, and the code that fits what is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from pathlib import Path
from typing import Any

from lsar_jax.extras import import_extra
from lsar_jax.files import write_text
from lsar_jax.report.page_kit import Usage, render

__all__ = ["Explorer", "look_of_language"]

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
      title: its title.
      data: the sentences and what was measured, in JSON's types; beside a report, its name, ``report``, and what it
        has ``recommended``.
      usage: how the vectors were made, for the code on the page.
    """

    title: str
    data: Mapping[str, Any]
    usage: Usage

    @cached_property
    def html(self) -> str:
        """The whole page."""
        first = self.data["layers"][0]
        layer = "{layer}" if first["name"] else ""  # the script fills in what stands in braces
        code = {
            method["name"]: {
                "fitting": self.usage.fitting(method["name"], method["options"], layer),
                "loading": self.usage.loading(
                    f"{method['name']}.safetensors", method["by_language"], method["one_map"], self.data["languages"]
                ),
            }
            for method in first["methods"]
        }
        data = {"report": "", "recommended": None, **self.data, "code": code}
        return render("explorer.html", title=self.title, data=data, map=_map(), library=_bokeh(), usage=self.usage)

    @property
    def about(self) -> str:
        """The size of what is on the page."""
        sentences, languages, layers = (len(self.data[name]) for name in ("texts", "languages", "layers"))
        return f"{sentences:,} sentences in {languages} languages, {layers} layer{'s' if layers > 1 else ''}"

    @property
    def size(self) -> int:
        """Bytes of the page."""
        return len(self.html.encode())

    def save(self, path: str | Path) -> None:
        """Writes the page; a file at ``path`` is replaced once the page is complete."""
        write_text(Path(path), self.html)

    def _repr_html_(self) -> str:
        frame = 'style="width: 100%; height: 56rem; border: 0" title="explorer"'
        return f'<iframe {frame} srcdoc="{escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"Explorer({self.about}, {self.size / 1e6:.1f} MB)"


def look_of_language(number: int) -> tuple[str, tuple[str, str]]:
    """Returns the colour and the marker of a language."""
    return _COLOURS[number % len(_COLOURS)], list(_MARKERS.items())[number % len(_MARKERS)]


@cache
def _bokeh() -> str:
    resources = import_extra("bokeh.resources", "report", "the explorer", "bokeh")
    return "\n".join(resources.Resources(mode="inline", components=["bokeh"]).js_raw)


@cache
def _map() -> dict[str, Any]:
    """The map as Bokeh's JSON, without points; the page fills them in."""
    import_extra("bokeh.plotting", "report", "the explorer", "bokeh")
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
