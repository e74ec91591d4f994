"""EuroBERT: mistakes that parity catches, and its config as written before and since version 5 of transformers."""

import json
from dataclasses import replace

import jax.numpy as jnp
import pytest

from lsar_jax.models.architectures import EUROBERT
from lsar_jax.models.rotary import Rotary
from tests import parity

CONFIG = json.loads((parity.GOLDEN / "eurobert" / "config.json").read_text(encoding="utf-8"))


def causal(block):
    block.attention.causal = True


def other_half_activated(block):
    block.feed.gate, block.feed.up = block.feed.up, block.feed.gate


def default_theta(block):
    block.attention.rotary = Rotary(10_000.0)


def positions_of_pairs(block):
    """Turns dimensions 2 i and 2 i + 1 together, as GPT-J does, rather than i and i + 4."""
    for layer in (block.attention.query, block.attention.key):
        kernel = layer.kernel[...].reshape(32, -1, 4, 2)
        layer.kernel[...] = kernel.swapaxes(2, 3).reshape(32, -1)


def heads_by_turns(block):
    """Gives key head h to the query heads h, h + 2, ... rather than to 2 h and 2 h + 1."""
    for layer, axis in ((block.attention.query, 1), (block.attention.out, 0)):
        kernel = jnp.moveaxis(layer.kernel[...], axis, 0).reshape(2, 2, 8, 32).swapaxes(0, 1).reshape(32, 32)
        layer.kernel[...] = jnp.moveaxis(kernel, 0, axis)


def epsilon_of_qwen3(block):
    block.feed_norm.epsilon = 1e-6


def offset_of_gemma(block):
    block.attention_norm.offset = 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        causal, other_half_activated, default_theta, positions_of_pairs, heads_by_turns, epsilon_of_qwen3,
        offset_of_gemma,
    ],
)  # fmt: skip
def test_parity_fails_for_a_planted_mistake(mistake):
    model, case = parity.load("eurobert"), parity.golden("eurobert")
    for block in model.blocks:
        mistake(block)
    assert parity.errors(model, case).max() > max(10 * parity.BLOCK, parity.MODEL)


def test_both_spellings_of_the_config():
    now = EUROBERT.read_config(CONFIG)
    assert (now.groups, now.width, now.rotary, now.epsilon, now.causal) == (2, 8, Rotary(100.0), 1e-3, False)
    before = {name: value for name, value in CONFIG.items() if name not in ("rope_parameters", "head_dim")}
    assert EUROBERT.read_config(before | {"rope_theta": 100.0, "rope_scaling": None}) == now
    without = {**CONFIG, "num_key_value_heads": None, "head_dim": None}
    assert EUROBERT.read_config(without) == replace(now, groups=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_parameters": None}, "rope_theta is None in config.json; it must be a positive number"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_type is 'yarn' in config.json; only"),
        ({"mlp_bias": True}, "mlp_bias is True in config.json; only False is supported"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu' in config.json; only 'silu' is supported"),
        ({"num_attention_heads": 0}, "heads is 0"),
        ({"num_key_value_heads": 3}, "the 4 heads are not divisible by 3 key and value heads"),
    ],
)
def test_config_that_is_not_understood(changes, message):
    with pytest.raises(ValueError, match=message):
        EUROBERT.read_config({**CONFIG, **changes})
