"""ModernBERT: what its config may say, and proof that its parity tests can fail."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lsar_jax.models.architectures import MODERNBERT
from tests import parity
from tests.optional import need

CONFIG = json.loads((parity.GOLDEN / "modernbert" / "config.json").read_text())


def other_half_activated(model, case):
    for block in model.blocks:
        block.feed.fused = "up_gate"


def wider_window(model, case):
    parity.set_attention(model.blocks[1], window=model.blocks[1].attention.config.window + 1)


def narrower_window(model, case):
    parity.set_attention(model.blocks[2], window=model.blocks[2].attention.config.window - 1)


def window_before_alone(model, case):
    parity.set_attention(model.blocks[1], causal=True)


def no_window(model, case):
    for block in model.blocks:
        parity.set_attention(block, window=None)


def one_base(model, case):
    for block in model.blocks:
        parity.set_attention(block, rotary=model.config.full)


def bases_exchanged(model, case):
    for block in model.blocks:
        full = block.attention.config.window is None
        parity.set_attention(block, rotary=model.config.sliding if full else model.config.full)


def norm_in_the_first_block(model, case):
    model.blocks[0].attention_norm = nnx.data(model.blocks[1].attention_norm)


def no_final_norm(model, case):
    model.norm = None


def no_embedding_norm(model, case):
    model.embeddings.norm = None


def tanh_gelu(model, case):
    for block in model.blocks:
        block.feed.activation = "gelu_new"


def wrong_epsilon(model, case):
    for block in model.blocks:
        block.feed_norm.epsilon = 1e-5


def keys_and_values_exchanged(model, case):
    for block in model.blocks:
        query, key, value = jnp.split(block.attention.inputs.kernel[...], 3, axis=1)
        block.attention.inputs.kernel[...] = jnp.concatenate([query, value, key], axis=1)


def unmasked_padding(model, case):
    return np.full_like(case["lengths"], case["ids"].shape[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        other_half_activated, wider_window, narrower_window, window_before_alone, no_window, one_base, bases_exchanged,
        norm_in_the_first_block, no_final_norm, no_embedding_norm, tanh_gelu, wrong_epsilon, keys_and_values_exchanged,
        unmasked_padding,
    ],
)  # fmt: skip
def test_parity_fails_for_a_planted_mistake(mistake):
    model, case = parity.load("modernbert"), parity.golden("modernbert")
    lengths = mistake(model, case)
    assert parity.errors(model, case, lengths).max() > max(10 * parity.BLOCK, parity.MODEL)


@pytest.mark.slow
def test_states_of_long_rows_equal_live_torch(rng):
    """Windows of long rows are computed in blocks."""
    need("torch")
    lengths = np.array([600, 1, 9, 587, 300], np.int32)
    case = parity.live("modernbert", rng.integers(5, 64, (5, 600)).astype(np.int32), lengths, None)
    assert parity.block_errors(parity.load("modernbert"), case).max() <= parity.BLOCK
    assert parity.errors(parity.load("modernbert"), case).max() <= parity.MODEL


def test_both_spellings_of_the_config():
    sizes = MODERNBERT.read_config(CONFIG)
    assert sizes.kinds == ("full_attention", "sliding_attention", "sliding_attention", "full_attention")
    assert (sizes.window, sizes.full.theta, sizes.sliding.theta) == (4, 1000, 30)
    bases = {"global_rope_theta": 1000.0, "local_rope_theta": 30.0}
    old = {name: value for name, value in CONFIG.items() if name not in ("layer_types", "rope_parameters")} | bases
    # The keys that transformers 4 wrote and that do not change the vectors.
    noise = {"reference_compile": None, "deterministic_flash_attn": False, "repad_logits_with_grad": False}
    assert MODERNBERT.read_config(old | noise | {"global_attn_every_n_layers": 3}) == sizes
    assert MODERNBERT.read_config(old) == sizes
    every = MODERNBERT.read_config(old | {"global_attn_every_n_layers": 1})
    assert every == replace(sizes, kinds=("full_attention",) * 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm_bias": True}, "norm_bias is True in config.json; only False is supported"),
        ({"attention_bias": True}, "attention_bias is True in config.json; only False is supported"),
        ({"mlp_bias": True}, "mlp_bias is True in config.json; only False is supported"),
        ({"hidden_activation": "swish"}, "'swish' is not one of gelu"),
        (
            {"layer_types": ["full_attention"] * 3},
            "it must name one of full_attention, sliding_attention for each of 4",
        ),
        (
            {"layer_types": ["full_attention"] * 3 + ["chunked"]},
            "it must name one of full_attention, sliding_attention",
        ),
        ({"layer_types": None, "global_attn_every_n_layers": 0}, "global_attn_every_n_layers is 0; it must be"),
        ({"local_attention": None}, "config.json lacks whole numbers for local_attention"),
        ({"local_attention": -1}, "window is -1; it must be a whole number"),
        ({"num_attention_heads": 3}, "hidden size 32 does not give 3 heads an even width"),
        ({"rope_parameters": None, "global_rope_theta": 1e4}, "local_rope_theta of sliding_attention is None"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}}, "rope_type is 'yarn'"),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            "rope_scaling is {.* in config.json; only None is supported",
        ),
        ({"norm_eps": 1}, "norm_eps is 1 in config.json; it must be a float"),
    ],
)
def test_configs_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        MODERNBERT.read_config(CONFIG | change)
