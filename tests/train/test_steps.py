"""Steps of training: against optax by hand, in any chunks, on any devices, with any seeds beside them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsar_jax.mesh import data_mesh
from lsar_jax.objectives.disentangle import (
    Objective,
    TranslationBatch,
    apply_heads,
    discriminator_loss,
    objective_terms,
)
from train.disentangle.steps import PairTable, _batches, epoch_order, init, run
from train.training_task import Steps

D, SIZE = 8, 8
OBJECTIVES = [
    Objective("meat", True),
    Objective("dream", True, "code", "same_language"),
    Objective("dream", True, "code", "all", halves=True),
]


@pytest.fixture
def pairs(rng):
    """Three languages of unequal size, 41 pairs."""
    table = jnp.asarray(rng.standard_normal((60, D)), jnp.float32)
    sides = [(rng.integers(60, size=n), rng.integers(60, size=n)) for n in (23, 7, 11)]
    return PairTable.of(table, sides)


def options(objective, **changes):
    return {"objective": objective, "learning_rate": 1e-2, "mesh": None} | changes


def steps(pairs, seeds, objective, epoch=3, chunks=(4, 1), active=None, **changes):
    """Trains one epoch in chunks; returns the state and the terms."""
    state, keys = init(seeds, D, 4, 1e-2)
    order = epoch_order(keys, epoch, len(pairs.source), SIZE)
    assert order.shape == (len(seeds), 5, SIZE)
    active = jnp.ones(len(seeds), bool) if active is None else jnp.asarray(active)
    first, found = 0, []
    for count in chunks:
        chunk = order[:, first : first + count]
        state, terms = run(state, pairs, Steps(chunk, epoch, first, active), keys, **options(objective, **changes))
        found.append(jax.device_get(terms))
        first += count
    return jax.device_get(state), {name: np.concatenate([t[name] for t in found], axis=1) for name in found[0]}


def assert_close(first, second, tolerance):
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_weights_start_as_torchs():
    state, _ = init((0, 1, 2), 64, 5, 1e-2)
    for leaf in (*jax.tree.leaves(state.heads), *jax.tree.leaves(state.probe)):
        assert np.abs(leaf).max() <= 1 / 8
    assert np.std(state.heads.meaning.matrix) == pytest.approx(1 / 8 / np.sqrt(3), rel=0.03)
    assert state.probe.matrix.shape == (3, 5, 64)
    assert not np.allclose(state.heads.meaning.matrix[0], state.heads.meaning.matrix[1])


def test_an_epoch_takes_every_pair_once(pairs):
    _, keys = init((0, 1), D, 4, 1e-2)
    first, second = (np.asarray(epoch_order(keys, epoch, 41, SIZE)) for epoch in (0, 1))
    assert first.shape == (2, 5, SIZE)
    for order in (*first, *second):
        assert len(set(order.ravel().tolist())) == 40
    assert not np.array_equal(first, second)
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.name)
def test_steps_are_optaxs(pairs, objective):
    after, terms = steps(pairs, (0,), objective)
    state, keys = init((0,), D, 4, 1e-2)
    heads, probe = jax.tree.map(lambda x: x[0], (state.heads, state.probe))
    optimizer = optax.adam(1e-2)
    update = jax.jit(optimizer.update)
    of_heads, of_probe = optimizer.init(heads), optimizer.init(probe)

    @jax.jit
    @jax.value_and_grad
    def of_discriminator(probe, heads, batch):
        return discriminator_loss(batch, apply_heads(heads, batch.source), apply_heads(heads, batch.target), probe)

    @jax.jit
    @partial(jax.value_and_grad, argnums=(0, 1))
    def of_both(heads, probe, batch, others):
        return sum(objective_terms(objective, heads, probe, batch, *others).values())

    for number, rows in enumerate(np.asarray(epoch_order(keys, 3, 41, SIZE))[0]):
        sides = pairs.table[pairs.source[rows]], pairs.table[pairs.target[rows]]
        batch = TranslationBatch(*sides, jnp.zeros(SIZE, jnp.int32), pairs.language[rows])
        if objective.adversarial:
            value, grads = of_discriminator(probe, heads, batch)
            assert terms["discriminator"][0, number] == pytest.approx(float(value), rel=1e-4)
            with jax.numpy_dtype_promotion("standard"):
                updates, of_probe = update(grads, of_probe)
            probe = optax.apply_updates(probe, updates)

        draw = jax.random.fold_in(jax.random.fold_in(keys[0], 3), number)
        _, others = _batches(pairs, jnp.asarray(rows), draw, objective, None)

        value, (grads, of_classifier) = of_both(heads, probe, batch, others)
        summed = sum(terms[name][0, number] for name in objective.terms)
        assert summed == pytest.approx(float(value), rel=1e-4)
        with jax.numpy_dtype_promotion("standard"):
            updates, of_heads = update(grads, of_heads)
        heads = optax.apply_updates(heads, updates)
        if objective.base == "dream":
            with jax.numpy_dtype_promotion("standard"):
                updates, of_probe = update(of_classifier, of_probe)
            probe = optax.apply_updates(probe, updates)
    assert_close(jax.tree.map(lambda x: x[0], (after.heads, after.probe)), (heads, probe), 1e-4)


def test_seeds_side_by_side_are_seeds_alone(pairs):
    objective = OBJECTIVES[1]
    together, terms = steps(pairs, (5, 7), objective, chunks=(5,))
    for number, seed in enumerate((5, 7)):
        alone, own = steps(pairs, (seed,), objective, chunks=(5,))
        assert_close(jax.tree.map(lambda x, n=number: x[n : n + 1], together), alone, 1e-5)
        assert_close({name: value[number : number + 1] for name, value in terms.items()}, own, 1e-5)


def test_devices_change_nothing(pairs):
    objective = OBJECTIVES[1]
    alone, shared = (steps(pairs, (0, 1), objective, chunks=(5,), mesh=data_mesh(jax.devices()[:n])) for n in (1, 4))
    assert_close(alone, shared, 1e-5)
    state, keys = init((0, 1), D, 4, 1e-2)
    order = epoch_order(keys, 0, 41, SIZE)
    four = options(objective, mesh=data_mesh(jax.devices()[:4]))
    made = run.lower(state, pairs, Steps(order, 0, 0, jnp.ones(2, bool)), keys, **four)
    # Each has two of the eight rows, and gradients are summed.
    assert "all-reduce" in (text := made.compile().as_text())
    assert f"f32[2,2,{D}]" in text


def test_a_seed_that_has_stopped_stays(pairs):
    before, _ = init((0, 1), D, 4, 1e-2)
    before = jax.device_get(before)
    after, _ = steps(pairs, (0, 1), OBJECTIVES[0], active=[False, True])
    alone, _ = steps(pairs, (1,), OBJECTIVES[0])
    stopped, going = (jax.tree.map(lambda x, n=n: x[n], after) for n in (0, 1))
    for a, b in zip(jax.tree.leaves(stopped), jax.tree.leaves(jax.tree.map(lambda x: x[0], before)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert_close(going, jax.tree.map(lambda x: x[0], alone), 1e-5)


def test_dreams_partners(pairs):
    rows = jnp.arange(41, dtype=jnp.int32)
    # What stands in the embeddings tells which pair they are of.
    table = jnp.tile(jnp.arange(82, dtype=jnp.float32)[:, None], (1, D))
    marked = pairs._replace(table=table, source=rows, target=rows + 41)
    anywhere = set()
    draw = jax.jit(_batches, static_argnums=(3, 4))
    for number in range(50):
        batch, (others, same) = draw(marked, rows, jax.random.key(number), OBJECTIVES[1], None)
        np.testing.assert_array_equal(same.target_language, batch.target_language)
        np.testing.assert_array_equal(same.source[:, 0] + 41, same.target[:, 0])
        assert (same.source[:, 0] != batch.source[:, 0]).all()
        anywhere |= set(zip(batch.target_language.tolist(), others.target_language.tolist(), strict=True))
    assert anywhere == {(i, j) for i in (1, 2, 3) for j in (1, 2, 3)}
