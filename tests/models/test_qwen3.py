"""Qwen3, and EuroBERT, whose blocks are Qwen3's: mistakes that parity catches, and their configs, older and newer."""

import json
from dataclasses import replace

import pytest

from lsar_jax.models.architectures import EUROBERT, QWEN3
from lsar_jax.models.rotary import Rotary
from tests import parity

CONFIGS = {
    name: json.loads((parity.GOLDEN / name / "config.json").read_text(encoding="utf-8"))
    for name in ("qwen3", "eurobert")
}
READ = {"qwen3": QWEN3.read_config, "eurobert": EUROBERT.read_config}


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
