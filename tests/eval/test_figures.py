"""Pictures by construction: what is drawn, and how it is written."""

import numpy as np
import pytest

from eval.figures import layers, leakage, style
from eval.figures.language_families import family
from eval.figures.plots import bars, by_rank, sweep_figure
from eval.figures.removed import family_histograms
from lsar_jax.measures.resampling import Interval
from lsar_jax.report import planes
from tests.eval.test_tasks import is_png
from train.curves import save_figure


@pytest.fixture
def made(monkeypatch):
    """The figures that are drawn, which are not written."""
    figures = []
    monkeypatch.setattr(style, "save_figure", lambda figure, path: figures.append(figure))
    return figures


def test_a_page_is_written_for_the_screen_and_for_a_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(style, "save_figure", save_figure)
    with style.page(tmp_path / "a.png", 1, 2, size=(6, 3), title="both", legend="right upper") as [axes]:
        planes.lines(axes[0], {"one": {1: 2.0, 3: 4.0}})
    assert is_png(tmp_path / "a.png")
    assert (tmp_path / "a.pdf").read_bytes()[:4] == b"%PDF"
    assert not axes[1].axison
    assert [text.get_text() for text in axes[0].figure.legends[0].get_texts()] == ["one"]
    # What fails while it is drawn is not written.
    with pytest.raises(ZeroDivisionError), style.page(tmp_path / "b.png", size=(6, 3)):
        1 / 0  # noqa: B018
    assert not (tmp_path / "b.png").exists()


def test_bars_show_the_intervals_that_there_are(tmp_path, made):
    groups = {
        "layer 4": {"original": Interval(50.0, 45.0, 52.0), "lsar": Interval(60.0)},
        "layer 8": {"original": Interval(70.0)},
    }
    bars(groups, "%", "", tmp_path / "a.png")
    first, second = (container for container in made[0].axes[0].containers if hasattr(container, "patches"))
    assert [patch.get_height() for patch in first] == [50, 70]
    [segment, absent] = first.errorbar.lines[2][0].get_segments()
    assert segment[:, 1].tolist() == [45, 52]
    assert not absent.size
    assert not any(segment.size for segment in second.errorbar.lines[2][0].get_segments())


def test_the_best_rank_of_each_layer(tmp_path, made):
    labels = ["original", "lsar rank=2", "lsar rank=10", "lir components=1"]
    assert by_rank(labels) == {"lsar": {2: "lsar rank=2", 10: "lsar rank=10"}}
    sweep_figure({label: {4: n, 8: 9.0 - n} for n, label in enumerate(labels)}, (4, 8), "", tmp_path / "a.png")
    curves, ranks, *_ = made[0].axes
    assert {line.get_label(): list(line.get_ydata()) for line in curves.lines} == {
        "original": [0, 9], "lsar, best rank": [2, 8], "lir": [3, 6],
    }  # fmt: skip
    np.testing.assert_array_equal(ranks.images[0].get_array(), [[1, 8], [2, 7]])


def test_the_band_of_the_means(tmp_path, made, rng):
    means = rng.standard_normal((3, 9)) + 5
    layers._draw_means(means, means > 6, "", tmp_path / "a.png")
    for axis, values in zip(made[0].axes, means, strict=False):
        [band] = axis.patches
        far = 3 * values.std(ddof=1)
        assert (band.get_y(), band.get_height()) == pytest.approx((values.mean() - far, 2 * far))


def test_families_and_their_histograms():
    codes = ("de", "zh-Hant", "ta", "ja")
    assert [family(code) for code in codes] == ["Germanic", "Sino-Tibetan", "Dravidian", "other"]
    x = {"de": [0.0, 0.0, 10.0], "nl": [10.0], "fr": [5.1, 5.1], "ja": [10.0]}
    edges, shares = family_histograms({code: np.array(values) for code, values in x.items()})
    np.testing.assert_allclose(edges, np.linspace(0, 10, 41))
    assert list(shares) == ["Germanic", "Romance", "other"]
    expected = np.zeros((3, 40))
    expected[[0, 0, 1, 2], [0, 39, 20, 39]] = 0.5, 0.5, 1, 1
    np.testing.assert_allclose(list(shares.values()), expected)


def test_the_front_joins_weights_and_pairs_are_points(tmp_path, made):
    meaning, weights = {2.0: 80.0, 0.0: 70.0, 10.0: 60.0}, {f"oracle, weight {w:g}": w for w in (10.0, 0.0, 2.0)}
    scores = {(8, "original", "meaning"): {"Tatoeba": [65.0]}}
    for name, weight in weights.items():
        scores[8, name, "meaning"] = {"Tatoeba": [meaning[weight] - 1, meaning[weight] + 1]}
        scores[8, name, "language"] = {"Tatoeba": [20 - weight, 20 - weight]}
    leakage.front(scores, [8], weights, tmp_path / "a.png")
    [axis] = made[0].axes
    np.testing.assert_allclose(axis.lines[0].get_xydata(), [(20, 70), (18, 80), (10, 60)])
    assert [text.get_text() for text in axis.texts] == ["0", "2", "10"]
    leakage.front(scores, [8], dict(list(weights.items())[:1]), tmp_path / "b.png")
    assert len(made) == 1
    # As in Figure 3, a language pair is a point, and their mean is grey.
    of = [{"held-out": [n], "held-out, de": [n - 4, n], "held-out, gn": [n + 2]} for n in (80.0, 9.0)]
    scores = {(8, "meat", "meaning"): of[0], (8, "meat", "language"): of[1] | {"Tatoeba": [50.0]}}
    leakage.leakage(scores, [8], "held-out", tmp_path / "c.png", pairs=True)
    [axis] = made[1].axes
    np.testing.assert_allclose(axis.collections[0].get_offsets(), [(7, 78), (11, 82)])
    np.testing.assert_allclose(axis.lines[0].get_xydata(), [(9, 80)])
    assert axis.lines[0].get_color() == "0.5"
