"""Moments on disk: whole, in part, merged, damaged."""

import numpy as np
import pytest

from lsar_jax import Moments, load_moments, merge_moments, pool_moments, save_moments
from tests.embeddings.made_folder import SPEC


@pytest.fixture
def moments(rng):
    x = {code: rng.standard_normal((n, 6)).astype(np.float32) + n for code, n in (("de", 20), ("en", 5), ("zh", 9))}
    return {code: Moments.from_embeddings(rows, second_moment=True) for code, rows in x.items()}


def assert_equal(a, b):
    assert list(a) == list(b)
    for code in a:
        assert a[code].count == b[code].count
        np.testing.assert_array_equal(a[code].mean, b[code].mean)
        assert (a[code].scatter is None) == (b[code].scatter is None)
        if a[code].scatter is not None:
            np.testing.assert_array_equal(a[code].scatter, b[code].scatter)


def test_round_trip_and_a_choice_of_languages(moments, tmp_path):
    path = tmp_path / "m"
    save_moments(path, moments, source=SPEC)
    loaded, source = load_moments(path)
    assert source == SPEC
    assert_equal(loaded, moments)
    some, _ = load_moments(path, ["zho", "deu"])
    assert_equal(some, {code: moments[code] for code in ("de", "zh")})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m"]
    save_moments(path, {code: Moments(m.count, m.mean) for code, m in moments.items()})
    assert load_moments(path)[0]["de"].scatter is None
    assert load_moments(path)[1] is None


def test_pooled_round_trip(moments, tmp_path):
    pooled = pool_moments(moments)
    save_moments(tmp_path / "m", pooled)
    loaded, _ = load_moments(tmp_path / "m", ["zh", "de", "en"])
    assert_equal(loaded, pooled)
    np.testing.assert_array_equal(loaded.within, pooled.within)
    with pytest.raises(ValueError, match="one second moment for de, en, zh together; .* means_only=True"):
        load_moments(tmp_path / "m", ["zh"])
    some, _ = load_moments(tmp_path / "m", ["zh"], means_only=True)
    assert_equal(some, {"zh": Moments(moments["zh"].count, moments["zh"].mean)})


def test_merging_equals_one_pass(rng):
    x = {code: rng.standard_normal((40, 6)).astype(np.float32) + i for i, code in enumerate(("de", "en", "zh"))}
    whole = {code: Moments.from_embeddings(rows, second_moment=True) for code, rows in x.items()}
    first = {code: Moments.from_embeddings(x[code][:13], second_moment=True) for code in ("de", "en")}
    second = {code: Moments.from_embeddings(x[code][13:], second_moment=True) for code in ("de", "en")}
    third = {"zho": whole["zh"]}
    merged = merge_moments(first, second, third)
    pooled = merge_moments(*map(pool_moments, (first, second, third)))
    for code, m in whole.items():
        assert merged[code].count == pooled[code].count == 40
        np.testing.assert_allclose(merged[code].mean, m.mean, atol=1e-6)
        np.testing.assert_allclose(pooled[code].mean, m.mean, atol=1e-6)
        np.testing.assert_allclose(merged[code].scatter, m.scatter, atol=1e-4)
    np.testing.assert_allclose(pooled.within, pool_moments(whole).within, atol=1e-4)
    with pytest.raises(ValueError, match="pooled moments can be merged only with pooled ones"):
        merge_moments(pool_moments(first), second)
    with pytest.raises(ValueError, match="some languages have a second moment and some have none"):
        merge_moments(first, {"sv": Moments(1, np.ones(6))})
    narrow = pool_moments({"de": Moments(1, np.ones(2), np.eye(2))})
    with pytest.raises(ValueError, match="the moments differ in width"):
        merge_moments(pool_moments(first), narrow)


def test_other_refusals(moments, tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load_moments(tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere to save m in"):
        save_moments(tmp_path / "nowhere" / "m", moments)
    with pytest.raises(ValueError, match="0 languages are given"):
        save_moments(tmp_path / "m", {})
    save_moments(tmp_path / "m", moments)
    with pytest.raises(ValueError, match="language 'fr' is not in .*; known languages are de, en, zh"):
        load_moments(tmp_path / "m", ["fr"])
