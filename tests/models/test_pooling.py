"""Pooling by hand: padding never counts."""

import jax
import numpy as np
import pytest

from lsar_jax.models.pooling import POOLINGS, pool
from lsar_jax.tokens.tokenizer import Specials

NONE = Specials(0, 0)

HIDDEN = np.array(
    [
        [[1, -1], [3, -5], [7, 7], [50, 90]],
        [[2, 4], [60, 80], [0, 0], [30, 20]],
        [[9, 1], [1, 1], [1, 1], [1, 1]],
    ],
    np.float32,
)
LENGTHS = np.array([[2, 1], [1, 0], [0, 0]], np.int32)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", [[[2, -3], [7, 7]], [[2, 4], [0, 0]], [[0, 0], [0, 0]]]),
        ("mean_no_special", [[[2, -3], [7, 7]], [[2, 4], [0, 0]], [[0, 0], [0, 0]]]),
        ("cls", [[[1, -1], [7, 7]], [[2, 4], [0, 0]], [[0, 0], [0, 0]]]),
        ("max", [[[3, -1], [7, 7]], [[2, 4], [0, 0]], [[0, 0], [0, 0]]]),
        ("last", [[[3, -5], [7, 7]], [[2, 4], [0, 0]], [[0, 0], [0, 0]]]),
        ("last+cls", [[[3, -5, 1, -1], [7, 7, 7, 7]], [[2, 4, 2, 4], [0] * 4], [[0] * 4, [0] * 4]]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_by_hand(name, expected, dtype):
    for function in (pool, jax.jit(pool, static_argnums=(0, 3))):
        pooled = function(name, jax.numpy.asarray(HIDDEN, dtype), LENGTHS, NONE)
        assert pooled.dtype == np.float32
        np.testing.assert_array_equal(pooled, expected)


def test_an_unknown_pooling():
    with pytest.raises(
        ValueError, match="pooling 'average' is not one of mean, mean_no_special, weighted_mean, cls, max, last"
    ):
        pool("average", jax.numpy.asarray(HIDDEN), LENGTHS, NONE)


# One sentence of n tokens [n, dim], of which the first p are a prompt, by the definitions.
BY_HAND = {
    "mean": lambda x, p: x[p:].mean(axis=0),
    "mean_no_special": lambda x, p: x[max(p, 1) : -1].mean(axis=0) if len(x) - 1 > max(p, 1) else 0 * x[0],
    "weighted_mean": lambda x, p: np.average(x[p:], axis=0, weights=np.arange(p + 1, len(x) + 1)),
    "cls": lambda x, p: x[p],
    "max": lambda x, p: x[p:].max(axis=0),
    "last": lambda x, p: x[-1],
}


@pytest.mark.parametrize("prompt", [0, 3])
@pytest.mark.parametrize("name", [*POOLINGS, "mean+cls", "last+weighted_mean+max"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_rows_by_brute_force(name, prompt, dtype, rng):
    lengths = rng.integers(0, 13, (6, 3)).astype(np.int32)
    lengths[0] = 0, 3, 12
    # One large dimension, as real encoders have, does not cost the others their digits.
    hidden = jax.numpy.asarray(rng.standard_normal((6, 40, 5)) + 100 * (np.arange(5) == 3), dtype)
    exact = np.asarray(hidden, np.float64)
    pooled = np.asarray(pool(name, hidden, lengths, Specials(1, 1), prompt))
    for row, column in np.ndindex(*lengths.shape):
        start = lengths[row, :column].sum()
        sentence = exact[row, start : start + lengths[row, column]]
        parts = [BY_HAND[part](sentence, prompt) if len(sentence) > prompt else np.zeros(5) for part in name.split("+")]
        np.testing.assert_allclose(pooled[row, column], np.concatenate(parts), rtol=2e-6, atol=2e-6)


def test_the_weights_of_a_long_sentence_are_exact_in_bfloat16(rng):
    hidden = jax.numpy.asarray(rng.standard_normal((1, 3000, 4)), "bfloat16")
    expected = np.average(np.asarray(hidden, np.float64)[0], axis=0, weights=np.arange(1, 3001))
    pooled = pool("weighted_mean", hidden, np.array([[3000]], np.int32), NONE)
    np.testing.assert_allclose(pooled[0, 0], expected, rtol=1e-5, atol=1e-6)


def test_gradient_reaches_only_real_tokens():
    def total(hidden):
        return pool("mean", hidden, LENGTHS, NONE).sum()

    gradient = jax.grad(total)(jax.numpy.ones((3, 4, 2)))
    np.testing.assert_allclose(gradient[:, :, 0], [[0.5, 0.5, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
