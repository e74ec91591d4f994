"""The joint subspace of means and scatter: its twin, and languages planted to differ in means, in scatter, or both."""

import numpy as np
import pytest

from lsar_jax.transforms import fit_joint, fit_lsar, scatter_directions
from tests import reference
from tests.transforms.test_methods import projector

CODES = ("de", "en", "fr", "ja", "ru", "sv", "th", "zh")


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("components", [1, 3])
def test_equals_its_twin(x, components, precise):
    joint = fit_joint(x, components, eps=0.1, precise=precise)
    for rows in x.values():
        expected = reference.joint(rows, x.values(), components, 0.1)
        np.testing.assert_allclose(joint(rows), expected, atol=2e-4)


def planted(rng, *, means, scatter):
    """Eight languages of 1,000 sentences, and orthonormal directions of means (4), of scatter (2), of meaning (34).

    The last direction of means is that of their mean.
    """
    of_means, of_scatter, of_meaning = np.split(np.linalg.qr(rng.standard_normal((40, 40)))[0], [4, 6], axis=1)
    strength = np.geomspace(8, 0.5, 34)
    x = {}
    for code, place, spread in zip(CODES, 3 * rng.standard_normal((8, 4)), np.geomspace(0.25, 4, 8), strict=True):
        rows = (strength * rng.standard_normal((1000, 34))) @ of_meaning.T
        place = np.append(place[:3] * means, 20)
        rows += (place + 0.2 * rng.standard_normal((1000, 4))) @ of_means.T
        sizes = np.array([spread, 1 / spread]) if scatter else np.ones(2)
        x[code] = rows + (sizes * rng.standard_normal((1000, 2))) @ of_scatter.T
    return x, of_means, of_scatter, of_meaning


def found(transform, directions):
    """The share of directions that is removed."""
    return np.square(np.asarray(transform.steps[0].basis, np.float64).T @ directions).sum() / directions.shape[1]


def test_finds_what_is_planted_and_leaves_meaning(rng):
    x, of_means, of_scatter, of_meaning = planted(rng, means=1, scatter=True)
    joint, lsar = fit_joint(x, 2), fit_lsar(x)
    assert found(joint, of_means) > 0.98
    assert found(joint, of_scatter) > 0.97
    # LSAR keeps the mean over languages, and does not see where only the variance differs.
    assert found(lsar, of_means[:, :3]) > 0.97
    assert found(lsar, of_means[:, 3:]) < 0.01
    assert found(lsar, of_scatter) < 0.2
    # The three directions more cost no more of the strongest ten directions of meaning.
    assert found(joint, of_meaning[:, :10]) < found(lsar, of_meaning[:, :10]) + 0.01
    # The largest differences of covariances are where the meaning is strongest; without the metric, it is removed.
    covariances = np.stack([np.cov(rows.T) for rows in x.values()])
    differences = covariances - covariances.mean(axis=0)
    plain = np.linalg.eigh((differences @ differences).mean(axis=0))[1][:, -2:]
    assert np.square(plain.T @ of_scatter).sum() / 2 < 0.7


@pytest.mark.parametrize("means", [0, 1])
def test_equal_means_or_equal_scatter(rng, means):
    x, of_means, of_scatter, _ = planted(rng, means=means, scatter=not means)
    joint = fit_joint(x, 2)
    assert found(joint, of_means if means else of_scatter) > 0.97
    covariances = np.stack([np.cov(rows.T) for rows in x.values()])
    values = scatter_directions(covariances, np.asarray(fit_lsar(x).steps[0].basis, np.float64), 5)[1]
    # Two eigenvalues stand out if the scatter differs, none if it does not.
    assert (values[1] > 10 * values[2]) == (not means)
    assert values[2] < 2 * values[4]


def test_the_basis_is_orthonormal_and_holds_that_of_lsar_and_the_means(x):
    basis = np.asarray(fit_joint(x, 2).steps[0].basis, np.float64)
    np.testing.assert_allclose(basis.T @ basis, np.eye(8), atol=1e-5)
    np.testing.assert_allclose(basis[:, :5] @ basis[:, :5].T, projector(fit_lsar(x).steps[0].basis), atol=1e-5)
    means = np.stack([rows.mean(axis=0) for rows in x.values()])
    np.testing.assert_allclose(means @ basis @ basis.T, means, atol=1e-3)
    # All directions that differ are.
    basis = np.asarray(fit_joint({"de": x["de"][:3], "en": x["en"][:3]}, 4).steps[0].basis, np.float64)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-5)
