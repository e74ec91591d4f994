"""ZCA over features against float64 numpy; the sample-space form."""

import numpy as np
import pytest

from lsar_jax.transforms import fit_whitening, whiten_samples
from tests import reference


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("absolute", [False, True])
def test_equals_its_twin(x, precise, absolute):
    together = np.concatenate(list(x.values()))
    fits = {False: fit_whitening(x, 0.01, absolute=absolute, precise=precise)}
    fits[True] = fit_whitening(x, 0.01, absolute=absolute, precise=precise, per_language=True)
    for code, part in x.items():
        for per_language, whitening in fits.items():
            expected = reference.whitening(part, part if per_language else together, 0.01, absolute)
            np.testing.assert_allclose(whitening(part, code), expected, atol=2e-4)
    assert fits[False].languages is None
    assert fits[True].languages == tuple(x)


def test_sample_space_whitening_is_the_published_code(rng):
    few, many = rng.standard_normal((12, 20)) + 5, rng.standard_normal((60, 20)) + 5
    np.testing.assert_allclose(whiten_samples(few), reference.whiten_samples(few), atol=1e-6)
    # With more sentences than dimensions numpy's general eig, which the code calls, returns vectors of
    # the eigenvalue 0 that are not orthogonal, and the null space is amplified most of all.
    expected = reference.whiten_samples(many, eig=np.linalg.eigh)
    np.testing.assert_allclose(whiten_samples(many), expected, atol=1e-5)
    assert np.abs(reference.whiten_samples(many) - expected).max() > 1
    # With fewer sentences than dimensions all sentences come out equally far from each other.
    wide = rng.standard_normal((12, 200))
    moved = whiten_samples(wide - wide.mean(axis=1, keepdims=True))
    cosines = reference.unit(moved) @ reference.unit(moved).T
    np.testing.assert_allclose(cosines[~np.eye(12, dtype=bool)], -1 / 11, atol=1e-4)
    with pytest.raises(ValueError, match="expected .n, dim. with n at least 2"):
        whiten_samples(np.zeros((1, 3)))
