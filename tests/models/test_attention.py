"""Attention by every means that runs here, against the plain one and a float64 twin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.mesh import data_mesh, split
from lsar_jax.models import attention
from lsar_jax.models.attention import attend


def case(rng, batch=12, length=16, heads=2, dtype="float32"):
    query, key, value = (jnp.asarray(rng.standard_normal((batch, length, heads, 8)), dtype) for _ in range(3))
    return query, key, value, jnp.asarray(rng.integers(1, length + 1, batch), jnp.int32)


def exact(query, key, value, lengths):
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    scores = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1])
    scores = np.where(np.arange(key.shape[1]) < np.asarray(lengths)[:, None, None, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(axis=-1, keepdims=True), value)


@pytest.mark.parametrize(("fit", "steps"), [(12, 1), (11, 2), (5, 3), (1, 12), (0, 12)])
def test_rows_a_few_at_a_time(rng, monkeypatch, fit, steps):
    """Scores of ``fit`` rows are kept: the parts are equal, so 5 of 12 rows make three parts of four."""
    query, key, value, lengths = given = case(rng)
    monkeypatch.setattr(attention, "_SCORES", fit * 4 * 2 * 16**2)
    program = jax.make_jaxpr(lambda *given: attend("rows", *given))(*given)
    lengths_of_loops = [one.params["length"] for one in program.eqns if one.primitive.name == "scan"]
    assert lengths_of_loops == ([steps] if steps > 1 else [])
    np.testing.assert_allclose(attend("rows", *given), exact(*given), rtol=1e-5, atol=1e-6)
    # Rows are not mixed up: without the first row's values, the others are the same.
    other = attend("rows", query, key, value.at[0].set(0), lengths)
    np.testing.assert_array_equal(other[1:], attend("rows", *given)[1:])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_equal_those_of_the_plain_one(rng, monkeypatch, dtype):
    query, key, value, lengths = case(rng, dtype=dtype)
    monkeypatch.setattr(attention, "_SCORES", 4 * 4 * 2 * 16**2)

    def loss(kind, *given):
        return jnp.sum(attend(kind, *given, lengths).astype(jnp.float32) ** 2)

    with jax.numpy_dtype_promotion("standard"):  # as jax's own attention needs in bfloat16
        plain, cut = (jax.grad(loss, (1, 2, 3))(kind, query, key, value) for kind in ("xla", "rows"))
    for one, other in zip(plain, cut, strict=True):
        one, other = (np.asarray(x, np.float32) for x in (one, other))
        assert np.abs(one).max() > 0.1
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5 if dtype == "float32" else 0.05)


def test_no_device_waits_for_another(rng, monkeypatch):
    """Where rows are split over devices, as in training, each has its share of each step."""
    mesh = data_mesh(jax.devices())
    assert mesh.size == 4
    monkeypatch.setattr(attention, "_SCORES", 4 * 4 * 2 * 16**2)
    given = case(rng)
    placed = jax.device_put(given, split(mesh))
    compiled = jax.jit(lambda *given: attend("rows", *given), out_shardings=split(mesh)).lower(*placed).compile()
    text = compiled.as_text()
    assert "while(" in text
    assert not [name for name in ("all-gather", "all-to-all", "all-reduce", "collective-permute") if name in text]
    np.testing.assert_allclose(compiled(*placed), exact(*given), rtol=1e-5, atol=1e-6)
