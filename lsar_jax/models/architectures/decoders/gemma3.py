"""Gemma 3: EmbeddingGemma, harrier-270m (Gemma Team, "Gemma 3 Technical Report", 2025; Schechter Vera et al., 2025).

The layers of Qwen3, with further norms of what each sublayer adds, norms relative to 1, and blocks of two kinds: most
attend to a window, every sixth to the whole sentence, each kind with a base of the rotary positions of its own. A
checkpoint whose config says ``use_bidirectional_attention: true``, as EmbeddingGemma, attends to both sides.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lsar_jax.arrays import log
from lsar_jax.models.architectures import base
from lsar_jax.models.architectures.decoders import llama
from lsar_jax.models.blocks import PreNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import GatedFeedForward, LayerFactory, RMSNorm
from lsar_jax.models.rotary import Rotary
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention

__all__ = [
    "BLOCK", "GEMMA3", "GEMMA3_TEXT", "NORMS", "SIZES", "Gemma3Config", "attention", "build", "embeddings",
    "export_options", "text_config",
]  # fmt: skip

NORMS = {
    "attended_norm": "layers.{}.post_attention_layernorm",
    "feed_norm": "layers.{}.pre_feedforward_layernorm",
    "fed_norm": "layers.{}.post_feedforward_layernorm",
}
BLOCK = llama.BLOCK | llama.HEAD_NORMS | NORMS
SIZES = llama.SIZES | {"scores": "query_pre_attn_scalar"}
# The multimodal checkpoints leave out what is the default of transformers.
_DEFAULTS = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "query_pre_attn_scalar": 256,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
}


@dataclass(frozen=True)
class Gemma3Config(EncoderConfig):
    """Sizes of Gemma 3, whose ``rotary`` is for full blocks.

    Attributes:
      kinds: kind of each block, ``full_attention`` or ``sliding_attention``.
      window: how many positions before it, and after it unless it is causal, a token attends to in a sliding block.
      sliding: rotary positions of the sliding blocks.
      scores: the scores are divided by the root of this number, which need not be the width of a head.
      cap: as in ``AttentionMask``.
    """

    _: KW_ONLY
    kinds: tuple[str, ...]
    window: int
    sliding: Rotary
    scores: int
    cap: float | None = None


def embeddings(config: EncoderConfig, factory: LayerFactory) -> TokenEmbeddings:
    """Returns the word embeddings, which are multiplied by the root of their width."""
    # In bfloat16, the root is rounded as in transformers: for a width of 768, it is 27.75 rather than 27.71.
    scale = float(np.sqrt(config.hidden).astype(factory.dtype))
    return TokenEmbeddings(factory, config, scale=scale)


def attention(config: Gemma3Config, kind: str, groups: int | None, width: int | None) -> AttentionConfig:
    """Returns the options of self-attention of a block, given its kind and its heads."""
    full = kind == "full_attention"
    return AttentionConfig(
        config.heads, groups, width, bias=False, rotary=config.rotary if full else config.sliding,
        scale=config.scores**-0.5, causal=config.causal, window=None if full else config.window,
        cap=config.cap,
    )  # fmt: skip


def build(config: Gemma3Config, factory: LayerFactory, *, head_norms: bool = True) -> Encoder:
    """Returns the encoder with zero weights; with ``head_norms``, queries and keys are normalised."""
    norm = partial(RMSNorm, epsilon=config.epsilon, offset=1.0)

    def block(kind: str) -> PreNormBlock:
        of_kind = attention(config, kind, config.groups, config.width)
        return PreNormBlock(
            norm(config.hidden),
            SelfAttention(factory, config.hidden, of_kind, norm if head_norms else None),
            norm(config.hidden),
            GatedFeedForward(factory, config.hidden, config.intermediate, "gelu_pytorch_tanh"),
            attended_norm=norm(config.hidden),
            fed_norm=norm(config.hidden),
        )

    blocks = [block(kind) for kind in config.kinds[: config.blocks]]
    return Encoder(config, embeddings(config, factory), blocks, norm(config.hidden))


def _read_sizes(config: Mapping[str, Any]) -> Gemma3Config:
    base.require(config, hidden_activation="gelu_pytorch_tanh", attention_bias=False, attn_logit_softcapping=None)
    config = {**_DEFAULTS, **config}
    sizes = base.whole_sizes(config, SIZES | {"window": "sliding_window"})
    both = bool(config.get("use_bidirectional_attention"))
    # Which window would be meant by another is not known.
    base.require(config, is_causal=True)
    if both and sizes["window"] % 2:
        log.warning(
            "sliding_window is %d in config.json; transformers 4.56 and later save 512 as 257, then as 129; write what "
            "the model was trained with",
            sizes["window"],
        )
    # The window of a causal block includes the token itself; that of others is of both sides together.
    sizes["window"] = sizes["window"] // 2 if both else sizes["window"] - 1
    return Gemma3Config(
        **sizes,
        rotary=base.rotary(config, kind="full_attention"),
        epsilon=base.number(config, "rms_norm_eps", 1e-6),
        causal=not both,
        kinds=base.layer_kinds(config, sizes["blocks"], "sliding_window_pattern", 6),
        sliding=base.rotary(config, "rope_local_base_freq", "sliding_attention"),
    )


def export_options(sizes: Gemma3Config, blocks: int) -> dict[str, Any]:
    """Returns ``Architecture.export_options``."""
    return {
        "rms_norm_eps": sizes.epsilon,
        **base.kind_options(sizes, blocks),
        "sliding_window": sizes.window + 1 if sizes.causal else 2 * sizes.window,
        "use_bidirectional_attention": not sizes.causal,
    }


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the text model's part of a config of text and images; raises ValueError if it is absent."""
    inner = config.get("text_config")
    if not isinstance(inner, Mapping):
        raise ValueError(f"text_config is {inner!r} in config.json; it must be the config of the text model")
    return inner


GEMMA3_TEXT = base.Architecture(
    "gemma3_text",
    _read_sizes,
    build,
    llama.keys(BLOCK),
    # The head of language models, and what reads images.
    unused=r"(lm_head|vision_tower|multi_modal_projector)\..*",
    # The last one stands after the second in checkpoints from before version 4.52 of transformers.
    prefixes=("model.", "language_model.", "model."),
    sizes=SIZES,
    exported=("Gemma3TextModel", "gemma3_text"),
    export_options=export_options,
)
GEMMA3 = replace(GEMMA3_TEXT, model_type="gemma3", read_config=lambda config: _read_sizes(text_config(config)))
