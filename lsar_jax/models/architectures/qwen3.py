"""Qwen3: Qwen3-Embedding, harrier-0.6b, F2LLM (Yang et al., "Qwen3 Technical Report", 2025).

A decoder: RMSNorm before each sublayer, rotary positions, fewer key than query heads, norms of queries and keys. A
checkpoint whose config says ``is_causal: false`` attends to both sides.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.blocks import PreNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import GatedFeedForward, LayerFactory, RMSNorm
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention

__all__ = ["BLOCK", "QWEN3", "SIZES", "build", "keys"]

SIZES = base.SIZES | {"groups": "num_key_value_heads", "width": "head_dim"}
BLOCK = {
    "attention_norm": "layers.{}.input_layernorm",
    "attention.query": "layers.{}.self_attn.q_proj",
    "attention.key": "layers.{}.self_attn.k_proj",
    "attention.value": "layers.{}.self_attn.v_proj",
    "attention.query_norm": "layers.{}.self_attn.q_norm",
    "attention.key_norm": "layers.{}.self_attn.k_norm",
    "attention.out": "layers.{}.self_attn.o_proj",
    "feed_norm": "layers.{}.post_attention_layernorm",
    "feed.gate": "layers.{}.mlp.gate_proj",
    "feed.up": "layers.{}.mlp.up_proj",
    "feed.down": "layers.{}.mlp.down_proj",
}


def build(config: EncoderConfig, factory: LayerFactory, *, head_norms: bool = True) -> Encoder:
    """Returns the encoder with zero weights; with ``head_norms``, queries and keys are normalised."""
    norm = partial(RMSNorm, epsilon=config.epsilon)

    attention = AttentionConfig(
        config.heads, config.groups, config.width, bias=False, rotary=config.rotary, causal=config.causal
    )

    def block() -> PreNormBlock:
        return PreNormBlock(
            norm(config.hidden),
            SelfAttention(factory, config.hidden, attention, norm if head_norms else None),
            norm(config.hidden),
            GatedFeedForward(factory, config.hidden, config.intermediate, config.activation),
        )

    embeddings = TokenEmbeddings(factory, config)
    return Encoder(config, embeddings, [block() for _ in range(config.blocks)], norm(config.hidden))


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    base.require(config, attention_bias=False, use_sliding_window=False)
    sizes = base.whole_sizes({"head_dim": 128, **config}, SIZES)
    if config.get("layer_types") is not None:
        base.require(config, layer_types=["full_attention"] * sizes["blocks"])
    return EncoderConfig(
        **sizes,
        rotary=base.rotary(config),
        epsilon=base.number(config, "rms_norm_eps", 1e-6),
        activation=base.activation(config, default="silu"),
        causal=base.causal(config),
    )


def keys(block: Mapping[str, str]) -> dict[str, str]:
    """Returns ``Architecture.keys``, given the names of the tensors of a block, none of which is a bias."""
    outside = {"embeddings.word.embedding": "embed_tokens.weight", "norm.scale": "norm.weight"}
    return outside | base.block_keys(block, bias=False)


QWEN3 = base.Architecture(
    "qwen3",
    _read_sizes,
    build,
    keys(BLOCK),
    unused=r"lm_head\..*",
    prefixes=("model.",),
    pooling="last",
    sizes=SIZES,
    exported=("Qwen3Model", "qwen3"),
    options={
        "epsilon": "rms_norm_eps",
        "rotary": "rope_parameters",
        "activation": "hidden_act",
        "causal": "is_causal",
    },
)
