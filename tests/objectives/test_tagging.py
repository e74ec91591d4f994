"""Tags: cross-entropy by hand, and the conditional random field against all sequences written out."""

from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.objectives.tagging import Transitions, crf_loss, crf_tags, tag_loss

TAGS = 3
LENGTHS = np.array([4, 1, 3, 2], np.int32)


@pytest.fixture
def case(rng):
    scores = rng.standard_normal((4, 4, TAGS)).astype(np.float32)
    transitions = Transitions(*(jnp.asarray(rng.standard_normal(s), jnp.float32) for s in ((TAGS, TAGS), TAGS, TAGS)))
    return jnp.asarray(scores), transitions, jnp.asarray(rng.integers(0, TAGS, (4, 4)), jnp.int32)


def of_sequence(scores, transitions, tags):
    between, first, last = (np.asarray(part, np.float64) for part in transitions)
    total = first[tags[0]] + last[tags[-1]] + sum(scores[at, tag] for at, tag in enumerate(tags))
    return total + sum(between[pair] for pair in pairwise(tags))


def every(scores, transitions, length):
    scores = np.asarray(scores, np.float64)
    return {tags: of_sequence(scores, transitions, tags) for tags in product(range(TAGS), repeat=length)}


def test_the_loss_is_that_of_all_sequences(case):
    scores, transitions, tags = case
    total = 0.0
    for row, length in enumerate(LENGTHS):
        ways = every(scores[row], transitions, length)
        right = ways[tuple(int(tag) for tag in tags[row, :length])]
        total += np.log(sum(np.exp(value) for value in ways.values())) - right
    loss = jax.jit(crf_loss)(scores, transitions, tags, jnp.asarray(LENGTHS))
    np.testing.assert_allclose(loss, total / LENGTHS.sum(), rtol=2e-6)


def test_the_best_sequence_is_found(case):
    scores, transitions, _ = case
    found = np.asarray(jax.jit(crf_tags)(scores, transitions, jnp.asarray(LENGTHS)))
    for row, length in enumerate(LENGTHS):
        ways = every(scores[row], transitions, length)
        assert tuple(found[row, :length].tolist()) == max(ways, key=ways.get)


def test_padding_does_not_count(case):
    scores, transitions, tags = case
    words = np.arange(4) < LENGTHS[:, None]
    changed = np.where(words[:, :, None], scores, np.float32(100)), transitions, np.where(words, tags, np.int32(1))
    crf, cross_entropy = jax.jit(jax.value_and_grad(crf_loss)), jax.jit(tag_loss)
    loss, gradient = crf(scores, transitions, tags, LENGTHS)
    np.testing.assert_array_equal(loss, crf(*changed, LENGTHS)[0])
    np.testing.assert_array_equal(cross_entropy(scores, tags, words), cross_entropy(changed[0], changed[2], words))
    assert not np.asarray(gradient)[~words].any()
    assert np.asarray(gradient)[words].any()
    loss, gradient = crf(scores, transitions, tags, np.zeros(4, np.int32))
    assert loss == 0
    assert np.isfinite(gradient).all()
    assert cross_entropy(scores, tags, np.zeros((4, 4), bool)) == 0
