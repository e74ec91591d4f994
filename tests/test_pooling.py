"""Pooling by hand: padding never counts."""

import jax
import numpy as np
import pytest

from lsar_jax.pooling import POOLINGS

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
        ("cls", [[1, -1], [2, 4], [0, 0]]),
        ("max", [[3, -1], [2, 4], [0, 0]]),
    ],
)
def test_by_hand(name, expected):
    for pool in (POOLINGS[name], jax.jit(POOLINGS[name])):
        np.testing.assert_array_equal(pool(jax.numpy.asarray(HIDDEN), LENGTHS), expected)


@pytest.mark.parametrize("name", POOLINGS)
def test_pools_in_float32(name):
    pooled = POOLINGS[name](jax.numpy.ones((1, 1000, 2), "bfloat16"), np.array([1000], np.int32))
    assert pooled.dtype == np.float32
    np.testing.assert_array_equal(pooled, 1)


def test_gradient_reaches_only_real_tokens():
    def total(hidden):
        return POOLINGS["mean"](hidden, LENGTHS).sum()

    gradient = jax.grad(total)(jax.numpy.ones((3, 3, 2)))
    np.testing.assert_allclose(gradient[:, :, 0], [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 0]])
