"""CBIE: k-means and per-cluster directions against float64 numpy, planted clusters, new points."""

import jax
import numpy as np
import pytest

from lsar_jax.transforms import dominant_directions, fit_cbie, kmeans
from tests import reference


def clusters_of(transform, x, code):
    """The cluster that each row is nearest to, in float64."""
    step, fit = transform.steps[0], transform.fits[0]
    centroids = np.asarray(step.shift, np.float64)[np.asarray(step.clusters) == fit.languages.index(code)]
    nearest = ((np.asarray(x, np.float64)[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
    return [np.flatnonzero(nearest == cluster) for cluster in range(len(centroids))]


@pytest.mark.parametrize(("clusters", "components"), [(1, 12), (3, 4), (2, 28), (None, 1)])
def test_equals_its_twin(x, clusters, components):
    # Of a cluster with fewer sentences than components one direction is left.
    transform = fit_cbie(x, clusters, components)
    for code, part in x.items():
        expected = reference.cluster_enhancement(part, clusters_of(transform, part, code), components)
        np.testing.assert_allclose(transform(part, code), expected, atol=2e-4)


def test_lloyd_ends_where_nothing_moves(rng):
    x = rng.standard_normal((300, 8)).astype(np.float32)
    centroids, chosen = kmeans(x, 300, 5, jax.random.key(0))
    distance = ((x[:, None] - np.asarray(centroids)) ** 2).sum(axis=2)
    np.testing.assert_array_equal(chosen, distance.argmin(axis=1))
    for cluster in range(5):
        np.testing.assert_allclose(centroids[cluster], x[np.asarray(chosen) == cluster].mean(axis=0), atol=1e-5)


def test_planted_clusters_are_found_and_new_points_go_to_them(rng):
    centres = 40 * rng.standard_normal((3, 16)) + 100
    axes = rng.standard_normal((3, 16, 2))

    def sample(n):
        which = rng.integers(0, 3, n)
        noise = np.einsum("ndk,nk->nd", axes[which], 5 * rng.standard_normal((n, 2)))
        return (centres[which] + noise + 0.01 * rng.standard_normal((n, 16))).astype(np.float32)

    # From some starts Lloyd ends elsewhere; from this one it does not.
    transform = fit_cbie({"de": sample(600)}, 3, 2, seed=1)
    unseen = sample(200)
    assert np.abs(np.asarray(transform(unseen, "de"))).max() < 0.1
    assert np.abs(unseen - unseen.mean(axis=0)).max() > 20


def test_the_default_is_a_cluster_for_300_sentences(rng):
    x = {code: rng.standard_normal((n, 8)).astype(np.float32) for code, n in (("de", 299), ("en", 600), ("fr", 1000))}
    assert fit_cbie(x, components=2).steps[0].clusters.tolist() == [0, 1, 1, 2, 2, 2]


def test_the_seed_decides_and_other_languages_do_not(x):
    first, again = fit_cbie(x, 4, 2, seed=3), fit_cbie({"th": x["th"]}, 4, 2, seed=3)
    np.testing.assert_array_equal(first(x["th"], "th"), again(x["th"], "th"))
    other = fit_cbie(x, 4, 2, seed=4)
    assert np.abs(np.asarray(first(x["th"], "th")) - np.asarray(other(x["th"], "th"))).max() > 0.1
    assert first.name == "cbie(components=2, clusters=4, seed=3)"


def test_filler_rows_do_not_matter(rng):
    x = rng.standard_normal((50, 6)).astype(np.float32)
    padded = np.concatenate([x, np.full((14, 6), 1e6, np.float32)])
    centroids, _ = kmeans(padded, 50, 3, jax.random.key(1))
    assert np.abs(np.asarray(centroids)).max() < 10
    for rows in (x, x[:4]):
        mask = np.arange(64) < len(rows)
        full = np.concatenate([rows, np.full((64 - len(rows), 6), 1e6, np.float32)])
        got, expected = dominant_directions(full, mask, 2), np.linalg.svd(rows.astype(np.float64))[2][:2].T
        np.testing.assert_allclose(np.asarray(got) @ np.asarray(got).T, expected @ expected.T, atol=1e-4)


def test_directions_of_either_product_are_the_same_and_pass_under_vmap(rng):
    x = rng.standard_normal((2, 30, 20)).astype(np.float32)
    there = np.ones((2, 30), bool)
    wide = np.concatenate([x, np.zeros((2, 30, 20), np.float32)], axis=2)  # 30 rows of width 40
    directions = jax.vmap(jax.jit(dominant_directions, static_argnums=2), in_axes=(0, 0, None))
    for a, b in zip(*(np.asarray(directions(rows, there, 5)) for rows in (x, wide)), strict=True):
        np.testing.assert_allclose(a @ a.T, (b @ b.T)[:20, :20], atol=1e-4)


def test_sentences_all_alike():
    alike = np.ones((20, 8), np.float32)
    transform = fit_cbie({"de": alike}, 2, 3)
    np.testing.assert_allclose(transform(alike, "de"), 0, atol=1e-6)
    assert np.isfinite(np.asarray(transform(alike + 1, "de"))).all()
