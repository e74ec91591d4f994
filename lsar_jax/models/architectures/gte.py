"""GTE: gte-multilingual-base, arctic-embed-m-v2 (Zhang et al., "mGTE", EMNLP 2024 Industry Track).

BERT's order of layers, LayerNorm after each residual sum, with rotary positions and a gated feed-forward layer. The
checkpoints name themselves ``new`` or ``gte``, and their tensors have the same names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.blocks import PostNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import GatedFeedForward, LayerFactory
from lsar_jax.models.rotary import Rotary
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention

__all__ = ["GTE", "NEW", "SIZES", "GteConfig"]

SIZES = base.SIZES | {"token_types": "type_vocab_size"}
_TABLES = {
    "embeddings.word.embedding": "embeddings.word_embeddings.weight",
    "embeddings.token_type.embedding": "embeddings.token_type_embeddings.weight",
    **base.weight_and_bias("embeddings.norm", "embeddings.LayerNorm"),
}
_BLOCK = {
    "attention.inputs": "encoder.layer.{}.attention.qkv_proj",
    "attention.out": "encoder.layer.{}.attention.o_proj",
    "attention_norm": "encoder.layer.{}.attn_ln",
    "feed.down": "encoder.layer.{}.mlp.down_proj",
    "feed_norm": "encoder.layer.{}.mlp_ln",
}


@dataclass(frozen=True)
class GteConfig(EncoderConfig):
    """Sizes of GTE.

    Attributes:
      rotary: the rotary positions.
      epsilon: constant added to the variance in LayerNorm.
      activation: activation of the feed-forward layer, one of ``ACTIVATIONS``.
    """

    rotary: Rotary
    epsilon: float = 1e-12
    activation: str = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        base.check_heads(self)


def _build(config: GteConfig, factory: LayerFactory) -> Encoder:
    attention = AttentionConfig(config.heads, fused=True, rotary=config.rotary)

    def block() -> PostNormBlock:
        return PostNormBlock(
            SelfAttention(factory, config.hidden, attention),
            factory.layer_norm(config.hidden, config.epsilon),
            GatedFeedForward(
                factory, config.hidden, config.intermediate, config.activation, fused="up_gate", out_bias=True
            ),
            factory.layer_norm(config.hidden, config.epsilon),
        )

    embeddings = TokenEmbeddings(factory, config, norm=factory.layer_norm(config.hidden, config.epsilon))
    return Encoder(config, embeddings, [block() for _ in range(config.blocks)])


def _read_sizes(config: Mapping[str, Any]) -> GteConfig:
    base.require(
        config, position_embedding_type="rope", layer_norm_type="layer_norm", pack_qkv=True, logn_attention_scale=False
    )
    sizes = base.whole_sizes(config, SIZES)
    return GteConfig(
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


def _export_options(sizes: GteConfig, blocks: int) -> dict[str, Any]:
    return {
        "rope_parameters": sizes.rotary.parameters(),
        "layer_norm_eps": sizes.epsilon,
        "hidden_act": sizes.activation,
    }


GTE = base.Architecture(
    "gte",
    _read_sizes,
    _build,
    _TABLES | base.block_keys(_BLOCK) | {"blocks.{}.feed.both.kernel": "encoder.layer.{}.mlp.up_gate_proj.weight"},
    # The pooler, which was not trained, and the heads of language models and classifiers.
    unused=r"(pooler|lm_head|classifier)\..*",
    prefixes=("new.", "gte."),
    pooling="cls",
    sizes=SIZES,
    exported=("GteModel", "gte"),
    export_options=_export_options,
)
NEW = replace(GTE, model_type="new")
