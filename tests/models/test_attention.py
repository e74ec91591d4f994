"""Attention by every means that runs here, against the plain one and a float64 twin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.mesh import data_mesh, split
from lsar_jax.models import attention
from lsar_jax.models.attention import AttentionMask, attend


def case(rng, batch=12, length=16, heads=2, dtype="float32", **options):
    query, key, value = (jnp.asarray(rng.standard_normal((batch, length, heads, 8)), dtype) for _ in range(3))
    lengths = jnp.asarray(rng.integers(0, length // 3 + 1, (batch, 3)), jnp.int32)
    return query, key, value, AttentionMask.of(lengths, length, **options)


def exact(query, key, value, mask):
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    scores = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1])
    allowed = np.zeros(scores[:, 0].shape, bool)
    for row, lengths in enumerate(np.asarray(mask.lengths)):
        names = np.repeat(np.arange(4), [*lengths, query.shape[1] - lengths.sum()])
        for one, two in np.ndindex(allowed.shape[1:]):
            seen = names[one] == names[two] and (two <= one or not mask.causal)
            allowed[row, one, two] = seen and (mask.window is None or abs(one - two) <= mask.window)
    scores = np.where(allowed[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(axis=-1, keepdims=True), value)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 2}, {"causal": True, "window": 1}])
def test_who_sees_whom(rng, options):
    given = case(rng, **options)
    np.testing.assert_allclose(attend("xla", *given), exact(*given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("fit", "steps"), [(12, 1), (11, 2), (5, 3), (1, 12), (0, 12)])
def test_rows_a_few_at_a_time(rng, monkeypatch, fit, steps):
    """Scores of ``fit`` rows are kept: the parts are equal, so 5 of 12 rows make three parts of four."""
    query, key, value, mask = given = case(rng, causal=True)
    monkeypatch.setattr(attention, "_SCORES", fit * 4 * 2 * 16**2)
    program = jax.make_jaxpr(lambda *given: attend("rows", *given))(*given)
    lengths_of_loops = [one.params["length"] for one in program.eqns if one.primitive.name == "scan"]
    assert lengths_of_loops == ([steps] if steps > 1 else [])
    np.testing.assert_allclose(attend("rows", *given), exact(*given), rtol=1e-5, atol=1e-6)
    # Rows are not mixed up: without the first row's values, the others are the same.
    other = attend("rows", query, key, value.at[0].set(0), mask)
    np.testing.assert_array_equal(other[1:], attend("rows", *given)[1:])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_equal_those_of_the_plain_one(rng, monkeypatch, dtype):
    query, key, value, mask = case(rng, dtype=dtype)
    monkeypatch.setattr(attention, "_SCORES", 4 * 4 * 2 * 16**2)

    def loss(kind, *given):
        return jnp.sum(attend(kind, *given, mask).astype(jnp.float32) ** 2)

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


@pytest.mark.parametrize(("places", "form"), [(1, "key_value_seq_lengths"), (2, "mask")])
def test_what_cudnn_is_given(rng, monkeypatch, places, form):
    """One sentence a row needs no matrix of who sees whom."""
    asked = []
    monkeypatch.setattr(jax.nn, "dot_product_attention", lambda q, k, v, **given: asked.append(given) or q)
    query = jnp.zeros((2, 32, 2, 8), jnp.bfloat16)
    lengths = np.array([[20, 4], [0, 0]], np.int32)[:, :places]
    attend("cudnn", query, query, query, AttentionMask.of(lengths, 32))
    [given] = asked
    assert given["implementation"] == "cudnn"
    assert {"key_value_seq_lengths", "mask"} & set(given) == {form}
    if places == 1:
        assert given["key_value_seq_lengths"].tolist() == [20, 1]
