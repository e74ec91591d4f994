"""Gemma 2: bge-multilingual-gemma2 (Gemma Team, "Gemma 2", 2024).

The blocks of Gemma 3 without norms of queries and keys, with a limit of the scores. Every second one attends to the
whole sentence.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.architectures.decoders import gemma3, llama

__all__ = ["GEMMA2"]


def _read_sizes(config: Mapping[str, Any]) -> gemma3.Gemma3Config:
    # With the last, transformers lets some of its attention look both ways, and some not.
    both = {"use_bidirectional_attention": bool(config.get("use_bidirectional_attention"))}
    only = {"attention_bias": False, "is_causal": True, "use_bidirectional_attention": False}
    base.require({**config, **both}, hidden_activation="gelu_pytorch_tanh", **only)
    sizes = base.whole_sizes(config, gemma3.SIZES | {"window": "sliding_window"})
    sizes["window"] -= 1  # the token itself
    rotary, cap = base.rotary(config), config.get("attn_logit_softcapping", 50.0)
    return gemma3.Gemma3Config(
        **sizes,
        rotary=rotary,
        sliding=rotary,
        epsilon=base.number(config, "rms_norm_eps", 1e-6),
        causal=True,
        kinds=base.layer_kinds(config, sizes["blocks"], "", 2),
        cap=None if cap is None else base.number({"attn_logit_softcapping": cap}, "attn_logit_softcapping"),
    )


def _export_options(sizes: gemma3.Gemma3Config, blocks: int) -> dict[str, Any]:
    others = {"rope_parameters": sizes.sliding.parameters(), "attn_logit_softcapping": sizes.cap}
    return gemma3.export_options(sizes, blocks) | others


GEMMA2 = replace(
    gemma3.GEMMA3_TEXT,
    model_type="gemma2",
    read_config=_read_sizes,
    build=partial(gemma3.build, head_norms=False),
    keys=llama.keys(llama.BLOCK | gemma3.NORMS),
    unused=r"lm_head\..*",
    prefixes=("model.",),
    pooling="last",
    exported=("Gemma2Model", "gemma2"),
    export_options=_export_options,
)
