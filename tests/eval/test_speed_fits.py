"""The benchmark's peers compute what the library computes, and its bounds what they say."""

from dataclasses import replace

import numpy as np
import pytest

from eval.__main__ import main
from eval.speed import fits
from eval.speed.fits import FitBench, random_embeddings
from lsar_jax import transforms
from lsar_jax.transforms.methods import METHODS

SIZES = {"languages": 4, "sentences": 200, "dim": 24, "repeats": 1}


def test_prints_what_it_times(capsys):
    options = [part for name, value in SIZES.items() for part in (f"--{name}", str(value))]
    assert main(["fitbench", *options]) == 0
    printed = capsys.readouterr().out
    for word in ("GFLOP/s", "GB/s", "language-whitening", "identifier", "seconds from embeddings", "peak memory"):
        assert word in printed


def test_peers_give_our_answers():
    timings = FitBench(**SIZES).run()
    assert [t.method for t in timings] == [
        "center", "outliers", "lsar", "lir", "whitening", "language-whitening", "leace", "identifier"
    ]  # fmt: skip
    for t in timings:
        assert t.difference < 1e-4, t
        assert 0 < t.fit < t.whole
        assert 0 < t.numpy_fit < t.numpy_whole
        assert (t.sklearn_whole is not None) == ("whitening" in t.method)
        assert t.operations > t.fit_operations >= 0


def test_a_wrong_peer_shows(monkeypatch):
    name = "whitening"
    monkeypatch.setitem(METHODS, name, replace(METHODS[name], fixed={"eps": 2e-3}))
    assert {t.method for t in FitBench(**SIZES).run() if t.difference > 1e-4} == {name}


def test_pca_whitens_alike():
    x = random_embeddings(3, 200, 24, 0)
    pca = fits._PEERS["language-whitening"].sklearn
    ours = transforms.fit_whitening(dict(zip(("de", "en", "fr"), x, strict=True)), per_language=True)
    np.testing.assert_allclose(np.stack(pca(x)), ours.steps[0].matrix, atol=1e-4, rtol=1e-4)


def test_embeddings_are_structured():
    x = random_embeddings(5, 4000, 32, 3)
    np.testing.assert_array_equal(x, random_embeddings(5, 4000, 32, 3))
    assert x.dtype == np.float32
    means = x.mean(axis=1, dtype=np.float64)
    assert np.abs(means[:, :2]).min() > 2 > np.abs(means[:, 2:]).max()
    values = np.linalg.eigvalsh(np.cov(x[0], rowvar=False))[::-1]
    np.testing.assert_allclose(values, 1 / np.arange(1, 33), rtol=0.15)


def test_refuses_sizes(capsys):
    assert main(["fitbench", "--languages", "38"]) == 1
    assert "--languages is 38; it must be 2 to 37" in capsys.readouterr().err
    assert main(["fitbench", "--dim", "8"]) == 1
    assert "--dim is 8; it must be 37" in capsys.readouterr().err


@pytest.mark.parametrize("compiles", [False, True])
def test_fastest_run_counts(compiles):
    calls = []
    answer, fastest, first = FitBench(repeats=2)._timed(lambda: calls.append(1) or len(calls), compiles)
    assert (answer, len(calls)) == (1, 3 if compiles else 2)
    assert fastest > 0
    assert first >= 0 or compiles
