"""Parity of every hidden state with torch's BertModel, and proof that the parity test can fail."""

import importlib.util
import os
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lsar_jax.encoders.checkpoint import fill_transformer, read_folder
from lsar_jax.encoders.transformer import Transformer, TransformerConfig

TOLERANCE = 1e-5


def load(folder, dtype="float32"):
    checkpoint = read_folder(folder, id="tiny")
    return fill_transformer(checkpoint, blocks=checkpoint.config.blocks, dtype=jnp.dtype(dtype))


@jax.jit
def all_states(model, ids, lengths):
    return jnp.stack(list(model.hidden_states(ids, lengths)))


def error(model, ids, lengths, expected, seen=None):
    """Largest error at real tokens, relative to max|h| of the layer; the worst layer."""
    got = np.asarray(all_states(model, ids, lengths if seen is None else seen), np.float64)
    real = np.arange(ids.shape[1]) < lengths[:, None]
    difference = np.abs(got - expected)[:, real]
    return (difference.max(axis=(1, 2)) / np.abs(expected[:, real]).max(axis=(1, 2))).max()


@pytest.fixture(scope="module")
def golden(tiny_folder):
    with np.load(tiny_folder / "golden.npz") as file:
        return dict(file)


def test_hidden_states_equal_torch_golden(tiny_folder, golden):
    assert error(load(tiny_folder), golden["ids"], golden["lengths"], golden["hidden"]) <= TOLERANCE


def test_bfloat16_is_near(tiny_folder, golden):
    assert error(load(tiny_folder, "bfloat16"), golden["ids"], golden["lengths"], golden["hidden"]) <= 0.05


def tanh_gelu(model, seen):
    for block in model.blocks:
        block.activation = "gelu_new"
    return model, seen


def wrong_epsilon(model, seen):
    for block in model.blocks:
        block.norm.epsilon = 1e-12
    return model, seen


def positions_off_by_one(model, seen):
    table = model.embeddings.position.embedding
    table[...] = jnp.roll(table[...], -1, axis=0)
    return model, seen


def unmasked_pad(model, seen):
    return model, np.full_like(seen, seen.max())


def dropped_token_type(model, seen):
    table = model.embeddings.token_type.embedding
    table[...] = jnp.zeros_like(table[...])
    return model, seen


@pytest.mark.parametrize("mistake", [tanh_gelu, wrong_epsilon, positions_off_by_one, unmasked_pad, dropped_token_type])
def test_parity_fails_for_a_planted_mistake(tiny_folder, golden, mistake):
    model, seen = mistake(load(tiny_folder), golden["lengths"])
    assert error(model, golden["ids"], golden["lengths"], golden["hidden"], seen) > 10 * TOLERANCE


def test_hidden_states_equal_live_torch(tiny_folder, rng):
    if importlib.util.find_spec("torch") is None:
        if os.environ.get("LSAR_JAX_REQUIRE_TORCH"):
            pytest.fail("LSAR_JAX_REQUIRE_TORCH is set, and torch is not installed")
        pytest.skip("torch is not installed")
    from transformers import BertModel

    from tests.make_golden import hidden_states

    reference = BertModel.from_pretrained(tiny_folder, attn_implementation="eager").eval()
    ids = rng.integers(5, 64, (9, 40)).astype(np.int32)
    lengths = np.array([40, 1, 2, 39, 17, 5, 23, 40, 8], np.int32)
    expected = hidden_states(reference, ids, lengths)
    assert error(load(tiny_folder), ids, lengths, expected) <= TOLERANCE


def test_what_stands_in_padding_is_not_read(tiny_folder, golden):
    model, ids, lengths = load(tiny_folder), golden["ids"], golden["lengths"]
    other = np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, 63 - ids)
    real = np.arange(ids.shape[1]) < lengths[:, None]
    first, second = (np.asarray(all_states(model, x, lengths))[:, real] for x in (ids, other))
    np.testing.assert_array_equal(first, second)


def test_a_row_without_tokens_is_finite(tiny_folder, golden):
    states = all_states(load(tiny_folder), golden["ids"], np.zeros_like(golden["lengths"]))
    assert np.isfinite(states).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "hidden size 32 is not divisible by 5 heads"),
        ({"activation": "swish"}, "'swish' is not one of"),
        ({"vocabulary": 0}, "vocabulary is 0"),
        ({"blocks": -1}, "blocks is -1"),
    ],
)
def test_config_refuses(change, message):
    config = TransformerConfig(64, 32, 3, 4, 64, 40, 2)
    with pytest.raises(ValueError, match=message):
        replace(config, **change)


def test_model_is_a_plain_pytree():
    config = TransformerConfig(64, 32, 1, 4, 64, 40, 2)
    model = Transformer(config, dtype=jnp.dtype("float32"), rngs=nnx.Rngs(0))
    doubled = jax.tree.map(lambda leaf: 2 * leaf, model)
    np.testing.assert_array_equal(
        doubled.blocks[0].query.kernel[...], 2 * np.asarray(model.blocks[0].query.kernel[...])
    )
