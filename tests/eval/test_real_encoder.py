"""Evaluations of real encoders: the tiny one, and the bundled one's numbers."""

import pytest

from tests.eval.test_published import check_published_metrics
from tests.eval.test_tasks import ENCODER, by_metric, evaluated, is_png, write_pairs


def test_tatoeba(tmp_path):
    folder = tmp_path / "data"
    write_pairs(folder, "deu", "a cat\nthe dog barks\nno\n", "a cat\nthe dog barks\nno\n")
    write_pairs(folder, "mal", "a cat\nno\n", "no\na cat\n")
    options = ["--data", str(folder), "--layers", "0", "--languages", "ml", "de", "--max-length", "24"]
    values = by_metric(evaluated(tmp_path / "out", "tatoeba", *ENCODER, *options), "value")
    # German is a copy, so all are found; the two sentences of Malayalam are swapped, so none is.
    assert values["original", "en-de accuracy"] == values["original", "en-xx mean over 1"] == 100
    assert values["original", "en-ml accuracy"] == 0
    assert values["original", "en-xx mean over 2"] == 50
    # There is no text in Malayalam to fit on: what is shared is tested on it all the same.
    assert values["center", "en-xx mean over 1"] == 100
    assert ("center", "en-ml accuracy") not in values
    assert values["lsar", "en-xx mean over 1"] == values["lsar", "xx-en mean over 1"] == 100
    assert values["lsar", "en-xx mean over 1 unseen"] == values["lsar", "en-ml accuracy"] == 0
    assert is_png(tmp_path / "out" / "methods.png")
    check_published_metrics("tatoeba", {metric for _, metric in values})


@pytest.mark.slow
def test_the_bundled_encoder_keeps_its_numbers(tmp_path):
    # What make demo does, in seconds: four blocks, four languages, 16 tokens. Printed by this command on jax 0.10.2,
    # 2026-11-23.
    options = ["--languages", "en", "de", "zh", "sw", "--layers", "4", "--ranks", "3", "--max-length", "16"]
    values = by_metric(evaluated(tmp_path, "udhr", *options), "value")
    expected = {"original": (5.65, 62.67), "center": (50.12, 68.00), "lir": (50.11, 68.00), "lsar": (46.68, 66.67)}
    for method, (precision, accuracy) in expected.items():
        assert values[method, "mAP"] == pytest.approx(precision, abs=0.1)
        assert values[method, "accuracy into en"] == pytest.approx(accuracy, abs=1.4)  # one query of 75
