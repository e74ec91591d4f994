"""Files that release 0.1.0 wrote still load, and do what they did; it wrote ``tests/golden/0.1.0``."""

from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj

OLD = Path(__file__).parent / "golden" / "0.1.0"


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
    if transform.identifier is not None:
        assert transform.identifier(expected["x"]) == ["th"] * len(expected["x"])


def test_a_fit_on_transformed_embeddings(expected, tiny):
    lsar, after = (lj.Transform.load(OLD / f"{name}.safetensors") for name in ("lsar", "after"))
    np.testing.assert_allclose(lsar.then(after)(expected["x"], "th"), expected["after"], atol=1e-6)
    # Two fits of one method on different text are two spaces.
    other = lj.transforms.fit_lsar({"de": expected["x"] + 1, "en": expected["x"]}, source=tiny.spec)
    with pytest.raises(ValueError, match="the transforms are of different embeddings"):
        other.then(after)


def test_moments(expected, tiny):
    moments, source = lj.load_moments(OLD / "moments.safetensors")
    assert source == tiny.spec
    np.testing.assert_allclose(lj.transforms.fit_lir(moments)(expected["x"], "th"), expected["lir"], atol=1e-5)
    pooled, _ = lj.load_moments(OLD / "pooled.safetensors")
    assert isinstance(pooled, lj.PooledMoments)
    np.testing.assert_array_equal(pooled.within, sum(m.scatter for m in moments.values()))
