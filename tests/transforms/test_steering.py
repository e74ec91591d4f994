"""Baselines of few sentences: planted dimensions, their twins, and the direction of the mean."""

import numpy as np
import pytest

from lsar_jax.transforms import fit_mean_direction, fit_sparse_dimensions, fit_steering, varying_dimensions
from tests import reference
from tests.transforms.test_methods import means
from tests.transforms.test_outliers import zeroed


@pytest.mark.parametrize("dimensions", [1, 4, 40])
def test_sparse_dimensions_equal_their_twin(x, dimensions):
    transform = fit_sparse_dimensions(x, dimensions)
    expected = reference.sparse_dimensions(means(x), dimensions)
    assert zeroed(transform) == expected
    moved = x["de"].copy()
    moved[:, expected] = 0
    np.testing.assert_array_equal(transform(x["de"]), moved)
    # By default a tenth.
    assert fit_sparse_dimensions(x).name == "sparse-dimensions(dimensions=4)"


def test_of_equal_variances_the_first_are_taken():
    means = np.stack([np.zeros(300), np.arange(300) % 3.0])
    assert np.flatnonzero(varying_dimensions(means, 4)).tolist() == [2, 5, 8, 11]


def test_planted_dimensions_are_found_from_thirty_sentences(rng):
    planted, languages = [3, 17, 40], ("de", "en", "fr", "ja")
    # Meaning is far larger in other dimensions, and one mean is far out, but in all languages.
    size = np.where(np.arange(64) == 8, 20, 1)
    x = {code: size * rng.standard_normal((30, 64)) + 100 * np.eye(64)[50] for code in languages}
    for code, place in zip(languages, 12 * rng.standard_normal((4, 3)), strict=True):
        x[code][:, planted] += place
    assert {*planted} <= {*zeroed(fit_sparse_dimensions(x, 4))}
    assert 50 not in zeroed(fit_sparse_dimensions(x))
    # For two languages, the dimensions in which one is furthest from the other (the paper, parallel sentences).
    two = {code: x[code] for code in ("de", "en")}
    furthest = np.argsort(-np.abs(x["de"].mean(axis=0) - x["en"].mean(axis=0)))[:6]
    assert zeroed(fit_sparse_dimensions(two, 6)) == sorted(furthest.tolist())


@pytest.mark.parametrize(("components", "precise"), [(1, False), (3, True)])
def test_steering_equals_its_twin(x, components, precise):
    transform = fit_steering(x, components, precise=precise)
    together = np.concatenate(list(x.values()))
    for rows in x.values():
        np.testing.assert_allclose(transform(rows), reference.steering(rows, together, components), atol=1e-4)


def test_all_directions_in_which_sentences_vary_can_be_removed(x):
    few = {code: rows[:2] for code, rows in x.items()}
    moved = np.asarray(fit_steering(few, 11)(np.concatenate(list(few.values()))))
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-3)


@pytest.mark.parametrize("precise", [False, True])
def test_mean_direction_equals_its_twin(x, precise):
    transform = fit_mean_direction(x, precise=precise)
    together = np.concatenate(list(x.values())).astype(np.float64)
    mean = together.mean(axis=0) / np.linalg.norm(together.mean(axis=0))
    moved = np.asarray(transform(together), np.float64)
    np.testing.assert_allclose(moved, together - np.outer(together @ mean, mean), atol=1e-4)
    # Sentences count, not languages; what steering removes, the main direction around the mean, stays.
    np.testing.assert_allclose(moved.mean(axis=0), 0, atol=1e-4)
    assert np.linalg.norm(np.asarray(fit_steering(x)(together)).mean(axis=0)) > 1
