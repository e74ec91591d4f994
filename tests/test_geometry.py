"""Measures of the embedding space against float64 numpy, planted structure and hand-worked cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lsar_jax import geometry as geo
from lsar_jax.retrieval.search import nearest_others
from tests.reference import unit


def all_pairs(x, y=None):
    """Contributions from every pair, one by one."""
    u, v = unit(x), unit(x if y is None else y)
    products = u[:, None] * v[None]
    kept = np.ones(products.shape[:2], bool) if y is not None else ~np.eye(len(u), dtype=bool)
    return products[kept].mean(axis=0)


def isoscore_by_steps(x):
    """Rudman et al.'s steps, as the paper lists them, in float64."""
    x = np.asarray(x, np.float64)
    centred = x - x.mean(axis=0)
    axes = np.linalg.svd(centred)[2]
    variances = np.cov((centred @ axes.T).T).diagonal()
    n = len(variances)
    scaled = np.sqrt(n) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(scaled - 1) / np.sqrt(2 * (n - np.sqrt(n)))
    return ((n - defect**2 * (n - np.sqrt(n))) ** 2 - n) / (n * (n - 1))


def skewed(rng, n, dim=12, offset=1.0):
    return (rng.standard_normal((n, dim)) @ rng.standard_normal((dim, dim)) + offset).astype(np.float32)


@pytest.mark.parametrize(("n", "m"), [(1, 2), (2, 1), (2, 2), (3, 5), (5, 3)])
def test_pairs_are_all_the_different_ones_alike(n, m):
    pairs = geo.random_pairs(n, m, count=20_000)
    different = {(i, j) for i in range(n) for j in range(m) if i != j}
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    assert set(map(tuple, found.tolist())) == different
    share = 1 / len(different)
    assert np.abs(counts / 20_000 - share).max() < 5 * np.sqrt(share / 20_000)
    assert (pairs.dtype, pairs.shape) == (np.int32, (20_000, 2))
    with_same = np.unique(geo.random_pairs(n, m, count=20_000, distinct=False), axis=0)
    assert len(with_same) == n * m


@pytest.mark.parametrize("count", [1, 2500])
def test_sampled_contributions_equal_float64(rng, count):
    x, y = skewed(rng, 30), skewed(rng, 41)
    pairs = geo.random_pairs(30, 41, count)
    twin = (unit(x)[pairs[:, 0]] * unit(y)[pairs[:, 1]]).mean(axis=0)
    np.testing.assert_allclose(geo.pair_contributions(x, y, pairs), twin, atol=1e-6)


@pytest.mark.parametrize(("n", "dtype"), [(2, "float64"), (100, "float32"), (100, "bfloat16")])
def test_expectation_equals_every_pair(rng, n, dtype):
    x, y = skewed(rng, n).astype(jnp.dtype(dtype)), jnp.asarray(skewed(rng, 17))
    for given, twin in (((x,), all_pairs(x)), ((x, y), all_pairs(x, y)), ((y, x), all_pairs(y, x))):
        contributions = geo.expected_contributions(*given)
        np.testing.assert_allclose(contributions, twin, atol=1e-6)
        assert contributions.dtype == jnp.float32
        assert geo.expected_anisotropy(*given) == pytest.approx(twin.sum(), abs=2e-6)


def test_many_rows_cost_no_digits(rng):
    x = np.ones((100_000, 2), np.float32)
    np.testing.assert_allclose(geo.expected_contributions(x), 0.5, rtol=1.5e-7)
    isotropic = rng.standard_normal((100_000, 8)).astype(np.float32)
    mean, n = unit(isotropic).mean(axis=0), len(isotropic)
    assert geo.expected_anisotropy(isotropic) == pytest.approx((n * mean @ mean - 1) / (n - 1), abs=1e-9)


def test_vectors_of_zeros_and_of_extreme_length(rng):
    x = np.array([[0, 0], [1e-30, 1e-30], [1e30, -1e30]], np.float32)
    np.testing.assert_allclose(geo.expected_contributions(x), [1 / 6, -1 / 6], atol=1e-7)
    assert geo.expected_anisotropy(np.zeros((3, 4), np.float32)) == 0


def test_by_language_equals_every_pair(rng):
    x = {"deu": skewed(rng, 5), "fr": skewed(rng, 9, offset=-1), "zho": skewed(rng, 2, offset=0)}
    x["fr"][3] = 0  # no direction: cosine 0 to all
    measured = geo.anisotropy_by_language(x)
    within = np.mean([all_pairs(rows).sum() for rows in x.values()])
    across = np.mean([all_pairs(x[a], x[b]).sum() for a in x for b in x if a != b])
    overall = all_pairs(np.concatenate(list(x.values()))).sum()
    np.testing.assert_allclose(measured, (within, across, overall), atol=1e-6)
    backwards = {code: jnp.asarray(x[code]) for code in reversed(x)}
    np.testing.assert_allclose(geo.anisotropy_by_language(backwards), measured, rtol=1e-6)


def test_outliers_compare_the_absolute_value(rng):
    """A low entry is none, although it is far from the mean."""
    shifted = np.full(100, 10.0) + 0.1 * rng.standard_normal(100)
    shifted[7] = 0
    assert abs(shifted[7] - shifted.mean()) > 3 * shifted.std(ddof=1)
    limit = shifted.mean() + 3 * shifted.std(ddof=1)
    np.testing.assert_array_equal(geo.outlier_dimensions(shifted), np.abs(shifted) > limit)


def test_isoscore_of_known_data(rng):
    assert geo.isoscore(rng.standard_normal((50_000, 16))) > 0.995
    line = np.outer(rng.standard_normal(300), rng.standard_normal(16)) + 5
    assert geo.isoscore(line.astype(np.float32)) == pytest.approx(0, abs=1e-6)
    # k of n variances equal, the others zero: the share of the other dimensions in use.
    assert geo.isoscore(np.concatenate([np.eye(3, 5), -np.eye(3, 5)])) == pytest.approx(2 / 4)
    assert geo.isoscore(np.concatenate([np.eye(7), -np.eye(7)]) * 1e-12) == pytest.approx(1)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_isoscore_equals_the_paper_s_steps(rng, offset):
    for n in (5, 40, 3000):
        x = skewed(rng, n, offset=offset)
        assert geo.isoscore(x) == pytest.approx(isoscore_by_steps(x), abs=1e-5)
        assert geo.isoscore(jnp.asarray(x)) == pytest.approx(geo.isoscore(x), abs=1e-6)
        assert geo.isoscore(x * np.float32(1e-3)) == pytest.approx(geo.isoscore(x), abs=1e-5)


def test_hub_measures_equal_scipy_and_hand_counts(rng):
    near, back = rng.integers(0, 40, (60, 5)), rng.integers(0, 60, (40, 5))
    counts = [int((near == c).sum()) for c in range(40)]
    mutual = np.mean([q in back[c] for q, row in enumerate(near) for c in row])
    expected = (scipy.stats.skew(counts), counts.count(0) / 40, max(counts) / 300, mutual)
    np.testing.assert_allclose(geo.hub_measures(near, 40, back), expected)
    assert geo.hub_measures(np.array([[1], [0]]), 2) == (0, 0, 0.5, 1)  # all alike


def test_a_planted_hub_is_found(rng):
    x = rng.normal(size=(300, 30)) + 1
    plain = geo.hub_measures(nearest_others(x, 5)[1], 300)
    x[0] = 1  # the direction that all share
    near = nearest_others(x, 5)[1]
    planted = geo.hub_measures(near, 300)
    assert np.bincount(near.ravel()).argmax() == 0
    assert planted.skewness > 2 * plain.skewness
    assert planted.hub_mass > 1.5 * plain.hub_mass
    assert planted.reciprocal < plain.reciprocal - 0.05
    # The bank is other text of the same kind; local scaling takes away what the hub gains.
    scaled = geo.hub_measures(nearest_others(x, 5, rng.normal(size=(300, 30)) + 1)[1], 300)
    assert scaled.skewness < plain.skewness
    assert scaled.hub_mass < plain.hub_mass
    assert scaled.reciprocal > plain.reciprocal


def test_jit_and_vmap_over_layers(rng):
    layers = jnp.asarray(np.stack([skewed(rng, 20) for _ in range(3)]))
    pairs = jnp.asarray(geo.random_pairs(20, 20, 50))
    for function, given in (
        (geo.expected_contributions, layers),
        (lambda x: geo.expected_contributions(x, layers[0]), layers),
        (lambda x: geo.pair_contributions(x, x, pairs), layers),
    ):
        eager = np.stack([function(x) for x in given])
        np.testing.assert_allclose(jax.jit(jax.vmap(function))(given), eager, atol=1e-6)
        np.testing.assert_allclose(jax.jit(function)(given[0]), eager[0], atol=1e-6)


ONES = np.ones((3, 2), np.float32)
HOLE = np.array([[1, 2], [np.nan, 1], [3, 4]], np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: geo.random_pairs(1, 1), "high <= 0"),
        (lambda: geo.random_pairs(0, 1), "n is 0; it must be a whole number from 1"),
        (lambda: geo.pair_contributions(ONES, ONES, np.array([[0, 3]])), r"reach from \[0 3\] .* x has 3 rows and y 3"),
        (lambda: geo.pair_contributions(ONES, np.ones((3, 4)), np.zeros((1, 2), int)), "differ in width: .*'y': 4"),
        (lambda: geo.expected_contributions(HOLE), "x: 1 of 3 rows holds NaN or infinity, the first is row 1"),
        (lambda: geo.anisotropy_by_language({"de": ONES}), r"1 language is given \(de\)"),
        (lambda: geo.isoscore(np.full((50, 3), 0.1, np.float32)), "x has shape .50, .*rows that differ in float32"),
        (lambda: geo.hub_measures(np.array([[3]]), 3), "near holds 3; it must be from 0 to 2"),
        (lambda: geo.hub_measures(np.array([[2]]), 3), r"back has shape \(1, 1\) .*; expected 3 x any"),
        (lambda: geo.isoscore(np.arange(4.0)[:, None]), r"x has shape \(4, 1\)"),
    ],
)
def test_refusals(unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call()
