"""The figure of a training log: each loss term against the step, in training and validation."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.files import new_file
from lsar_jax.report.planes import line as look_of

__all__ = ["draw_curves", "save_figure"]


def draw_curves(log: Path, title: str, folder: Path) -> None:
    """Draws ``curves.png``: each loss term as its mean over seeds, with a band from the lowest to the highest seed."""
    from matplotlib.figure import Figure

    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    figure = Figure(figsize=(11, 4.2))
    names = sorted({name for line in lines for name in line["terms"]})
    looks = {name: {**look_of(index), "marker": ""} for index, name in enumerate(names)}
    # Epochs may differ in their number of steps.
    last = {line["epoch"]: line["step"] for line in lines}
    before = {epoch: sum(count for other, count in last.items() if other < epoch) for epoch in last}
    for axis, event in zip(figure.subplots(1, 2), ("train", "validation"), strict=True):
        several = [line for line in lines if line["event"] == event]
        steps = [before[line["epoch"]] + line["step"] for line in several]
        names = list(several[0]["terms"]) if several else []
        # A single term is the whole loss.
        for name in names if len(names) == 1 else ["loss", *names]:
            values = np.array([line["terms"].get(name, line["loss"]) for line in several], float)
            # The loss of a seed that has stopped stays constant.
            width = 1.8 if len(names) == 1 or name == "loss" else 1.0
            look, label = looks.get(name, {"color": "black"}), name.replace("_", " ")
            [drawn] = axis.plot(steps, values.mean(axis=1), label=label, linewidth=width, **look)
            axis.fill_between(steps, values.min(axis=1), values.max(axis=1), alpha=0.2, color=drawn.get_color())
        axis.set_xlabel("step")
        axis.set_title("training" if event == "train" else "validation")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize="small")
    figure.axes[0].set_ylabel("mean over seeds")
    figure.suptitle(title)
    figure.tight_layout()
    save_figure(figure, folder / "curves.png")


def save_figure(figure: Any, path: Path) -> None:
    """Writes a PNG for the screen and, beside it, a PDF for a paper; replaces old files once it is whole."""
    with new_file(path) as partial:
        figure.savefig(partial, dpi=150)
    figure.set_layout_engine("none")  # keep the layout, so that the second file need not compute it again
    with new_file(path.with_suffix(".pdf")) as partial:
        figure.savefig(partial, metadata={"CreationDate": None})
