"""The figure of a training log: where its points lie, and what they are called."""

import json

import numpy as np

from tests.optional import need

need("matplotlib")

from train import curves  # noqa: E402


def drawn(monkeypatch, tmp_path, lines):
    """Returns the lines of each panel, by name, and the names in its legend."""
    figures = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: figures.append(figure))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    curves.draw_curves(tmp_path / "log.jsonl", "title", tmp_path)
    return [
        ({line.get_label(): line.get_xydata() for line in axis.lines}, [t.get_text() for t in axis.legend_.texts])
        for axis in figures[0].axes
    ]


def line(event, epoch, step, **terms):
    several = {name: [float(value), float(value) + 2] for name, value in terms.items()}
    return {"event": event, "epoch": epoch, "step": step, "loss": np.sum(list(several.values()), axis=0).tolist(),
            "terms": several}  # fmt: skip


def test_epochs_of_unequal_length_follow_each_other(monkeypatch, tmp_path):
    lines = [line("train", 0, 5, loss=9), line("validation", 0, 5, error=40), line("train", 1, 2, loss=7),
             line("train", 1, 4, loss=6), line("validation", 1, 4, error=30), line("train", 2, 4, loss=5)]  # fmt: skip
    training, validation = drawn(monkeypatch, tmp_path, lines)
    assert (training[1], validation[1]) == (["loss"], ["error"])
    np.testing.assert_array_equal(training[0]["loss"], [[5, 10], [7, 8], [9, 7], [13, 6]])
    np.testing.assert_array_equal(validation[0]["error"], [[5, 41], [9, 31]])
