"""The alignment losses: against float64 twins by scipy, and by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from lsar_jax.objectives import align
from tests.reference import unit

N, D = 7, 5


@pytest.fixture
def sides(rng):
    return tuple(jnp.asarray(rng.standard_normal((N, D)), jnp.float32) for _ in range(2))


def weak(s, t, temperature):
    scores = unit(s) @ unit(t).T / temperature
    return -np.mean([np.diag(log_softmax(scores, axis=axis)) for axis in (0, 1)])


def strong(s, t, temperature):
    both = unit(np.concatenate([s, t]))
    scores = both @ both.T / temperature
    np.fill_diagonal(scores, -np.inf)
    # Of each row, the other side of its link.
    return -np.mean(np.diag(np.roll(log_softmax(scores, axis=1), len(s), axis=1)))


def l2(s, t, temperature):
    return np.square(np.float64(s) - np.float64(t)).sum(axis=1).mean()


def our_l2(s, t, valid=None, temperature=0.1, axis_name=None):
    return align.l2_loss(s, t, valid, axis_name=axis_name)


LOSSES = {
    "l2": (our_l2, l2),
    "weak": (align.weak_contrastive_loss, weak),
    "strong": (align.strong_contrastive_loss, strong),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_finite_at_zero_and_without_links(name):
    zeros = jnp.zeros((3, D))
    for valid in (None, jnp.zeros(3, bool)):
        value, gradient = jax.jit(jax.value_and_grad(LOSSES[name][0]))(zeros, zeros, valid)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
    assert value == 0


@pytest.mark.parametrize("name", LOSSES)
def test_equals_its_twin(sides, name):
    """Also of states in bfloat16, which are summed in float32."""
    ours, twin = LOSSES[name]
    halves = tuple(side.astype(jnp.bfloat16) for side in sides)
    for given, temperature in ((sides, 0.05), (halves, 0.1)):
        got = jax.jit(partial(ours, temperature=temperature))(*given)
        assert got.dtype == jnp.float32
        expected = twin(*(side.astype(jnp.float32) for side in given), temperature)
        np.testing.assert_allclose(got, expected, rtol=2e-6)


@pytest.mark.parametrize("scores", [2**24, 40], ids=["one block", "blocks"])
@pytest.mark.parametrize("split", [False, True], ids=["here", "over devices"])
@pytest.mark.parametrize("name", LOSSES)
def test_links_over_devices_and_scores_in_blocks_change_neither_loss_nor_gradient(
    sides, monkeypatch, name, split, scores
):
    ours, twin = LOSSES[name]
    valid = jnp.arange(N + 1) < N
    links = (*(jnp.concatenate([side, side[:1]]) for side in sides), valid)
    expected, wanted = jax.jit(jax.value_and_grad(ours, argnums=(0, 1)))(*links)
    np.testing.assert_allclose(expected, twin(*sides, 0.1), rtol=2e-6)
    assert not any(of_side[N:].any() for of_side in wanted)
    monkeypatch.setattr(align, "_SCORES", scores)
    loss = partial(ours)  # a new function, whose program is not known
    if split:
        mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        loss = jax.shard_map(partial(ours, axis_name="data"), mesh=mesh, in_specs=jax.P("data"), out_specs=jax.P())
    value, gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(*links)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for got, right in zip(gradient, wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-6 * np.abs(right).max())


@pytest.mark.parametrize("scores", [2**24, 100], ids=["one block", "blocks"])
@pytest.mark.parametrize("name", ["weak", "strong"])
def test_small_losses_keep_their_digits(rng, monkeypatch, name, scores):
    monkeypatch.setattr(align, "_SCORES", scores)
    ours, twin = LOSSES[name]
    source = jnp.asarray(rng.standard_normal((24, 8)), jnp.float32)
    target = source + 0.01 * jnp.asarray(rng.standard_normal(source.shape), jnp.float32)
    expected = twin(source, target, 0.05)
    assert expected < 0.02
    np.testing.assert_allclose(jax.jit(partial(ours, temperature=0.05))(source, target), expected, rtol=1e-4)
    # Scores of 100 and -100: not a bit above the best.
    side = jnp.concatenate([source[:1], -source[:1]])
    assert 0 <= jax.jit(partial(ours, temperature=0.01))(side, side) < 1e-6


@pytest.mark.parametrize("name", ["weak", "strong"])
def test_scores_over_devices_or_in_blocks_are_not_all_in_memory(monkeypatch, name):
    loss, n = LOSSES[name][0], 2048
    side = jax.ShapeDtypeStruct((n, 4), jnp.float32)
    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))

    def memory(loss):
        return jax.jit(jax.grad(loss)).lower(side, side).compile().memory_analysis().temp_size_in_bytes

    whole = memory(loss)
    assert whole >= 4 * n * n
    own = jax.shard_map(partial(loss, axis_name="data"), mesh=mesh, in_specs=jax.P("data"), out_specs=jax.P())
    assert memory(own) < whole / 2.5
    # One score too many makes two blocks.
    for limit, part in (((4 if name == "strong" else 1) * n * n - 1, 0.55), (n * n // 16, 0.1)):
        monkeypatch.setattr(align, "_SCORES", limit)
        assert memory(partial(loss)) < part * whole


def test_orthogonalize_comes_to_the_nearest_orthogonal_matrix(rng):
    maps = jnp.asarray(np.eye(4) + 0.1 * rng.standard_normal((2, 4, 4)), jnp.float32)
    w = np.asarray(maps[0], np.float64)
    np.testing.assert_allclose(align.orthogonalize(maps)[0], 1.01 * w - 0.01 * w @ w.T @ w, rtol=1e-5, atol=1e-6)
    moved = jax.lax.fori_loop(0, 1000, lambda _, moved: align.orthogonalize(moved, 0.05), maps)
    for start, end in zip(maps, moved, strict=True):
        u, _, vt = np.linalg.svd(start)
        np.testing.assert_allclose(end, u @ vt, atol=1e-5)


def test_drift_of_parameters(rng):
    start = {"a": jnp.asarray(rng.standard_normal((3, 4)), jnp.bfloat16), "b": [jnp.ones(5)]}
    assert align.parameter_drift(start, start) == 0
    gradient = jax.grad(align.parameter_drift)(start, start)
    assert all(not np.asarray(part, np.float32).any() for part in jax.tree.leaves(gradient))
    moved = {"a": start["a"], "b": [start["b"][0].at[0].add(3.0).at[1].add(4.0)]}
    np.testing.assert_allclose(align.parameter_drift(moved, start), 5)


def test_the_projector():
    random = align.init_projector(jax.random.key(0), 16, 4)
    assert np.abs(np.concatenate([part.ravel() for part in random])).max() <= 0.25
    assert np.std(random.inner) == pytest.approx(0.25 / np.sqrt(3), rel=0.1)
    x = jnp.float32([[1.0, -2.0]])
    given = align.Projector(jnp.float32([[1.0, 0.0], [0.0, 1.0]]), jnp.float32([[3.0, 5.0]]))
    np.testing.assert_allclose(align.project(given, x), [[3.0]])
