"""GTE: gte-multilingual-base, arctic-embed-m-v2 (Zhang et al., "mGTE", EMNLP 2024 Industry Track).

BERT's order of layers, LayerNorm after each residual sum, with rotary positions and a gated feed-forward layer. The
checkpoints name themselves ``new`` or ``gte``, and their tensors have the same names.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lsar_jax.models.architectures import base, bert
from lsar_jax.models.encoder import Encoder, EncoderConfig
from lsar_jax.models.parts import GatedFeedForward, LayerFactory
from lsar_jax.models.rotary import Rotary
from lsar_jax.models.self_attention import AttentionConfig

__all__ = ["GTE", "NEW", "SIZES", "TABLES"]

SIZES = base.SIZES | {"token_types": "type_vocab_size"}
TABLES = {ours: theirs for ours, theirs in bert.TABLES.items() if "position" not in ours}
_BLOCK = {
    **base.layer_names("attention", "encoder.layer.{}.attention", inputs="qkv_proj", out="o_proj"),
    "attention_norm": "encoder.layer.{}.attn_ln",
    "feed.down": "encoder.layer.{}.mlp.down_proj",
    "feed_norm": "encoder.layer.{}.mlp_ln",
}


def _build(config: EncoderConfig, factory: LayerFactory) -> Encoder:
    attention = AttentionConfig(config.heads, fused=True, rotary=config.rotary)
    sizes = config.hidden, config.intermediate

    def feed(number: int) -> GatedFeedForward:
        return GatedFeedForward(factory, *sizes, config.activation, fused="up_gate", out_bias=True)

    return bert.build(config, factory, attention, feed)


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    base.require(
        config, position_embedding_type="rope", layer_norm_type="layer_norm", pack_qkv=True, logn_attention_scale=False
    )
    sizes = base.whole_sizes(config, SIZES)
    return EncoderConfig(
        **sizes,
        rotary=_rotary(config, sizes["hidden"] // (sizes["heads"] or 1)),
        epsilon=base.number(config, "layer_norm_eps", 1e-12),
        activation=base.activation(config),
    )


def _rotary(config: Mapping[str, Any], width: int) -> Rotary:
    """Returns the rotary positions; the "ntk" scaling of GTE's own code is a linear one of another base."""
    scaling = None if config.get("rope_parameters") else config.get("rope_scaling")
    if not isinstance(scaling, Mapping) or scaling.get("type") != "ntk":
        return base.rotary(config)
    base.require(scaling, mixed_b=None)
    given = base.rotary({**config, "rope_scaling": {**scaling, "type": "linear"}})
    return Rotary(given.theta * given.factor, given.factor ** (2 / width))


GTE = base.Architecture(
    "gte",
    _read_sizes,
    _build,
    TABLES | base.block_keys(_BLOCK) | {"blocks.{}.feed.both.kernel": "encoder.layer.{}.mlp.up_gate_proj.weight"},
    # The pooler, which was not trained, and the heads of language models and classifiers.
    unused=r"(pooler|lm_head|classifier)\..*",
    prefixes=("new.", "gte."),
    pooling="cls",
    sizes=SIZES,
    exported=("GteModel", "gte"),
    options={"rotary": "rope_parameters", "epsilon": "layer_norm_eps", "activation": "hidden_act"},
)
NEW = replace(GTE, model_type="new")
