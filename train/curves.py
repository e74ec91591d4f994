"""The figure of a training log: each loss term against the step, in training and validation."""

import json
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

__all__ = ["draw_curves", "save_figure"]


def draw_curves(log: Path, title: str, folder: Path) -> None:
    """Draws ``curves.png``: each loss term as its mean over seeds, with a band from the lowest to the highest seed.

    Args:
      log: JSON lines written by ``train.loop``.
      title: title of the figure.
      folder: folder to write to.
    """
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    figure = Figure(figsize=(11, 4.2))
    every = sorted({name for line in lines for name in line["terms"]})
    colours = dict(zip(every, matplotlib.color_sequences["tab10"], strict=False))
    for axis, event in zip(figure.subplots(1, 2), ("train", "validation"), strict=True):
        several = [line for line in lines if line["event"] == event]
        # All epochs have the same number of steps, which is the highest step number.
        length = max((line["step"] for line in lines), default=1)
        steps = [line["epoch"] * length + line["step"] for line in several]
        names = list(several[0]["terms"]) if several else []
        for name in ["loss", *names]:
            values = np.array([line["loss"] if name == "loss" else line["terms"][name] for line in several], float)
            # The loss of a seed that has stopped stays constant.
            style = {"color": colours.get(name, "black"), "linewidth": 1.8 if name == "loss" else 1.0}
            [drawn] = axis.plot(steps, values.mean(axis=1), label=name.replace("_", " "), **style)
            axis.fill_between(steps, values.min(axis=1), values.max(axis=1), alpha=0.2, color=drawn.get_color())
        axis.set_xlabel("step")
        axis.set_title("training" if event == "train" else "validation")
        axis.grid(alpha=0.3)
    figure.axes[0].set_ylabel("mean over seeds")
    figure.axes[0].legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    figure.tight_layout()
    save_figure(figure, folder / "curves.png")


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG for the screen and, beside it, a PDF for a paper."""
    figure.savefig(path, dpi=150)
    figure.set_layout_engine("none")  # keep the layout, so that the second file need not compute it again
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
