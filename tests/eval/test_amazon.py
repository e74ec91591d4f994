"""Amazon reviews: the classifier against scikit-learn's search by hand, and the task on files of its form."""

import numpy as np
import pytest

from eval.__main__ import main
from eval.data.reviews import read_reviews
from eval.tasks.benchmarks.amazon import classify
from tests.dataset_hub import write_rows
from tests.eval.test_published import check_published_metrics
from tests.eval.test_tasks import ENCODER, by_metric, read

pytestmark = pytest.mark.usefixtures("fake")


def planted(rng, count, shift):
    """Embeddings whose first dimension is the opinion, of different scale in each dimension."""
    opinion = rng.integers(2, size=count)
    x = rng.standard_normal((count, 6)) * [1, 10, 0.1, 1, 1, 1]
    x[:, 0] += 4 * opinion
    return (x + shift).astype(np.float32), [f"{label}" for label in opinion]


def test_planted_opinions_are_found_whatever_the_scale(rng):
    train, labels = planted(rng, 200, 0)
    train[:, 3] = 7  # a constant is not divided by its deviation
    test, gold = planted(rng, 200, 0)
    moved, _ = planted(rng, 200, 30)
    found, own = classify(train, labels, {"en": test, "de": moved})
    assert np.mean(np.array(found["en"]) == gold) > 0.95
    # German stands elsewhere: by the English mean it is all one opinion; by its mean a shift changes nothing.
    assert len(set(found["de"])) == 1 < len(set(own["de"]))
    assert classify(train + 9, labels, {"de": moved - 90})[1]["de"] == own["de"]


def test_the_penalty_is_that_of_a_grid_search(rng):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    train = rng.standard_normal((120, 10)).astype(np.float32)
    labels = np.where(train[:, 0] + rng.standard_normal(120) > 0, "pos", "neg").tolist()
    test = rng.standard_normal((80, 10)).astype(np.float32)
    order = np.random.default_rng(42).permutation(120)
    x = (train.astype(float) - train.astype(float).mean(axis=0)) / train.astype(float).std(axis=0)
    search = GridSearchCV(
        LogisticRegression(max_iter=50_000), {"C": np.logspace(-4, 4, 10)}, cv=StratifiedKFold(5), scoring="accuracy"
    ).fit(x[order], np.array(labels)[order])
    expected = search.predict((test - train.astype(float).mean(axis=0)) / train.astype(float).std(axis=0))
    found = classify(train, labels, {"en": test})[0]["en"]
    assert np.mean(np.array(found) == expected) > 0.97  # the solver stops where it has started from


def test_amazon(tmp_path, capsys):
    folder = tmp_path / "data"
    for name in ("en_train", "en_test", "de_test", "jp_test"):
        rows = [(i % 2, f"{'abc' if i % 2 else 'def'} {'gh'[i // 2 % 2]} {i}") for i in range(20)]
        write_rows(folder, f"{name}.tsv", rows)
    options = ["--data", str(folder), "--layers", "2", "--languages", "en", "de", "ja"]
    command = ["amazon", *ENCODER, *options, "--transforms", "original", "center", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    values = by_metric(read(tmp_path / "out"))
    assert values["original", "accuracy en"]["value"] > 90
    # The other files are copies.
    assert values["original", "accuracy ja"]["value"] == values["original", "accuracy en"]["value"]
    assert [values["center", "accuracy mean"][key] for key in ("n", "seed")] == [60, 42]
    # Centered equals the original where each test set is standardised by its statistics, as in the paper's text.
    own = "accuracy mean, by language"
    assert values["center", own]["value"] == values["original", own]["value"]
    check_published_metrics("amazon", {metric for _, metric in values})
    assert "Amazon reviews, trained on English" in capsys.readouterr().out
    # Of stars the metric says so: the papers' numbers are of good and bad.
    (folder / "en_train.tsv").write_text("".join(f"{i % 3}\t{'abc'[i % 3]} {i}\n" for i in range(30)))
    original = [word for word in command if word != "center"]
    assert main([*original[:-1], str(tmp_path / "stars")]) == 0
    stars = {r["metric"] for r in read(tmp_path / "stars")}
    assert {"accuracy mean, 3 classes", "accuracy ja, 3 classes, by language"} <= stars
    (folder / "de_test.tsv").write_text("4\tabc\n")
    assert main(command) == 1
    message = "test set of de: the label '4' is not one of 0, 1, 2"
    assert message in capsys.readouterr().err


def test_data_that_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no ja_test.tsv or jp_test.tsv; unpack automl-mm-bench"):
        read_reviews(tmp_path, "ja", "test")
    (tmp_path / "en_test.tsv").write_text("1\tgood\n0 bad\n")
    with pytest.raises(ValueError, match="en_test.tsv, line 2 has no text in the column text"):
        read_reviews(tmp_path, "en", "test")
