"""The style of all figures, and what several of them draw on an axis."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from train.curves import save_figure

__all__ = ["heat_map", "page"]

_STYLE: Any = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10, "figure.titlesize": 10,
    "legend.frameon": False, "legend.fontsize": 8, "lines.markersize": 4, "lines.linewidth": 1.4,
}  # fmt: skip


@contextmanager
def page(
    path: Path, rows: int = 1, columns: int = 1, *, size: tuple[float, float], title: str = "", legend: str = "",
    legend_columns: int = 1, **grid: Any,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Yields axes ``[row, column]``, and writes them as PNG and PDF once they are drawn; empty ones are not shown.

    The size is in inches. The labels of all axes are listed at ``legend``, such as ``right upper``, if it is given.
    """
    from matplotlib import rc_context
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **grid)
        yield axes
        handles: dict[str, Any] = {}
        for axis in axes.flat:
            axis.set_axis_on() if axis.has_data() else axis.set_axis_off()
            for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
                # The marker alone: with its error bars, markers look alike.
                handles[name] = handle[0] if isinstance(handle, ErrorbarContainer) else handle
        if legend:
            place: Any = f"outside {legend}"
            figure.legend(list(handles.values()), list(handles), loc=place, ncols=legend_columns)
        figure.suptitle(title)
        save_figure(figure, path)


def heat_map(
    axis: Any, values: Float[np.ndarray, "row column"], rows: Sequence[Any], columns: Sequence[Any], **look: Any
) -> Any:
    """Draws a table as colours, with the names of its rows and columns."""
    axis.set_xticks(range(len(columns)), list(map(str, columns)), fontsize=7)
    axis.set_yticks(range(len(rows)), list(map(str, rows)), fontsize=7)
    return axis.imshow(values, **look)
