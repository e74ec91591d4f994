"""Centered, LIR and LSAR: against the published formulas, and by construction."""

import jax
import numpy as np
import pytest

from lsar_jax import Moments, pool_moments
from lsar_jax.transforms import (
    fit_center,
    fit_identifier,
    fit_leace,
    fit_lir,
    fit_lsar,
    fit_mean_direction,
    fit_outliers,
    fit_sparse_dimensions,
    fit_steering,
    fit_whitening,
    published_subspace,
)
from tests import reference
from tests.compilations import count_compilations


def projector(basis):
    basis = np.asarray(basis, np.float64)
    return basis @ basis.T


def means(x):
    return np.stack([np.asarray(part, np.float64).mean(axis=0) for part in x.values()])


@pytest.mark.parametrize("precise", [False, True])
def test_center_subtracts_the_mean_of_the_language(x, precise):
    center = fit_center(x, precise=precise)
    for code, part in x.items():
        np.testing.assert_allclose(center(part, code), part - part.mean(axis=0, dtype=np.float64), atol=1e-5)
        np.testing.assert_allclose(np.asarray(center(part, code)).mean(axis=0), 0, atol=1e-5)
    assert fit_center({"de": x["de"]}).languages == ("de",)


def test_center_on_the_mean_over_languages(x):
    center = fit_center(x, per_language=False)
    np.testing.assert_allclose(center(x["de"]), x["de"] - means(x).mean(axis=0), atol=1e-5)
    assert center.languages is None
    assert center.name == "center(per_language=0)"


@pytest.mark.parametrize(("components", "precise"), [(1, False), (1, True), (5, True), (30, True)])
def test_lir_equals_its_twin(x, components, precise):
    lir = fit_lir(x, components, precise=precise)
    for code, part in x.items():
        np.testing.assert_allclose(lir(part, code), reference.lir(part, part, components), atol=2e-4)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_lsar_spans_the_space_of_algorithm_1(x, rank):
    expected = projector(published_subspace(means(x), rank)[1])
    for precise, tolerance in ((False, 1e-5), (True, 1e-6)):
        basis = fit_lsar(x, rank, precise=precise).steps[0].basis
        np.testing.assert_allclose(projector(basis), expected, atol=tolerance)


def test_algorithm_1_in_float32_loses_the_mean(x):
    # Why the pseudo-inverse is not used: at rank r < L - 1 it inverts rounding.
    common = means(x).mean(axis=0)
    kept = [projector(published_subspace(means(x).astype(dtype), 3)[1]) @ common for dtype in (np.float32, np.float64)]
    ours = projector(fit_lsar(x, 3).steps[0].basis) @ common
    np.testing.assert_allclose(ours, kept[1], atol=1e-3)
    assert np.linalg.norm(kept[0] - kept[1]) > 0.3 * np.linalg.norm(common)
    # It can be fitted, under its own name.
    published = fit_lsar(x, 3, published=True)
    assert published.name == "lsar-published(rank=3)"
    # From the same means to the last bit, since it depends on their rounding.
    own = np.stack([Moments.from_embeddings(part).mean for part in x.values()]).astype(np.float32)
    expected = projector(published_subspace(own, 3)[1])
    np.testing.assert_allclose(projector(published.steps[0].basis), expected, atol=1e-5)
    assert np.linalg.norm(expected @ common - kept[1]) > 0.3 * np.linalg.norm(common)
    # At full rank, it is LSAR.
    full = [projector(fit_lsar(x, published=value).steps[0].basis) for value in (False, True)]
    np.testing.assert_allclose(full[0], full[1], atol=1e-4)


def test_lsar_recovers_a_planted_subspace(rng):
    dim, rank, languages = 64, 4, 9
    planted, _ = np.linalg.qr(rng.standard_normal((dim, rank)))
    meaning = rng.standard_normal((200, dim))
    meaning -= meaning @ planted @ planted.T
    offsets = 7 * rng.standard_normal((languages, rank)) @ planted.T
    codes = ("de", "en", "fr", "it", "ja", "ru", "sv", "th", "zh")
    x = {code: (meaning + offset + 50).astype(np.float32) for code, offset in zip(codes, offsets, strict=True)}
    lsar = fit_lsar(x, rank)
    np.testing.assert_allclose(projector(lsar.steps[0].basis), planted @ planted.T, atol=1e-5)
    # All languages say the same, so they coincide once the language is gone.
    moved = [np.asarray(lsar(part)) for part in x.values()]
    for other in moved[1:]:
        np.testing.assert_allclose(other, moved[0], atol=1e-3)
    # The means span four dimensions: more are refused, the default eight too.
    with pytest.raises(ValueError, match="rank is 8, but the means .* span 4 dimensions"):
        fit_lsar(x)


FITS = [fit_center, fit_lsar, fit_outliers, fit_whitening, fit_leace, fit_identifier, fit_steering]


@pytest.mark.parametrize("fit", FITS)
def test_fits_from_moments_compile_nothing(rng, fit):
    x = {code: rng.standard_normal((90, 37)) + 2 * rng.standard_normal(37) for code in ("de", "en", "fr")}
    moments = {code: Moments.from_embeddings(rows, second_moment=True) for code, rows in x.items()}
    with count_compilations() as compiled:
        fit(moments)
    assert compiled == []


MEANS = (fit_center, fit_lsar, fit_mean_direction, fit_outliers, fit_sparse_dimensions)


@pytest.mark.parametrize("fit", [*MEANS, fit_lir, fit_leace, fit_whitening, fit_steering])
def test_moments_and_order_of_languages_do_not_matter(x, fit):
    expected = fit(x)
    same = {code: Moments.from_embeddings(part, second_moment=fit not in MEANS) for code, part in reversed(x.items())}
    jax.tree.map(np.testing.assert_array_equal, fit(same).steps, expected.steps)
    moments = {code: Moments.from_embeddings(part, second_moment=True) for code, part in reversed(x.items())}
    for given in [moments] if fit is fit_lir else [moments, pool_moments(moments)]:
        got = fit(given)
        assert got.fits == expected.fits
        # A program that keeps the second moment rounds the mean otherwise. Directions of nearly equal
        # weight may turn in their plane; the plane may not.
        for code, rows in x.items():
            near = 1e-6 * np.abs(rows).max()
            np.testing.assert_allclose(got(rows, code), expected(rows, code), rtol=0, atol=near)


def test_a_large_common_offset_does_not_change_the_subspace(x):
    # Moments keep float64 means; centred in float32 they would be off by 0.06 here.
    moments = {code: Moments.from_embeddings(part, precise=True) for code, part in x.items()}
    shifted = {code: Moments(m.count, m.mean + 1e6) for code, m in moments.items()}
    expected = projector(fit_lsar(moments, 3).steps[0].basis)
    np.testing.assert_allclose(projector(fit_lsar(shifted, 3).steps[0].basis), expected, atol=1e-5)


def test_lir_refuses_directions_that_are_not_there(x, rng):
    few = rng.standard_normal((5, 40)).astype(np.float32)[rng.integers(0, 5, 200)]
    for precise in (False, True):
        with pytest.raises(ValueError, match="components is 20, but the embeddings of de span 5 dimensions"):
            fit_lir({"de": few, "en": x["en"][:, :40]}, 20, precise=precise)
    assert fit_lir({"de": few}, 5).steps[0].basis.shape == (1, 40, 5)


def test_lir_keeps_directions_that_are_weak_but_real(rng):
    # As in an anisotropic encoder: the mean holds nearly all, each further direction 1e-5 of it.
    wide = (rng.standard_normal((3000, 512)) / 14 + 1).astype(np.float32)
    assert fit_lir({"de": wide}, 20).steps[0].basis.shape == (1, 512, 20)
