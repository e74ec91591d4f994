"""LEACE: the published formula, what it erases, and what it leaves."""

import numpy as np
import pytest

from lsar_jax import Moments, corpora
from lsar_jax.moments import pool_moments
from lsar_jax.transforms import fit_leace, fit_lsar
from tests import reference


def together(x):
    return np.concatenate(list(x.values())), [code for code, rows in x.items() for _ in rows]


@pytest.fixture(scope="module")
def real(bundled):
    """Real text in few languages: fewer dimensions than sentences."""
    texts = corpora.udhr("all", ["ar", "de", "en", "fi", "hi", "ja", "sw", "th"])
    return {code: bundled.encode(sentences, max_length=16) for code, sentences in texts.items()}


@pytest.mark.parametrize("precise", [False, True])
def test_equals_its_twin(x, precise):
    leace = fit_leace(x, precise=precise)
    for part in x.values():
        np.testing.assert_allclose(leace(part), reference.leace(part, *together(x)), atol=2e-4)


@pytest.mark.slow
def test_means_of_languages_coincide_as_after_lsar(x, real):
    for embeddings, tolerance in ((x, 1e-4), (real, 1e-5)):
        for fit in (fit_leace, fit_lsar):
            moved = np.stack(
                [np.asarray(fit(embeddings)(part), np.float64).mean(axis=0) for part in embeddings.values()]
            )
            np.testing.assert_allclose(moved, np.tile(moved[0], (len(moved), 1)), atol=tolerance)


def test_it_moves_less_than_lsar_and_keeps_the_mean(x):
    rows, _ = together(x)
    change = {fit: ((np.asarray(fit(x)(rows)) - rows) ** 2).sum(axis=1).mean() for fit in (fit_leace, fit_lsar)}
    assert change[fit_leace] < change[fit_lsar]
    np.testing.assert_allclose(np.asarray(fit_leace(x)(rows)).mean(axis=0), rows.mean(axis=0), atol=1e-5)


def test_no_other_map_that_equalises_the_means_moves_less(x):
    # Any such map is LEACE's plus something that does not see the span's functionals: add a little.
    rows, _ = together(x)
    leace = fit_leace(x, precise=True)
    moved = np.asarray(leace(rows), np.float64)
    rng = np.random.default_rng(1)
    functionals = np.asarray(leace.steps[0].dual, np.float64)
    for _ in range(5):
        # A map E with E (mu_l - mu) = 0 for all l.
        extra = rng.standard_normal((40, 40)) * 0.01
        extra -= extra @ functionals @ functionals.T
        other = moved + (rows - rows.mean(axis=0)) @ extra.T
        assert ((other - rows) ** 2).sum() > ((moved - rows) ** 2).sum()


def test_a_converged_probe_learns_nothing(x):
    from sklearn.linear_model import LogisticRegression

    small = {code: rows / 30 for code, rows in x.items()}
    rows, labels = together(small)

    def weights(embeddings):
        embeddings = np.asarray(embeddings, np.float64)
        probe = LogisticRegression(C=1e3, tol=1e-10, max_iter=2000).fit(embeddings - embeddings.mean(axis=0), labels)
        return np.abs(probe.coef_).max(), probe.score(embeddings - embeddings.mean(axis=0), labels)

    before, accuracy = weights(rows)
    after, _ = weights(fit_leace(small)(rows))
    assert before > 1
    assert accuracy == 1
    assert after < 1e-3


def test_moments_suffice(x):
    moments = {code: Moments.from_embeddings(part, second_moment=True) for code, part in x.items()}
    for given in (moments, pool_moments(moments)):
        for got, expected in zip(fit_leace(given).steps[0], fit_leace(x).steps[0], strict=True):
            np.testing.assert_array_equal(got, expected)


def test_refusals(x):
    with pytest.raises(ValueError, match="1 language is given"):
        fit_leace({"de": x["de"]})
    with pytest.raises(ValueError, match="the means of de, en do not differ; there is no language to erase"):
        fit_leace({"de": x["de"], "en": x["de"]})
    with pytest.raises(ValueError, match="de: the second moment was not kept"):
        fit_leace({code: Moments.from_embeddings(part) for code, part in x.items()})
    bad = x["en"].copy()
    bad[2, 1] = np.inf
    with pytest.raises(ValueError, match="en: the embeddings hold NaN, infinity .*, first in row 2"):
        fit_leace(x | {"en": bad})
