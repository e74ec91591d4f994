"""STS17: correlations against scipy on the vectors, columns and languages of the tracks."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

import lsar_jax as lj
from eval.__main__ import main
from eval.data.sts17 import read_tracks
from lsar_jax.measures.ranking import paired_cosine
from lsar_jax.measures.results import read_results
from tests.dataset_hub import write_rows
from tests.eval.test_published import check_published_metrics
from tests.eval.test_tasks import ENCODER, by_metric, evaluated
from tests.fake_encoder import FakeEncoder

pytestmark = pytest.mark.usefixtures("fake")
DATA = Path(__file__).parents[2] / "data" / "sts17"
PAIRS = [("a cat", "a dog"), ("the dog barks", "the dog barks"), ("no", "we see b"), ("go a", "go b")]


def write(folder, name, pairs, gold):
    write_rows(folder, f"STS.input.track{name}.txt", pairs)
    write_rows(folder, f"STS.gs.track{name}.txt", gold)


def test_sts17(tmp_path, capsys):
    write(tmp_path / "data", "1.en-en", PAIRS, [1.5, 5, 0, 3])
    write(tmp_path / "data", "6.tr-en", [*PAIRS, ("left", "out")], [1, 4.5, 0.5, 2])
    options = ["--data", str(tmp_path / "data"), "--layers", "2", "--transforms", "original", "center"]
    results = by_metric(evaluated(tmp_path / "out", "sts17", *ENCODER, *options))
    assert "track 6.tr-en: 1 of 5 pairs have no score, and are left out" in capsys.readouterr().out
    encoder = FakeEncoder(2)
    sides = [encoder.encode([pair[side] for pair in PAIRS]).astype(float) for side in (0, 1)]
    cosine = [np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(*sides, strict=True)]
    one = results["original", "Pearson 1.en-en"], results["original", "Spearman 1.en-en"]
    assert one[0]["value"] == pytest.approx(100 * pearsonr(cosine, [1.5, 5, 0, 3]).statistic, abs=1e-3)
    assert one[1]["value"] == pytest.approx(100 * spearmanr(cosine, [1.5, 5, 0, 3]).statistic, abs=1e-3)
    assert all(-100 <= r["low"] <= r["high"] <= 100 for r in results.values() if "minus" not in r["metric"])
    for correlation in ("Pearson", "Spearman"):
        of = {name: results["center", f"{correlation} {name}"]["value"] for name in ("1.en-en", "6.tr-en")}
        assert results["center", f"{correlation} mean"]["value"] == pytest.approx(np.mean(list(of.values())))
        assert results["center", f"{correlation} monolingual mean"]["value"] == of["1.en-en"]
        assert results["center", f"{correlation} cross-lingual mean"]["value"] == of["6.tr-en"]
        gap = results["center", f"{correlation} monolingual minus cross-lingual"]["value"]
        assert gap == pytest.approx(of["1.en-en"] - of["6.tr-en"])
    # The scores of pairs, for paired tests, have the same mean.
    for result in read_results(tmp_path / "out" / "results.jsonl"):
        assert result.queries.mean == pytest.approx(result.value)
    # The file is named tr-en and has English first.
    assert results["original", "Pearson 6.tr-en"]["languages"] == ["en", "tr"]
    check_published_metrics("sts17", {metric for _, metric in results})


def test_fitted_on_the_evaluated_columns(tmp_path, refused):
    """Whitening is fitted on each column of a track by itself, and never on several together."""
    rng = np.random.default_rng(0)
    pairs = [tuple(" ".join(rng.choice(list("abcdefgh"), 3)) for _ in range(2)) for _ in range(20)]
    gold = rng.uniform(0, 5, 20)
    # Both columns of the first track are English.
    write(tmp_path / "data", "1.en-en", pairs, gold)
    write(tmp_path / "data", "6.tr-en", [pair[::-1] for pair in pairs], gold)
    options = ["--data", str(tmp_path / "data"), "--layers", "2"]
    names = ["--transforms", "original", "whitening", "language-whitening", "sample-whitening", "cbie", "lsar"]
    results = by_metric(evaluated(tmp_path / "out", "sts17", *ENCODER, *options, *names, "--fit-on", "evaluated"))
    assert {name for name, _ in results} == {"original", "language-whitening", "sample-whitening", "cbie", "lsar"}
    encoder = FakeEncoder(2)
    sides = [encoder.encode([pair[side] for pair in pairs]) for side in (0, 1)]
    fits = {
        "language-whitening": lambda x: lj.transforms.fit_whitening(
            {"en": x}, 1e-8, absolute=True, per_language=True, precise=True
        )(x, "en"),
        "sample-whitening": lj.transforms.whiten_samples,
    }
    for name, fit in fits.items():
        cosine = paired_cosine(*(np.asarray(fit(side)) for side in sides))
        found = results[name, "Pearson 1.en-en"]
        assert found["value"] == pytest.approx(100 * pearsonr(cosine, gold).statistic, abs=0.05)
        assert found["fitted_on"] == "the evaluated sentences"
    for arguments, message in (
        (["--fit-on", "udhr"], "sample-whitening, which whitens the evaluated sentences; add --fit-on"),
        (["--fit-on", "evaluated", "--fit-languages", "all"], "cannot be combined with --fit-languages all"),
    ):
        assert message in refused(main, ["sts17", *ENCODER, *options, *names, *arguments, "--out", tmp_path / "no"])


def test_paired_cosine_by_hand():
    a = np.array([[1.0, 0], [3, 4], [0, 0]])
    np.testing.assert_allclose(paired_cosine(a, np.array([[0.0, 2], [3, 4], [1, 1]])), [0, 1, 0])


def test_data_that_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match="copy sts2017 of github.com/eduardofv/sts_eval there"):
        read_tracks(tmp_path / "nowhere")
    folder = tmp_path / "data"
    for pairs, gold, message in (
        (PAIRS, [1, 2, 3, 4, 5], "track 1.en-en: 4 pairs and 5 scores"),
        (PAIRS, [1, 2, 3], "track 1.en-en: 4 pairs and 3 scores"),
        (PAIRS, [1, 5.5, 3, 4], "track1.en-en.txt, line 2, with that line of its scores, has the score '5.5'"),
        (PAIRS, [1, "x", 3, 4], "line 2, with that line of its scores, has the score 'x'"),
        ([*PAIRS[:2], ("one", "")], [1, 2, 3], "track1.en-en.txt, line 3, .* has no text in the column sentence2"),
    ):
        write(folder, "1.en-en", pairs, gold)
        with pytest.raises(ValueError, match=message):
            read_tracks(folder)


@pytest.mark.skipif(not DATA.is_dir(), reason="data/sts17 is not there")
def test_tracks_of_semeval():
    tracks = read_tracks(DATA)
    assert {len(track.gold) for track in tracks.values()} == {250}
    languages = {name: track.languages for name, track in tracks.items()}
    assert languages["2.ar-en"] == ("en", "ar")
    assert languages["4a.es-en"] == ("es", "en")
