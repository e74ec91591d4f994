"""Streaming, merging and large offsets, against float64 numpy."""

import jax
import numpy as np
import pytest

from lsar_jax import Moments
from lsar_jax.mesh import data_mesh, split
from lsar_jax.moments import moments_by_language, pool_moments


def reference(x):
    x = np.asarray(x, np.float64)
    mean = x.mean(axis=0)
    return mean, (x - mean).T @ (x - mean)


def correlated(rng, n, dim=24):
    return (rng.standard_normal((n, dim)) @ rng.standard_normal((dim, dim)) + 3).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 25, 8192, 20_000])
def test_equals_float64(rng, n):
    x = correlated(rng, n)
    mean, second = reference(x)
    moments = Moments.from_embeddings(x, second_moment=True)
    assert moments.count == n
    np.testing.assert_allclose(moments.mean, mean, rtol=0, atol=2e-6)
    np.testing.assert_allclose(moments.scatter, second, rtol=0, atol=2e-6 * max(1, np.abs(second).max()))
    assert Moments.from_embeddings(x).scatter is None


def test_streaming_and_merging_equal_one_pass(rng):
    x = correlated(rng, 1000)
    whole = Moments.from_embeddings(x, second_moment=True)
    streamed = Moments.from_embeddings(x[:3], second_moment=True)
    for part in np.split(x[3:], [1, 100, 600]):
        grown = streamed.update(part)
        assert grown.count == streamed.count + len(part)
        streamed = grown
    halves = [Moments.from_embeddings(part, second_moment=True) for part in (x[:700], x[700:])]
    for other in (streamed, halves[0].merge(halves[1]), halves[1].merge(halves[0])):
        assert other.count == 1000
        np.testing.assert_allclose(other.mean, whole.mean, atol=1e-6)
        np.testing.assert_allclose(other.scatter, whole.scatter, atol=1e-5 * np.abs(whole.scatter).max())


def test_many_copies_of_real_numbers_with_a_large_offset(rng):
    # Doubled 34 times: 1.7e12 vectors, whose mean and covariance are those of the hundred.
    x = rng.standard_normal((100, 8)) + 1e6
    mean, scatter = reference(x)
    moments = Moments.from_embeddings(x, second_moment=True, precise=True)
    for _ in range(34):
        moments = moments.merge(moments)
    assert moments.count == 100 * 2**34
    np.testing.assert_allclose(moments.mean - 1e6, mean - 1e6, rtol=0, atol=1e-8)
    np.testing.assert_allclose(moments.scatter / 2**34, scatter, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("devices", [1, 3, 4])
def test_a_stream_of_blocks_that_drifts(rng, devices):
    # Blocks of unequal size around unequal means, with an offset of 1,000 standard deviations.
    counts = enumerate((1, 7, 300, 9000, 33, 70_000), 1000)
    blocks = [(rng.standard_normal((n, 6)) + offset).astype(np.float32) for offset, n in counts]
    mean, scatter = reference(np.concatenate(blocks))
    mesh = data_mesh(jax.devices()[:devices])
    whole = jax.device_put(np.concatenate(blocks)[:79_332], split(mesh))
    np.testing.assert_allclose(Moments.from_embeddings(whole).mean, reference(whole)[0], rtol=0, atol=1e-5)
    moments = Moments.from_blocks(iter(blocks), second_moment=True, mesh=mesh)
    assert moments.count == sum(map(len, blocks))
    np.testing.assert_allclose(moments.mean, mean, rtol=0, atol=1e-5)
    np.testing.assert_allclose(moments.scatter, scatter, rtol=0, atol=2e-6 * np.abs(scatter).max())


def test_windows_of_the_device_are_merged_on_the_host(rng, monkeypatch):
    x = correlated(rng, 5000)
    expected = Moments.from_embeddings(x, second_moment=True)
    monkeypatch.setattr("lsar_jax.moments.accumulator._WINDOW", 100)
    moments = Moments.from_blocks(np.split(x, 50), second_moment=True)
    assert moments.count == 5000
    np.testing.assert_allclose(moments.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(moments.scatter, expected.scatter, atol=1e-6 * np.abs(expected.scatter).max())
    bad = x.copy()
    bad[4321, 3] = np.inf
    with pytest.raises(ValueError, match="hold NaN, infinity .*, first in row 4321"):
        Moments.from_blocks(np.split(bad, 50), second_moment=True)


def test_an_outlier_in_the_first_row_costs_nothing(rng):
    x = rng.standard_normal((1000, 4)).astype(np.float32)
    x[0] = 1e5
    mean, _ = reference(x)
    np.testing.assert_allclose(Moments.from_embeddings(x).mean, mean, rtol=1e-6)


def test_bad_streams(rng):
    with pytest.raises(ValueError, match="there are no embeddings"):
        Moments.from_blocks([])
    with pytest.raises(ValueError, match="the blocks differ in width: {.the first.: 24, .another.: 3}"):
        Moments.from_blocks([correlated(rng, 5), correlated(rng, 5, 3)])


def test_pooled_moments(rng):
    x = {"zho": correlated(rng, 50), "deu": correlated(rng, 7) + 9, "en": correlated(rng, 20) - 4}
    pooled = pool_moments(x)
    assert list(pooled) == ["de", "en", "zh"]
    assert (pooled.count, pooled.dim, len(pooled)) == (77, 24, 3)
    np.testing.assert_allclose(pooled.within, sum(reference(part)[1] for part in x.values()), rtol=1e-4, atol=1e-2)
    mean, scatter = reference(np.concatenate(list(x.values())))
    np.testing.assert_allclose(pooled.total().mean, mean, atol=1e-5)
    np.testing.assert_allclose(pooled.total().scatter, scatter, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(pooled.means[0], reference(x["deu"])[0], atol=1e-5)
    assert pool_moments(pooled) is pooled
    with pytest.raises(ValueError, match="1 language is given"):
        pool_moments({"de": x["deu"]}, least=2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_float_dtypes(rng, dtype):
    x = correlated(rng, 50).astype(jax.numpy.dtype(dtype))
    for given in (x, jax.numpy.asarray(x)):
        np.testing.assert_allclose(Moments.from_embeddings(given).mean, reference(x)[0], atol=1e-5)


def test_sums_beyond_float32():
    x = np.tile(np.array([[3e38], [-3e38]], np.float32), (32, 2))
    np.testing.assert_array_equal(Moments.from_embeddings(x).mean, 0)
    with pytest.raises(ValueError, match="too large for float32 sums; use precise=True"):
        Moments.from_embeddings(x, second_moment=True)


def test_what_cannot_be_merged(rng):
    x = correlated(rng, 5)
    with pytest.raises(ValueError, match="the moments differ in width"):
        Moments.from_embeddings(x).merge(Moments.from_embeddings(x[:, :3]))
    with pytest.raises(ValueError, match="use second_moment=True for both"):
        Moments.from_embeddings(x).merge(Moments.from_embeddings(x, second_moment=True))
    with pytest.raises(ValueError, match=r"use Moments.from_embeddings\(x, second_moment=True\)"):
        Moments.from_embeddings(x).second_moment()


X = correlated(np.random.default_rng(0), 6)
MIXED = {"zho": X[:5], "deu": Moments.from_embeddings(X)}


@pytest.mark.parametrize(
    ("x", "second", "message"),
    [
        ({"zho": X}, False, r"1 language is given \(zho\); at least 2 are needed"),
        (MIXED, True, "de: the second moment was not kept"),
        (MIXED | {"zho": X[:, :3]}, False, "differ in width: {'de': 24, 'zh': 3}"),
        (MIXED | {"zho": X[0]}, False, "zh: the shape of embeddings is"),
        ([X], False, "expected a mapping from language to embeddings, not a list"),
    ],
)
def test_by_language(unchecked, x, second, message):
    assert {code: m.count for code, m in moments_by_language(MIXED, least=2).items()} == {"de": 6, "zh": 5}
    with pytest.raises(ValueError, match=message):
        moments_by_language(x, least=2, second_moment=second)
