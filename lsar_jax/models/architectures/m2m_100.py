"""M2M-100's encoder: SONAR, NLLB (Fan et al., JMLR 2021; NLLB Team, 2022; Duquenne et al., "SONAR", 2023).

LayerNorm before each sublayer and at the end, and fixed positions. The first token is the language of the sentence.
Of a whole translation model, the decoder is not read.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lsar_jax.models.architectures import base
from lsar_jax.models.architectures.xlm_roberta import first_position
from lsar_jax.models.blocks import PreNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import FeedForward, LayerFactory
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention
from lsar_jax.tokens.nllb import nllb_tokenizer

__all__ = ["M2M_100", "M2M100Config"]

_SIZES = base.SIZES | {
    "hidden": "d_model",
    "blocks": "encoder_layers",
    "heads": "encoder_attention_heads",
    "intermediate": "encoder_ffn_dim",
}
_WORDS, _POSITIONS = "embed_tokens.weight", "embed_positions"
_BLOCK = {
    "attention_norm": "layers.{}.self_attn_layer_norm",
    **base.layer_names(
        "attention", "layers.{}.self_attn", query="q_proj", key="k_proj", value="v_proj", out="out_proj"
    ),
    "feed_norm": "layers.{}.final_layer_norm",
    **base.layer_names("feed", "layers.{}", up="fc1", down="fc2"),
}


@dataclass(frozen=True)
class M2M100Config(EncoderConfig):
    """Sizes of M2M-100's encoder.

    Attributes:
      scale: factor of the word embeddings.
    """

    scale: float = 1.0


def _build(config: M2M100Config, factory: LayerFactory) -> Encoder:
    def norm() -> Any:
        return factory.layer_norm(config.hidden, config.epsilon)

    blocks = [
        PreNormBlock(
            norm(),
            SelfAttention(factory, config.hidden, AttentionConfig(config.heads)),
            norm(),
            FeedForward(factory, config.hidden, config.intermediate, config.activation),
        )
        for _ in range(config.blocks)
    ]
    embeddings = TokenEmbeddings(factory, config, positions=config.positions, scale=config.scale)
    return Encoder(config, embeddings, blocks, norm())


def _read_sizes(config: Mapping[str, Any]) -> M2M100Config:
    sizes, first = base.whole_sizes(config, _SIZES), first_position(config)
    return M2M100Config(
        **sizes | {"positions": sizes["positions"] + first},
        first_position=first,
        epsilon=1e-5,
        activation=base.activation(config, "activation_function", "relu"),
        scale=math.sqrt(sizes["hidden"]) if config.get("scale_embedding", True) else 1.0,
    )


def _complete(config: dict[str, Any], tensors: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Gives the encoder the embeddings that it shares with the decoder, unless it has its own."""
    shared = [name for name in tensors if M2M_100.plain_name(name) == "shared.weight"]
    others = {name: tensor for name, tensor in tensors.items() if name not in shared}
    if shared and _WORDS not in map(M2M_100.plain_name, others):
        others[_WORDS] = tensors[shared[0]]
    return config, others


def _computed(config: Mapping[str, Any], sizes: M2M100Config) -> dict[str, np.ndarray]:
    """Returns the positions: all sines, then all cosines, in float32 as in fairseq."""
    half = sizes.hidden // 2
    rates = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10_000) / max(half - 1, 1)))
    angles = np.arange(sizes.positions, dtype=np.float32)[:, None] * rates
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    table[sizes.first_position - 1] = 0  # padding
    return {_POSITIONS: table}


M2M_100 = base.Architecture(
    "m2m_100",
    _read_sizes,
    _build,
    {
        "embeddings.word.embedding": _WORDS,
        "embeddings.position.embedding": _POSITIONS,
        **base.weight_and_bias("norm", "layer_norm"),
    }
    | base.block_keys(_BLOCK),
    # Older files store the positions.
    unused=r"(decoder|lm_head)\..*|final_logits_bias|embed_positions\.weights",
    prefixes=("model.", "encoder."),
    tokenizer=nllb_tokenizer,
    computed=_computed,
    complete=_complete,
)
