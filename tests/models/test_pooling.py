"""Pooling by hand: padding never counts."""

import jax
import numpy as np
import pytest

from lsar_jax.models.pooling import _sum, _sum_by_window, pool, token_mask
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


def test_an_unknown_pooling():
    with pytest.raises(ValueError, match="pooling 'average' is not one of mean, mean_no_special, cls, max"):
        pool("average", jax.numpy.asarray(HIDDEN), LENGTHS, NONE)


@pytest.mark.parametrize(
    ("specials", "expected"),
    [((1, 1), [[3, 5], [0, 0], [0, 0]]), ((0, 1), [[2, 3], [1, 1], [0, 0]]), ((1, 0), [[6, 7], [2, 2], [0, 0]])],
)
def test_the_mean_without_special_tokens(specials, expected):
    hidden = np.array(
        [[[1, 1], [3, 5], [9, 9], [np.nan, 0]], [[1, 1], [2, 2], [0, np.inf], [0, 0]], np.ones((4, 2))], np.float32
    )
    pooled = pool("mean_no_special", jax.numpy.asarray(hidden), np.array([3, 2, 1], np.int32), Specials(*specials))
    # A row that is all special tokens has no text: the zero vector, unless one of them counts.
    np.testing.assert_array_equal(pooled, expected)


def test_gradient_reaches_only_real_tokens():
    def total(hidden):
        return pool("mean", hidden, LENGTHS, NONE).sum()

    gradient = jax.grad(total)(jax.numpy.ones((3, 3, 2)))
    np.testing.assert_allclose(gradient[:, :, 0], [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_sum_for_gpus_is_that_of_other_devices(rng, dtype):
    lengths = np.array([0, 1, 5, 7], np.int32)
    hidden = jax.numpy.asarray(rng.standard_normal((4, 7, 3)), dtype)
    mask = token_mask(lengths, 7)
    hidden = jax.numpy.where(mask[:, :, None], hidden, np.nan)
    weights = jax.numpy.asarray(rng.standard_normal((4, 3)), "float32")
    found, expected = (jax.vjp(lambda x, form=form: form(x, mask), hidden) for form in (_sum_by_window, _sum))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    np.testing.assert_array_equal(found[1](weights)[0], expected[1](weights)[0])
    assert found[0].dtype == np.float32
    assert found[1](weights)[0].dtype == hidden.dtype
