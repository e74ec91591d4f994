"""LangSAE: planted features of languages, the step against float64 numpy, its file, and what refuses it."""

import jax
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.transforms import SparseAutoencoder, Transform, fit_langsae, reconstruction_loss
from tests import reference
from tests.reference import unit

pytest.importorskip("optax")

CODES = ("de", "en", "fr", "th")
OPTIONS = {"width": 2, "active": 4, "steps": 500}


@pytest.fixture(scope="module")
def planted():
    """Sentences of three of 12 meanings, the same in all languages, and the atom of their language; the meanings."""
    rng = np.random.default_rng(0)
    atoms = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    meanings = np.zeros((400, 12))
    for row in meanings:
        row[rng.choice(12, 3, replace=False)] = rng.uniform(0.5, 1.5, 3)
    meaning = meanings @ atoms[:12]
    return {
        code: (meaning + rng.uniform(1.5, 2.5, (400, 1)) * atoms[12 + number]).astype(np.float32)
        for number, code in enumerate(CODES)
    }, meaning


@pytest.fixture(scope="module", params=[{}, {"keep_error": True}], ids=str)
def fitted(request, planted):
    return fit_langsae(planted[0], **OPTIONS, **request.param)


def found(queries, candidates):
    """The share of queries whose nearest candidate, by cosine, is their translation."""
    return np.mean((queries @ unit(candidates).T).argmax(axis=1) == np.arange(len(queries)))


def test_features_of_languages_are_removed_and_meanings_stay(planted, fitted):
    x, meaning = planted
    moved = {code: np.asarray(fitted(rows, code)) for code, rows in x.items()}
    assert found(x["de"], x["en"]) < 0.5
    assert found(moved["de"], moved["en"]) > 0.95
    for code in CODES:
        before, after = (np.sum(unit(rows) * unit(meaning), axis=1) for rows in (x[code], moved[code]))
        assert before.mean() < 0.7
        assert after.mean() > 0.9
    assert (1 - np.asarray(fitted.steps[0].factors)).sum() == 4


def test_equals_its_twin(planted, fitted):
    [step] = fitted.steps
    for code in CODES:
        rows = planted[0][code][:50]
        expected = reference.sparse_autoencoder(rows, step.encoder, step.decoder, np.asarray(step.factors), step.active)
        whole = reference.sparse_autoencoder(rows, step.encoder, step.decoder, np.ones(40), step.active)
        np.testing.assert_allclose(fitted(rows, code), expected + step.keep_error * (rows - whole), atol=1e-5)
        loss = reconstruction_loss((step.encoder, step.decoder), jax.numpy.asarray(rows), step.active)
        np.testing.assert_allclose(loss, np.square(whole - rows).mean(), rtol=1e-4)


def test_all_features_are_active(rng):
    """Features that are not positive are none, also where an embedding may have all of them."""
    encoder, decoder, rows = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 8), (5, 8)))
    step = SparseAutoencoder(*map(jax.numpy.asarray, (encoder, decoder, np.ones(16, np.float32))), 16, False)
    expected = np.maximum(rows.astype(float) @ encoder, 0) @ decoder
    np.testing.assert_allclose(step(rows, np.array(0)), expected, atol=1e-5)


def test_what_the_features_lose_is_logged(planted, caplog):
    """A share of the variance around the mean over languages, which have the same weight whatever their size."""
    x = {code: rows + 3 for code, rows in planted[0].items()} | {"th": planted[0]["th"][:50] + 3}
    with caplog.at_level("INFO", "lsar_jax"):
        [step] = fit_langsae(x, **OPTIONS | {"steps": 20}).steps
    weights = (np.asarray(step.encoder), np.asarray(step.decoder), np.ones(40))
    mean = np.mean([rows.mean(axis=0) for rows in x.values()], axis=0)
    lost = [np.square(reference.sparse_autoencoder(rows, *weights, step.active) - rows).mean() for rows in x.values()]
    share = 100 * np.mean(lost) / np.mean([np.square(rows - mean).mean() for rows in x.values()])
    logged = float(caplog.text.split("the features lose ")[1].split("%")[0])
    assert logged == pytest.approx(share, rel=0.01, abs=0.06)


def test_the_seed_decides_and_the_scale_does_not(planted):
    x, _ = planted
    options = OPTIONS | {"steps": 60}
    first = fit_langsae(x, **options, seed=3)
    again = fit_langsae(dict(reversed(x.items())), **options, seed=3)
    assert first.digests == again.digests
    other = fit_langsae(x, **options, seed=4)
    assert np.abs(np.asarray(first(x["de"])) - np.asarray(other(x["de"]))).max() > 0.1
    large = fit_langsae({code: 1024 * rows for code, rows in x.items()}, **options, seed=3)
    assert large.digests == first.digests
    np.testing.assert_allclose(first(1024 * x["de"]), 1024 * np.asarray(first(x["de"])), rtol=1e-5)


def test_it_runs_where_the_encoder_runs(tiny, rng):
    texts = ["Guten Tag", "Good day", "Bonjour", "Hi"]
    weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 64), (64, 32)))
    factors = (rng.random(64) < 0.7).astype(np.float32)
    step = SparseAutoencoder(*map(jax.numpy.asarray, (*weights, factors)), 8, True)
    fit = lj.transforms.Fit("langsae", 32, (), (("de", 9), ("en", 9)))
    transform = Transform((step,), (fit,), tiny.spec)
    np.testing.assert_allclose(tiny.with_transform(transform).encode(texts), transform(tiny.encode(texts)), atol=1e-4)
