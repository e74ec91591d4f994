"""Qwen3, and EuroBERT, whose blocks are Qwen3's: mistakes that parity catches, and their configs, older and newer."""

import json
from dataclasses import replace

import jax.numpy as jnp
import pytest

from lsar_jax.models.architectures import EUROBERT, QWEN3
from lsar_jax.models.rotary import Rotary
from tests import parity

CONFIGS = {
    name: json.loads((parity.GOLDEN / name / "config.json").read_text(encoding="utf-8"))
    for name in ("qwen3", "eurobert")
}
READ = {"qwen3": QWEN3.read_config, "eurobert": EUROBERT.read_config}


def other_direction(block):
    parity.set_attention(block, causal=not block.attention.config.causal)


def other_half_activated(block):
    block.feed.gate, block.feed.up = block.feed.up, block.feed.gate


def default_theta(block):
    parity.set_attention(block, rotary=Rotary(10_000.0))


def planes_of_neighbours(block):
    """Turns dimensions 2 i and 2 i + 1 of a head together, as GPT-J does."""
    half = block.attention.width // 2
    for layer in (block.attention.query, block.attention.key):
        kernel = layer.kernel[...].reshape(32, -1, half, 2)
        layer.kernel[...] = kernel.swapaxes(2, 3).reshape(layer.kernel.shape)


def heads_by_turns(block):
    """Gives key head h to the query heads h, h + 2, ... rather than to 2 h and 2 h + 1."""
    for layer, axis in ((block.attention.query, 1), (block.attention.out, 0)):
        kernel = jnp.moveaxis(layer.kernel[...], axis, 0)
        turned = kernel.reshape(2, 2, block.attention.width, 32).swapaxes(0, 1).reshape(kernel.shape)
        layer.kernel[...] = jnp.moveaxis(turned, 0, axis)


def other_epsilon(block):
    block.feed_norm.epsilon = 1e-6


def offset_of_gemma(block):
    block.attention_norm.offset = 1.0


def no_norms_of_heads(block):
    block.attention.query_norm = block.attention.key_norm = None


def swapped_norms_of_heads(block):
    attention = block.attention
    attention.query_norm, attention.key_norm = attention.key_norm, attention.query_norm


def scale_of_the_hidden_state(block):
    """Divides scores by the root of hidden / heads, which is less than the width of a head of Qwen3."""
    parity.set_attention(block, scale=(32 / 4) ** -0.5)


BOTH = [
    other_direction, other_half_activated, default_theta, planes_of_neighbours, heads_by_turns, other_epsilon,
    offset_of_gemma,
]  # fmt: skip
OWN = [no_norms_of_heads, swapped_norms_of_heads, scale_of_the_hidden_state]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        *(("eurobert", mistake) for mistake in BOTH),
        *(("qwen3", mistake) for mistake in [*BOTH, *OWN]),
        ("qwen3-both", other_direction),
    ],
)
def test_parity_fails_for_a_planted_mistake(name, mistake):
    model, case = parity.load(name), parity.golden(name)
    for block in model.blocks:
        mistake(block)
    assert parity.errors(model, case).max() > max(10 * parity.BLOCK, parity.MODEL)


@pytest.mark.parametrize("name", CONFIGS)
def test_both_spellings_of_the_config(name):
    read, config = READ[name], CONFIGS[name]
    now = read(config)
    assert (now.groups, now.rotary, now.epsilon, now.causal) == (2, Rotary(100.0), 1e-3, name == "qwen3")
    before = {key: value for key, value in config.items() if key != "rope_parameters"}
    assert read(before | {"rope_theta": 100.0, "rope_scaling": None}) == now
    linear = {"rope_theta": 100.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert read(before | linear) == replace(now, rotary=Rotary(100.0, 2.0))


def test_which_sizes_may_be_left_out():
    config = {key: value for key, value in CONFIGS["qwen3"].items() if key != "head_dim"}
    assert QWEN3.read_config(config).width == 128
    without = CONFIGS["eurobert"] | {"num_key_value_heads": None, "head_dim": None}
    sizes = EUROBERT.read_config(without)
    assert (sizes.groups, sizes.width) == (4, 8)


@pytest.mark.parametrize("key", ["is_causal", "use_bidirectional_attention"])
def test_attention_to_both_sides(key):
    config = {name: value for name, value in CONFIGS["qwen3"].items() if name != "is_causal"}
    assert QWEN3.read_config(config).causal
    assert not QWEN3.read_config(config | {key: key != "is_causal"}).causal


@pytest.mark.parametrize(
    ("names", "changes", "message"),
    [
        (READ, {"rope_parameters": None}, "rope_theta is None in config.json; it must be a positive number"),
        (READ, {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_type is 'yarn' in config.json"),
        (READ, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling beside rope_parameters"),
        (READ, {"hidden_act": "gelu"}, "hidden_act is 'gelu' in config.json; only 'silu' is supported"),
        (READ, {"attention_bias": True}, "attention_bias is True in config.json; only False is supported"),
        (READ, {"num_attention_heads": 0}, "heads is 0"),
        (READ, {"num_key_value_heads": 3}, "the 4 heads are not divisible by 3 key and value heads"),
        (READ, {"head_dim": 5}, "the width of a head is 5; rotary positions need an even number"),
        (["eurobert"], {"mlp_bias": True}, "mlp_bias is True in config.json; only False is supported"),
        (["qwen3"], {"use_sliding_window": True}, "use_sliding_window is True in config.json; only False"),
        (
            ["qwen3"],
            {"layer_types": ["sliding_attention"] * 3},
            "layer_types has sliding_attention; only full_attention",
        ),
    ],
)
def test_config_that_is_not_understood(names, changes, message):
    for name in names:
        with pytest.raises(ValueError, match=message):
            READ[name](CONFIGS[name] | changes)
