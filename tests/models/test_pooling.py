"""Pooling by hand: padding never counts."""

import jax
import numpy as np
import pytest

from lsar_jax.models.pooling import POOLINGS, pool
from lsar_jax.tokens.tokenizer import Specials

NONE = Specials(0, 0)

HIDDEN = np.array(
    [
        [[1.0, -1.0], [3.0, -5.0], [np.nan, np.inf]],
        [[2.0, 4.0], [np.inf, np.nan], [0.0, 0.0]],
        [[np.nan, 1.0], [1.0, 1.0], [1.0, 1.0]],
    ],
    np.float32,
)
LENGTHS = np.array([2, 1, 0], np.int32)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", [[2, -3], [2, 4], [0, 0]]),
        ("mean_no_special", [[2, -3], [2, 4], [0, 0]]),
        ("cls", [[1, -1], [2, 4], [0, 0]]),
        ("max", [[3, -1], [2, 4], [0, 0]]),
    ],
)
def test_by_hand(name, expected):
    for function in (pool, jax.jit(pool, static_argnums=(0, 3))):
        np.testing.assert_array_equal(function(name, jax.numpy.asarray(HIDDEN), LENGTHS, NONE), expected)


@pytest.mark.parametrize(
    ("specials", "expected"),
    [
        ((1, 1), [[3, 5], [0, 0], [0, 0]]),
        ((0, 1), [[2, 3], [1, 1], [0, 0]]),
        ((1, 0), [[6, 7], [2, 2], [0, 0]]),
    ],
)
def test_the_mean_without_special_tokens(specials, expected):
    hidden = np.array(
        [[[1, 1], [3, 5], [9, 9], [np.nan, 0]], [[1, 1], [2, 2], [0, np.inf], [0, 0]], np.ones((4, 2))], np.float32
    )
    pooled = pool("mean_no_special", jax.numpy.asarray(hidden), np.array([3, 2, 1], np.int32), Specials(*specials))
    # A row that is all special tokens has no text: the zero vector, unless one of them counts.
    np.testing.assert_array_equal(pooled, expected)


@pytest.mark.parametrize("name", POOLINGS)
def test_pools_in_float32(name):
    pooled = pool(name, jax.numpy.ones((1, 1000, 2), "bfloat16"), np.array([1000], np.int32), NONE)
    assert pooled.dtype == np.float32
    np.testing.assert_array_equal(pooled, 1)


def test_gradient_reaches_only_real_tokens():
    def total(hidden):
        return pool("mean", hidden, LENGTHS, NONE).sum()

    gradient = jax.grad(total)(jax.numpy.ones((3, 3, 2)))
    np.testing.assert_allclose(gradient[:, :, 0], [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 0]])
