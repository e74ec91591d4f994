"""ModernBERT: what its config may say, and proof that its parity tests can fail."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lsar_jax.models.architectures import MODERNBERT
from tests import parity
from tests.optional import need

CONFIG = json.loads((parity.GOLDEN / "modernbert" / "config.json").read_text())


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
    assert (sizes.window, sizes.rotary.theta, sizes.sliding.theta) == (4, 1000, 30)
    bases = {"global_rope_theta": 1000.0, "local_rope_theta": 30.0}
    old = {name: value for name, value in CONFIG.items() if name not in ("layer_types", "rope_parameters")} | bases
    # The keys that transformers 4 wrote and that do not change the vectors.
    noise = {"reference_compile": None, "deterministic_flash_attn": False, "repad_logits_with_grad": False}
    assert MODERNBERT.read_config(old | noise | {"global_attn_every_n_layers": 3}) == sizes
    assert MODERNBERT.read_config(old) == sizes
    every = MODERNBERT.read_config(old | {"global_attn_every_n_layers": 1})
    assert every == replace(sizes, kinds=("full_attention",) * 4)
