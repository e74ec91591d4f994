"""EuroBERT, and jina-embeddings-v5-text-nano, which grew from it (Boizard et al., "EuroBERT", COLM 2025).

The blocks are Qwen3's without norms of queries and keys, and attend to both sides.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lsar_jax.models.architectures import base, qwen3
from lsar_jax.models.encoder import EncoderConfig

__all__ = ["EUROBERT"]

_BLOCK = {
    ours: theirs for ours, theirs in qwen3.BLOCK.items() if ours not in ("attention.query_norm", "attention.key_norm")
}


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    base.require(config, attention_bias=False, mlp_bias=False)
    sizes = base.whole_sizes(config, base.SIZES)
    given = {"num_key_value_heads": sizes["heads"], "head_dim": sizes["hidden"] // (sizes["heads"] or 1)}
    given |= {name: value for name, value in config.items() if value is not None}
    return EncoderConfig(
        **base.whole_sizes(given, qwen3.SIZES),
        rotary=base.rotary(config),
        epsilon=base.number(config, "rms_norm_eps", 1e-5),
        activation=base.activation(config, default="silu"),
        causal=False,
    )


EUROBERT = replace(
    qwen3.QWEN3,
    model_type="eurobert",
    read_config=_read_sizes,
    build=partial(qwen3.build, head_norms=False),
    keys=qwen3.keys(_BLOCK),
    unused=r"(lm_head|dense|classifier|score)\..*",
    pooling="mean",
    exported=("EuroBertModel", "eurobert"),
    # It does not know is_causal.
    options={"epsilon": "rms_norm_eps", "rotary": "rope_parameters", "activation": "hidden_act"},
)
