"""The biaffine parser: scores and loss in float64 loops, and in torch's gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.objectives.parsing import best_arcs, biaffine_scores, init_biaffine, parse_loss

B, N, D, LABELS, ARC, WIDTH = 2, 5, 6, 3, 4, 3


@pytest.fixture
def case(rng):
    """Two sentences of four and two words; the last has a head that was cut off."""
    parameters = init_biaffine(jax.random.key(0), D, LABELS, ARC, WIDTH)
    parameters = jax.tree.map(lambda x: x + jnp.asarray(0.3 * rng.standard_normal(x.shape), x.dtype), parameters)
    states = jnp.asarray(rng.standard_normal((B, N, D)), jnp.float32)
    there = jnp.array([[True] * 5, [True, True, True, False, False]])
    heads = jnp.array([[0, 2, 0, 2, 3], [0, 0, 1, 0, 0]], jnp.int32)
    labels = jnp.asarray(rng.integers(0, LABELS, (B, N)), jnp.int32)
    counted = jnp.array([[False, True, True, True, True], [False, True, False, False, False]])
    return parameters, states, there, heads, labels, counted


@jax.jit
def loss_of(parameters, states, there, heads, labels, counted):
    return parse_loss(parameters, biaffine_scores(parameters, states, there), heads, labels, counted)


def twin(parameters, states, there):
    """Log-probabilities of arcs and of labels, in float64, one word at a time."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), parameters)
    x = np.asarray(states, np.float64)
    arcs, labels = np.full((B, N, N), -np.inf), np.zeros((B, N, N, LABELS))

    def run(layer, x):
        y = x @ layer.kernel + layer.bias
        return np.where(y > 0, y, np.exp(np.minimum(y, 0)) - 1)

    for b in range(B):
        for i in range(N):
            for j in range(N):
                dependent = np.append(run(p.arc_dependent, x[b, i]), 1)
                head = np.append(run(p.arc_head, x[b, j]), 1)
                if there[b, j] and i != j:
                    arcs[b, i, j] = dependent @ p.arc @ head
                label = [run(p.label_head, x[b, j]) @ form @ run(p.label_dependent, x[b, i]) for form in p.label]
                label += p.label_bias
                labels[b, i, j] = label - np.log(np.exp(label).sum())
            arcs[b, i] -= np.log(np.exp(arcs[b, i]).sum())
    return arcs, labels


def test_the_loss_is_its_definition(case):
    parameters, states, there, heads, labels, counted = case
    arcs, of_label = twin(parameters, states, there)
    losses = [
        -arcs[b, i, heads[b, i]] - of_label[b, i, heads[b, i], labels[b, i]]
        for b in range(B) for i in range(N) if counted[b, i]
    ]  # fmt: skip
    loss = loss_of(parameters, states, there, heads, labels, counted)
    np.testing.assert_allclose(loss, np.mean(losses), rtol=2e-6)


def test_the_best_arcs_are_its_definition(case):
    parameters, states, there, *_ = case
    arcs, labels = twin(parameters, states, there)
    scores, best = best_arcs(parameters, biaffine_scores(parameters, states, there))
    real = np.isfinite(arcs)
    np.testing.assert_allclose(np.asarray(scores)[real], (arcs + labels.max(axis=-1))[real], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(best)[real], labels.argmax(axis=-1)[real])
    assert (np.asarray(scores)[~real] < -1e8).all()


def test_what_is_no_word_has_no_part(case):
    parameters, states, there, heads, labels, counted = case
    changed = jnp.where(there[..., None], states, 50.0)
    values = [loss_of(parameters, x, there, heads, labels, counted) for x in (states, changed)]
    np.testing.assert_array_equal(*values)
    none = jnp.zeros_like(counted)
    assert loss_of(parameters, states, there, heads, labels, none) == 0


def test_dropout_is_shared_by_the_words_of_a_sentence(case):
    parameters, states, there, *_ = case
    ones = jnp.ones_like(states)
    scores = biaffine_scores(parameters, ones, there, jax.random.key(1), 0.5)
    for side in (scores.head, scores.dependent):
        np.testing.assert_array_equal(np.asarray(side), np.broadcast_to(np.asarray(side[:, :1]), side.shape))
    same = biaffine_scores(parameters, ones, there, jax.random.key(1), 0.0)
    np.testing.assert_array_equal(same.arcs, biaffine_scores(parameters, ones, there).arcs)
    assert np.abs(np.asarray(same.head - scores.head)).max() > 0
