"""Pooling by hand: padding never counts."""

import jax
import numpy as np
import pytest

from lsar_jax.models.pooling import POOLINGS, pool
from lsar_jax.tokens.tokenizer import Specials

NONE = Specials(0, 0)


def test_an_unknown_pooling():
    with pytest.raises(ValueError, match="pooling 'average' is not one of mean, mean_no_special, mean_sqrt_len, "):
        pool("average", jax.numpy.ones((3, 4, 2)), np.ones((3, 1), np.int32), NONE)


# One sentence of n tokens [n, dim], of which the first p are a prompt, by the definitions.
BY_HAND = {
    "mean": lambda x, p: x[p:].mean(axis=0),
    "mean_no_special": lambda x, p: x[max(p, 1) : -1].mean(axis=0) if len(x) - 1 > max(p, 1) else 0 * x[0],
    "mean_sqrt_len": lambda x, p: x[p:].sum(axis=0) / np.sqrt(len(x) - p),
    "weighted_mean": lambda x, p: np.average(x[p:], axis=0, weights=np.arange(p + 1, len(x) + 1)),
    "cls": lambda x, p: x[p],
    "max": lambda x, p: x[p:].max(axis=0),
    "last": lambda x, p: x[-1],
}


@pytest.mark.parametrize("prompt", [0, 3])
@pytest.mark.parametrize("name", [*POOLINGS, "mean+cls", "last+weighted_mean+max"])
@pytest.mark.parametrize(
    ("dtype", "specials"), [("float32", Specials(1, 1)), ("bfloat16", Specials(1, 1)), ("float32", NONE)]
)
def test_packed_rows_by_brute_force(name, prompt, dtype, specials, rng):
    by_hand = BY_HAND if any(specials) else BY_HAND | {"mean_no_special": BY_HAND["mean"]}
    lengths = rng.integers(0, 13, (6, 3)).astype(np.int32)
    lengths[0] = 0, 3, 12
    # One large dimension, as real encoders have, does not cost the others their digits.
    hidden = jax.numpy.asarray(rng.standard_normal((6, 40, 5)) + 100 * (np.arange(5) == 3), dtype)
    exact = np.asarray(hidden, np.float64)
    pooled = np.asarray(jax.jit(pool, static_argnums=(0, 3, 4))(name, hidden, lengths, specials, prompt))
    assert pooled.dtype == np.float32
    for row, column in np.ndindex(*lengths.shape):
        start = lengths[row, :column].sum()
        sentence = exact[row, start : start + lengths[row, column]]
        parts = [by_hand[part](sentence, prompt) if len(sentence) > prompt else np.zeros(5) for part in name.split("+")]
        np.testing.assert_allclose(pooled[row, column], np.concatenate(parts), rtol=2e-6, atol=2e-6)


def test_the_weights_of_a_long_sentence_are_exact_in_bfloat16(rng):
    hidden = jax.numpy.asarray(rng.standard_normal((1, 3000, 4)), "bfloat16")
    expected = np.average(np.asarray(hidden, np.float64)[0], axis=0, weights=np.arange(1, 3001))
    pooled = pool("weighted_mean", hidden, np.array([[3000]], np.int32), NONE)
    np.testing.assert_allclose(pooled[0, 0], expected, rtol=1e-5, atol=1e-6)
