"""Conformal thresholds on scores whose distribution is known, and calibration on planted languages."""

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.retrieval.calibration import Calibration, conformal_threshold
from lsar_jax.retrieval.matches import Matches, find_matches
from tests.reference import unit

CODES = ("de", "en", "fr")


def parallel(rng, lines, dim=32):
    """The same lines in three languages, each of which moves all its sentences, and German adds noise."""
    meaning, place = rng.standard_normal((lines, dim)), 4 * np.eye(dim)
    noise = {"de": 1.0, "en": 0.5, "fr": 0.5}
    return {code: meaning + place[i] + noise[code] * rng.standard_normal((lines, dim)) for i, code in enumerate(CODES)}


@pytest.fixture
def calibration(rng):
    return lj.calibrate(parallel(rng, 200), lj.transforms.fit_lsar(parallel(rng, 300)))


@pytest.mark.parametrize("scaled", [True, False])
def test_matches_equal_a_search_without_the_right_candidate(rng, scaled):
    queries, candidates, bank = (rng.standard_normal((n, 12)) for n in (30, 40, 50))
    candidates[:30] += queries
    found = find_matches(queries, candidates, bank=bank if scaled else None)
    s = unit(queries) @ unit(candidates).T
    scale = np.sort(unit(candidates) @ unit(bank).T)[:, -10:].mean(axis=1) if scaled else 0 * s[0]
    for row in range(30):
        for columns, score in ((np.arange(40), found.score), (np.delete(np.arange(40), row), found.absent)):
            order = columns[np.argsort(-(2 * s[row] - scale)[columns])]
            expected = (2 * s[row] - scale)[order[0]] - s[row, order[:10]].mean() if scaled else s[row, order[0]]
            assert score[row] == pytest.approx(expected, abs=1e-6)
            if score is found.score:
                assert found.right[row] == (order[0] == row)


@pytest.mark.parametrize(("count", "error"), [(19, 0.05), (200, 0.1), (999, 0.05)])
def test_new_scores_exceed_a_conformal_threshold_as_seldom_as_promised(rng, count, error):
    """Of uniform scores, the mean excess is ``1 - ceil((n + 1) (1 - error)) / (n + 1)``, at most the error."""
    excess = [1 - conformal_threshold(rng.random(count), error) for _ in range(2000)]
    expected = 1 - np.ceil((count + 1) * (1 - error) - 1e-9) / (count + 1)
    assert expected <= error + 1e-12
    assert np.mean(excess) == pytest.approx(expected, abs=5 * np.std(excess) / np.sqrt(2000))


def test_scores_of_one_line_in_several_pairs_count_as_one_line(rng):
    """Difficulty that all pairs of a line share: the promise holds over lines, on average over the pairs."""
    excess = []
    for _ in range(1000):
        scores = rng.standard_normal((1, 60)) + 0.3 * rng.standard_normal((10, 60))
        excess.append((scores[:, 40:] >= conformal_threshold(scores[:, :40], 0.025)).mean())
    assert np.mean(excess) <= 0.025 + 3 * np.std(excess) / np.sqrt(1000)


@pytest.mark.parametrize("by_pair", [False, True])
def test_each_half_of_the_lines_is_tested_by_the_threshold_of_the_other(rng, by_pair):
    """Wrong scores of one pair are 0.16 higher: one threshold for 10% accepts 2% and 18%; each pair's, 10%."""
    absent = (rng.random((2, 4000)) + np.array([[0], [0.16]])).astype(np.float32)
    matches = Matches(absent[::-1] + np.float32(0.2), rng.random(absent.shape) < 0.7, absent)
    planted = Calibration((("de", "en"), ("en", "de")), matches, 4000, True, ())
    limit = planted.threshold(0.1, pair=("eng", "deu") if by_pair else None)
    assert limit == conformal_threshold(absent[by_pair:], 0.1)
    found = planted.held_out(0.1, by_pair=by_pair)
    for row, pair in enumerate(planted.pairs):
        parts = []
        for half in (0, 1):
            wrong = np.sort(absent[[row] if by_pair else [0, 1], 1 - half :: 2].ravel())
            limit = wrong[int(np.ceil(2001 / 2000 * 0.9 * len(wrong))) - 1]  # scores above it are accepted
            right = (matches.right & (matches.score > limit))[row, half::2]
            parts.append((limit, 100 * right.mean(), 100 * (absent[row, half::2] > limit).mean()))
        assert found[pair] == pytest.approx(np.mean(parts, axis=0), abs=1e-5)
    assert [of.false_accepts for of in found.values()] == pytest.approx([10, 10] if by_pair else [2, 18], abs=1.5)


def test_a_larger_collection_has_a_higher_threshold(calibration):
    assert calibration.threshold(0.1, candidates=800) == calibration.threshold(0.025)
    assert calibration.threshold(0.1, candidates=100) == calibration.threshold(0.1)


def test_the_share_of_right_matches_rises_and_is_right_on_average(calibration):
    matches = calibration.matches
    shares = calibration.share(matches.score), calibration.share(matches.absent)
    assert (np.diff(calibration.share(np.sort(matches.score.ravel()))) >= 0).all()
    assert (shares[0].mean() + shares[1].mean()) / 2 == pytest.approx(matches.right.mean() / 2, abs=1e-9)
    assert calibration.share(matches.score, absent_share=0.9).mean() < shares[0].mean()


def test_a_file_gives_the_same_thresholds(calibration, tmp_path):
    calibration.save(tmp_path / "lsar.calibration")
    loaded = Calibration.load(tmp_path / "lsar.calibration")
    assert loaded.threshold(0.05, pair=["deu", "eng"]) == calibration.threshold(0.05, pair=("de", "en"))
    assert (loaded.pairs, loaded.candidates, loaded.digests) == (calibration.pairs, 200, calibration.digests)


def test_refusals(rng, calibration):
    x = parallel(rng, 20)
    lsar = lj.transforms.fit_lsar(x)
    for call, error in (
        (lambda: calibration.threshold(0.001), "has 200 lines, but an error of 0.001 needs 999; calibrate on more"),
        (lambda: calibration.threshold(candidates=0), "candidates is 0"),
        (lambda: calibration.threshold(pair=("de", "th")), "pairs are de to en"),
        (lambda: calibration.check(lsar), "calibrate again"),
        (lambda: lj.calibrate(x, lsar).check(lsar.with_sample({})), "calibrate again"),
        (lambda: lj.calibrate({"de": x["de"]}, lsar), "at least two"),
        (lambda: lj.calibrate({"de": x["de"], "en": x["en"][:9]}, lsar), "'en': 9.*the same number"),
        (lambda: find_matches(x["de"], x["en"][:9]), "the number of candidates is 9"),
        (lambda: conformal_threshold(np.array([1.0, np.nan]), 0.9), "wrong scores"),
    ):
        with pytest.raises(ValueError, match=error):
            call()


def test_thresholds_compare_with_scores_in_float32():
    absent = np.full((1, 30), 0.3, np.float32)
    matches = Matches(absent, np.zeros((1, 30), bool), absent)
    assert not (absent >= Calibration((("de", "en"),), matches, 30, True, ()).threshold(0.05)).any()
