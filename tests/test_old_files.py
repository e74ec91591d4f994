"""Files that the first versions wrote still load, and do what they did; ``tests/golden/old`` was written by them."""

from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj

OLD = Path(__file__).parent / "golden" / "old"


@pytest.fixture(scope="module")
def expected():
    with np.load(OLD / "expected.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", ["lsar", "center", "cbie"])
def test_a_transform(expected, name, tiny):
    transform = lj.Transform.load(OLD / f"{name}.safetensors")
    np.testing.assert_allclose(transform(expected["x"], "th"), expected[name], atol=1e-6)
    # The encoder that they were fitted on is recognised.
    assert tiny.with_transform(transform).transform is transform
    assert (transform.identifier is None) == (name != "center")


def test_moments(expected, tiny):
    moments, source = lj.load_moments(OLD / "moments.safetensors")
    assert source == tiny.spec
    np.testing.assert_allclose(lj.transforms.fit_lir(moments)(expected["x"], "th"), expected["lir"], atol=1e-5)
    pooled, _ = lj.load_moments(OLD / "pooled.safetensors")
    assert isinstance(pooled, lj.PooledMoments)
    np.testing.assert_array_equal(pooled.within, sum(m.scatter for m in moments.values()))


def test_a_fit_on_transformed_embeddings_must_be_made_again(tiny):
    lsar = lj.Transform.load(OLD / "lsar.safetensors")
    after = lj.Transform.load(OLD / "after.safetensors")
    with pytest.raises(ValueError, match="does not record which fit .* came before it; fit it again"):
        tiny.with_transform(lsar).with_transform(after)
    with pytest.raises(ValueError, match="does not record which fit .* came before it; fit it again"):
        lsar.then(after)
    # Two fits of one method on different text are two spaces.
    x = {code: tiny.encode(text) for code, text in lj.corpora.udhr("test", ["de", "en", "th"]).items()}
    other = tiny.with_transform(lj.transforms.fit_lsar(x, source=tiny.spec))
    assert other.spec.transform == tiny.with_transform(lsar).spec.transform
    assert not other.spec.same_space(tiny.with_transform(lsar).spec)
    y = {code: other.encode(text) for code, text in lj.corpora.udhr("test", ["de", "en", "th"]).items()}
    center = lj.transforms.fit_center(y, source=other.spec)
    assert other.with_transform(center).spec.transform == "lsar(rank=2) then center()"
    with pytest.raises(ValueError, match="the transform was fitted on other embeddings than those of this encoder"):
        tiny.with_transform(lsar).with_transform(center)
