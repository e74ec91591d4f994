"""Every fit on what is scarce, flat or broken: a sound map or one clear error."""

from functools import partial

import jax
import numpy as np
import pytest

from lsar_jax import Moments
from lsar_jax.transforms import fit_langsae, fit_lir, fit_whitening, leading_directions, principal_directions
from tests.transforms import test_base
from tests.transforms.test_methods import projector

CODES = ("de", "en", "fr", "zh")
# The step of an autoencoder is there without a fit.
FITS = {
    **test_base.FITS,
    "sparse autoencoder": lambda x: fit_langsae(x, width=2, active=4, steps=20),
}
FEW, PAIRS = "1 language is given .*; at least 2 are needed", "0 languages are given .none.; at least 1 are needed"
# What a fit says of one sentence a language, and of one language; the others can be fitted.
SCARCE = {
    1: {
        "lir": "components is 3; it must be a whole number from 1 to 1 .the sentences and dimensions of de",
        "whitening per language": "de: one embedding has no covariance; at least 2 are needed",
        "cbie": "clusters is 3; it must be a whole number from 1 to 1 .the sentences of de",
        "linear map": "de: one side holds only zeros; there is no rotation to find",
    },
    40: {"lsar": FEW, "leace": FEW, "chain": FEW, "shift": PAIRS, "linear map": PAIRS},
}


def sentences(rng, n, dim):
    return {code: (rng.standard_normal((n, dim)) + 3 * i).astype(np.float32) for i, code in enumerate(CODES)}


@pytest.fixture(params=FITS)
def method(request):
    return request.param


def assert_sound(transform, x):
    for code, rows in x.items():
        moved = np.asarray(transform(rows, code))
        assert np.isfinite(moved).all()
        assert np.abs(moved).max() < 1e4


def test_fewer_sentences_than_dimensions(method, rng):
    x = sentences(rng, 6, 50)
    assert_sound(FITS[method](x), x)


def test_a_constant_dimension(method, rng):
    x = sentences(rng, 40, 12)
    for rows in x.values():
        rows[:, 5] = 7
    transform = FITS[method](x)
    assert_sound(transform, x)
    # It stays constant, whatever is done to it, but where sentences are made anew.
    for code, rows in x.items() if method != "sparse autoencoder" else ():
        if transform.languages is None or method in ("center", "whitening per language", "shift"):
            assert np.ptp(np.asarray(transform(rows, code))[:, 5]) < 1e-3


@pytest.mark.parametrize("count", SCARCE)
def test_one_sentence_a_language_and_one_language(method, rng, count):
    x = sentences(rng, count, 12)
    x = x if count == 1 else {"en": x["en"]}
    if method in SCARCE[count]:
        with pytest.raises(ValueError, match=SCARCE[count][method]):
            FITS[method](x)
    else:
        assert_sound(FITS[method](x), x)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_nan_and_infinity(method, rng, bad):
    x = sentences(rng, 40, 12)
    x["fr"][9, 2] = bad
    with pytest.raises(ValueError, match="fr: the embeddings hold NaN, infinity .*, first in row 9"):
        FITS[method](x)


@pytest.mark.parametrize("scale", [1e-17, 1e17])
def test_tiny_and_huge_embeddings(method, rng, scale):
    x = sentences(rng, 40, 12)
    scaled = {code: (rows * np.float32(scale)).astype(np.float32) for code, rows in x.items()}
    expected, got = FITS[method](x), FITS[method](scaled)
    # Whitening undoes the scale, the others keep it.
    unit = 1 if method.startswith("whitening") else scale
    for code, rows in x.items():
        np.testing.assert_allclose(np.asarray(got(scaled[code], code)) / unit, expected(rows, code), atol=2e-3)


def spectrum(rng, values):
    """A symmetric matrix with these eigenvalues, in float64, and its eigenvectors."""
    vectors = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return (vectors * values) @ vectors.T, vectors


@pytest.mark.parametrize(("components", "last"), [(1, 0.1), (2, 0.1), (5, 0.3)])
def test_leading_directions_are_those_of_a_whole_decomposition(rng, components, last):
    # Close to each other inside, as far apart from the rest as real second moments are.
    values = np.array([*1 - 0.01 * np.arange(components), *np.geomspace(last, 1e-6, 128 - components)])
    matrix, vectors = spectrum(rng, values)
    found, of_found, error = jax.jit(leading_directions, static_argnums=1)(matrix.astype(np.float32), components)
    assert error <= 1
    np.testing.assert_allclose(of_found, values[:components], atol=1e-6)
    np.testing.assert_allclose(projector(found), projector(vectors[:, :components]), atol=1e-6)
    # The same for a batch, whose matrices take different numbers of steps.
    other = spectrum(rng, np.geomspace(1, 1e-3, 128))[0]
    both = np.stack([matrix, other]).astype(np.float32)
    batch, _, errors = jax.vmap(partial(leading_directions, components=components))(both)
    assert (errors <= 1).all()
    np.testing.assert_allclose(projector(batch[0]), projector(vectors[:, :components]), atol=1e-6)


def test_directions_without_a_gap_are_decomposed_whole(rng):
    matrix, _ = spectrum(rng, np.array([*np.linspace(1.001, 1, 60), *np.linspace(0.9, 0.8, 68)]))
    *_, error = leading_directions(matrix.astype(np.float32), 3)
    assert error > 1
    moments = {"de": Moments(128, np.zeros(128), 128 * matrix)}
    for precise, near in ((True, 1e-6), (False, 5e-3)):
        basis = fit_lir(moments, 3, precise=precise).steps[0].basis[0]
        np.testing.assert_allclose(basis, principal_directions(matrix, 3)[0], atol=near)


@pytest.mark.parametrize("method", ["whitening", "lir", "leace"])
def test_embeddings_whose_squares_vanish(rng, method):
    x = {code: (rows * np.float32(1e-21)).astype(np.float32) for code, rows in sentences(rng, 40, 12).items()}
    with pytest.raises(ValueError, match="the embeddings vary too little for float32 squares; use precise=True"):
        FITS[method](x)
    assert_sound(FITS[method](x, precise=True), x)


def test_a_small_absolute_eps_is_decomposed_in_float64(rng):
    # Fewer sentences than dimensions: the null space gets 1 / sqrt(eps), where float32 has rounding.
    x = {code: 10 * rows for code, rows in sentences(rng, 20, 128).items()}
    plain, precise = (fit_whitening(x, 1e-7, absolute=True, precise=precise) for precise in (False, True))
    a, b = (np.asarray(t.steps[0].matrix, np.float64) for t in (plain, precise))
    assert np.linalg.norm(a - b) < 1e-2 * np.linalg.norm(b)
