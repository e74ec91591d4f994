"""Outlier dimensions: the published rule, planted dimensions, the union over languages."""

import numpy as np
import pytest

from lsar_jax.transforms import fit_outliers, zero_dimensions
from tests import reference
from tests.transforms.test_methods import means


def zeroed(transform):
    return np.flatnonzero(np.asarray(transform.steps[0].scale) == 0).tolist()


@pytest.fixture
def planted(x):
    """Dimensions 5 and 31 far out in every language, 12 in one."""
    x = {code: rows.copy() for code, rows in x.items()}
    for rows in x.values():
        rows[:, 5] -= 400
        rows[:, 31] += 300
    x["th"][:, 12] -= 500
    return x


@pytest.mark.parametrize("sigma", [1.0, 2.0, 3.0, 5.0])
def test_equals_its_twin(planted, sigma):
    expected = reference.outliers(means(planted), sigma)
    transform = fit_outliers(planted, sigma)
    assert zeroed(transform) == np.flatnonzero(expected).tolist()
    moved = np.asarray(transform(planted["de"]))
    np.testing.assert_array_equal(moved, np.where(expected, 0, planted["de"]))
    assert transform.languages is None


def test_the_union_of_the_largest(planted):
    # Thai names 12 and 5, the others 5 and 31.
    assert zeroed(fit_outliers(planted, largest=2)) == [5, 12, 31]
    expected = {index for row in means(planted) for index in np.argsort(-np.abs(row))[:4]}
    assert zeroed(fit_outliers(planted, largest=4)) == sorted(expected)
    assert fit_outliers(planted, largest=4).name == "outliers(largest=4)"


def test_zero_dimensions(x):
    transform = zero_dimensions((7, 0), 40)
    assert zeroed(transform) == [0, 7]
    assert transform.name == "zeroed(dimensions=7 0)"
    assert not np.asarray(transform(x["de"]))[:, [0, 7]].any()
