"""Decoders of Llama's kind (Touvron et al., "LLaMA", 2023): one block, in a few variants.

RMSNorm before each sublayer, rotary positions, fewer key than query heads, a gated feed-forward layer. A checkpoint
whose config says ``is_causal: false`` attends to both sides.

| model | differs by |
| --- | --- |
| Llama: llama-embed-nemotron | |
| Qwen2 (Yang et al., 2024): gte-Qwen2, KaLM mini, inf-retriever | biases of queries, keys and values |
| Qwen3 (Yang et al., 2025): Qwen3-Embedding, harrier-0.6b, F2LLM, Octen | norms of queries and keys |
| Ministral 3 (Mistral AI, 2025): Nemotron-3-Embed | queries grow with their positions |
| EuroBERT (Boizard et al., COLM 2025): jina-embeddings-v5-text-nano | attends to both sides |
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.blocks import PreNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import GatedFeedForward, LayerFactory, RMSNorm
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention

__all__ = ["BLOCK", "EUROBERT", "HEAD_NORMS", "LLAMA", "MINISTRAL3", "OF_CODE", "QWEN2", "QWEN3", "SIZES", "keys"]

SIZES = base.SIZES | {"groups": "num_key_value_heads", "width": "head_dim"}
BLOCK = {
    "attention_norm": "layers.{}.input_layernorm",
    **base.layer_names("attention", "layers.{}.self_attn", query="q_proj", key="k_proj", value="v_proj", out="o_proj"),
    "feed_norm": "layers.{}.post_attention_layernorm",
    **base.layer_names("feed", "layers.{}.mlp", gate="gate_proj", up="up_proj", down="down_proj"),
}
HEAD_NORMS = base.layer_names("attention", "layers.{}.self_attn", query_norm="q_norm", key_norm="k_norm")
_OPTIONS = {"epsilon": "rms_norm_eps", "rotary": "rope_parameters", "activation": "hidden_act"}
_BIASED = {name: BLOCK[name] for name in ("attention.query", "attention.key", "attention.value")}


def _build(config: EncoderConfig, factory: LayerFactory, *, head_norms: bool = False, biases: bool = False) -> Encoder:
    norm = partial(RMSNorm, epsilon=config.epsilon)

    attention = AttentionConfig(
        config.heads, config.groups, config.width, bias=biases, out_bias=False, rotary=config.rotary,
        causal=config.causal,
    )  # fmt: skip

    def block() -> PreNormBlock:
        return PreNormBlock(
            norm(config.hidden),
            SelfAttention(factory, config.hidden, attention, norm if head_norms else None),
            norm(config.hidden),
            GatedFeedForward(factory, config.hidden, config.intermediate, config.activation),
        )

    embeddings = TokenEmbeddings(factory, config)
    return Encoder(config, embeddings, [block() for _ in range(config.blocks)], norm(config.hidden))


def _read_sizes(
    config: Mapping[str, Any], *, groups: int | None = None, width: int | None = None, epsilon: float = 1e-6,
    causal: bool | None = None, beta: bool = False, **only: Any,
) -> EncoderConfig:  # fmt: skip
    """Returns the sizes in a config.

    Args:
      config: the config.
      groups: number of key and value heads by default; None for one for each query head.
      width: width of a head by default; None for a share of the hidden state.
      epsilon: constant in the norms by default.
      causal: whether a token attends to those before it alone; None for what the config says.
      beta: as in ``Rotary.of``.
      only: the single supported value of other options.
    """
    base.require(config, attention_bias=False, **only)
    sizes = base.whole_sizes(config, base.SIZES)
    if config.get("layer_types") is not None:
        base.require(config, layer_types=["full_attention"] * sizes["blocks"])
    heads = {
        "num_key_value_heads": config.get("num_key_value_heads", groups) or sizes["heads"],
        "head_dim": config.get("head_dim", width) or sizes["hidden"] // (sizes["heads"] or 1),
    }
    return EncoderConfig(
        **base.whole_sizes({**config, **heads}, SIZES),
        rotary=base.rotary(config, beta=beta),
        epsilon=base.number(config, "rms_norm_eps", epsilon),
        activation=base.activation(config, default="silu"),
        causal=base.causal(config) if causal is None else causal,
    )


def keys(block: Mapping[str, str]) -> dict[str, str]:
    """Returns ``Architecture.keys``, given the names of the tensors of a block, none of which is a bias."""
    outside = {"embeddings.word.embedding": "embed_tokens.weight", "norm.scale": "norm.weight"}
    return outside | base.block_keys(block, bias=False)


LLAMA = base.Architecture(
    "llama",
    partial(_read_sizes, mlp_bias=False),
    _build,
    keys(BLOCK),
    unused=r"lm_head\..*",
    prefixes=("model.",),
    pooling="last",
    sizes=SIZES,
    exported=("LlamaModel", "llama"),
    options=_OPTIONS | {"causal": "is_causal"},
)
QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    read_config=partial(_read_sizes, use_sliding_window=False, groups=32),
    build=partial(_build, biases=True),
    keys=keys(BLOCK) | base.block_keys(_BIASED),
    exported=("Qwen2Model", "qwen2"),
)
QWEN3 = replace(
    LLAMA,
    model_type="qwen3",
    read_config=partial(_read_sizes, use_sliding_window=False, groups=32, width=128),
    build=partial(_build, head_norms=True),
    keys=keys(BLOCK | HEAD_NORMS),
    exported=("Qwen3Model", "qwen3"),
)
MINISTRAL3 = replace(
    LLAMA,
    model_type="ministral3",
    read_config=partial(_read_sizes, sliding_window=None, groups=8, width=128, epsilon=1e-5, beta=True),
    exported=("Ministral3Model", "ministral3"),
)
EUROBERT = replace(
    LLAMA,
    model_type="eurobert",
    read_config=partial(_read_sizes, mlp_bias=False, epsilon=1e-5, causal=False),
    unused=r"(lm_head|dense|classifier|score)\..*",
    pooling="mean",
    exported=("EuroBertModel", "eurobert"),
    # It does not know is_causal.
    options=_OPTIONS,
)


def _both_sides(decoder: base.Architecture, model_type: str, **only: Any) -> base.Architecture:
    """Returns a decoder without a causal mask, as code of checkpoints computes it."""
    read = partial(decoder.read_config, causal=False, is_causal=False, **only)  # type: ignore[call-arg]
    return replace(decoder, model_type=model_type, read_config=read, pooling="mean")


# What classes of code compute that are only known with it, or that transformers has under the same name or type.
OF_CODE = {
    "BidirLMModel": _both_sides(QWEN3, "bidirlm"),
    "LlamaBidirectionalModel": _both_sides(LLAMA, "llama_bidirec", pooling="avg"),
    "Ministral3BidirectionalModel": _both_sides(MINISTRAL3, "ministral3_bidirec", pooling="avg"),
    "PPLXQwen3Model": _both_sides(QWEN3, "bidirectional_pplx_qwen3"),
    # gte-Qwen2 pools the last token.
    "Qwen2Model": replace(_both_sides(QWEN2, "qwen2"), pooling="last"),
    # voyage-4-nano's, whose matrix is applied to each token.
    "Qwen3BidirectionalModel": replace(
        _both_sides(QWEN3, "qwen3"), projection="linear.weight", unused=r"(lm_head|linear)\..*"
    ),
}
