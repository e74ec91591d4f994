"""CSLS against a float64 twin, planted languages, and the sample that a transform keeps for its bank."""

import jax
import numpy as np
import pytest

from lsar_jax import Transform
from lsar_jax.__main__ import main
from lsar_jax.mesh import data_mesh, replicated
from lsar_jax.moments import Moments
from lsar_jax.retrieval import local_scale, nearest
from lsar_jax.transforms import fit_center, fit_lsar, fit_shift
from lsar_jax.transforms.base.sample import SAMPLE, StreamSample


def unit(x):
    x = np.asarray(x, np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def csls(queries, candidates, bank, k):
    """Ranks by ``2 s - r(c)``, r(c) being the mean of the 10 largest, and subtracts the mean s of the first 10."""
    s = unit(queries) @ unit(candidates).T
    scale = np.sort(unit(candidates) @ unit(bank).T)[:, -10:].mean(axis=1)
    order = np.argsort(-(2 * s - scale), axis=1, kind="stable")
    near = np.take_along_axis(s, order[:, :10], axis=1).mean(axis=1, keepdims=True)
    return np.take_along_axis(2 * s - scale - near, order[:, :k], axis=1), order[:, :k]


@pytest.mark.parametrize("k", [1, 12])
@pytest.mark.parametrize("options", [{}, {"precision": "bfloat16"}, {"mesh": 4}])
def test_equals_the_twin_whatever_the_precision_and_devices(rng, k, options):
    queries, candidates, bank = (rng.standard_normal((n, 24)) + 0.5 for n in (30, 90, 50))
    if "mesh" in options:
        options = {"mesh": data_mesh(jax.devices()[:4])}
        queries = jax.device_put(queries.astype(np.float32), replicated(options["mesh"]))
    scores, ids = nearest(queries, candidates, k, bank=bank, **options)
    expected, rows = csls(queries, candidates, bank, k)
    np.testing.assert_array_equal(ids, rows)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_the_coordinate_ranks_as_csls_does_in_any_index_of_inner_products(rng):
    queries, candidates, bank = (rng.standard_normal((n, 16)) for n in (20, 60, 40))
    scale = np.asarray(local_scale(candidates, bank))
    index = np.column_stack([unit(candidates), -scale / 2])
    asked = np.column_stack([unit(queries), np.ones(len(queries))])
    expected = np.argsort(-(asked @ index.T), axis=1)[:, :5]
    np.testing.assert_array_equal(expected, nearest(queries, candidates, 5, bank=bank)[1])


def test_shifts_of_scores_by_language_are_removed(rng):
    """Every other query is in the candidates' language, so its cosines to all of them, right or wrong, are larger."""
    meaning = rng.standard_normal((400, 64))
    close = np.arange(400) % 2 == 1
    queries = meaning + 0.3 * rng.standard_normal((400, 64)) + close[:, None]
    for bank, separated in ((None, False), (queries, True)):
        scores, ids = map(np.asarray, nearest(queries, meaning + 1, 2, bank=bank))
        np.testing.assert_array_equal(ids[:, 0], np.arange(400))
        above = scores[~close, 0] > np.quantile(scores[close, 1], 0.95)
        assert above.mean() > 0.95 if separated else above.mean() < 0.5


def test_a_bank_that_does_not_fit(rng, unchecked):
    for options, error in (
        ({"bank": np.ones((9, 4))}, "k is 10; it must be a whole number from 1 to 9"),
        ({"bank": np.ones((20, 3))}, "differ in width: .*bank"),
        ({"bank": np.ones((20, 4)), "metric": "dot"}, "omit one"),
    ):
        with pytest.raises(ValueError, match=error):
            nearest(rng.standard_normal((3, 4)), rng.standard_normal((30, 4)), **options)


def languages(rng, count=3, rows=5000):
    return {code: rng.standard_normal((rows, 6)) + i for i, code in zip(range(count), ("de", "en", "fr"), strict=False)}


def test_a_transform_keeps_a_sample_and_its_bank_is_transformed(rng, tmp_path):
    x = languages(rng)
    chain = fit_center(x).then(fit_lsar(x))
    rows = np.arange(SAMPLE // 3) * 5000 // (SAMPLE // 3)
    expected = np.concatenate([np.asarray(chain(x[code][rows], code)) for code in x])
    np.testing.assert_allclose(chain.bank, expected, atol=1e-6)
    chain.save(tmp_path / "chain.safetensors")
    loaded = Transform.load(tmp_path / "chain.safetensors")
    np.testing.assert_array_equal(loaded.bank, chain.bank)
    assert loaded.digests == chain.digests


def test_a_fit_on_moments_has_no_bank_until_it_is_given_rows(rng):
    x = languages(rng, rows=20)
    lsar = fit_lsar({code: Moments.from_embeddings(rows) for code, rows in x.items()})
    with pytest.raises(ValueError, match="call with_sample"):
        _ = lsar.bank
    np.testing.assert_array_equal(lsar.with_sample(x).bank, fit_lsar(x).bank)


def test_pairs_give_rows_of_both_sides(rng):
    english, german = rng.standard_normal((2, 10, 4))
    np.testing.assert_allclose(fit_shift({"de": (german, english)}).sample["en"], english, atol=1e-6)


@pytest.mark.parametrize("count", [3, 8, 9, 1000])
def test_a_stream_is_sampled_evenly(count):
    sample = StreamSample(8)
    assert list(sample.watch(range(count))) == list(range(count))
    steps = set(np.diff(sample.items))
    assert len(steps) == 1
    assert min(count, 4) <= len(sample.items) <= 8
    assert sample.items[-1] + steps.pop() >= count


def test_apply_appends_the_coordinate(rng, tmp_path):
    x = languages(rng, rows=60)
    lsar = fit_lsar(x)
    lsar.save(tmp_path / "lsar.safetensors")
    np.save(tmp_path / "x.npy", x["de"])
    files = [str(tmp_path / name) for name in ("lsar.safetensors", "x.npy", "scaled.npy")]
    assert main(["apply", *files, "--scale"]) == 0
    y = np.asarray(lsar(x["de"]))
    expected = np.column_stack([unit(y), -np.asarray(local_scale(y, lsar.bank)) / 2])
    np.testing.assert_allclose(np.load(files[2]), expected, atol=1e-6)
