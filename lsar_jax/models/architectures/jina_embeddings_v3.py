"""jina-embeddings-v3 (Sturua et al., 2024): XLM-R with rotary positions, and an adapter for each of five tasks.

The code of the checkpoint calls itself ``xlm-roberta``, and its tensors have the names that transformers writes, too.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lsar_jax.models.architectures import base, bert, gte, nomic_bert
from lsar_jax.models.encoder import Encoder, EncoderConfig
from lsar_jax.models.parts import LayerFactory
from lsar_jax.models.self_attention import AttentionConfig

__all__ = ["JINA_V3"]

_BLOCK = {
    **base.layer_names("attention", "encoder.layers.{}.mixer", inputs="Wqkv", out="out_proj"),
    "attention_norm": "encoder.layers.{}.norm1",
    **base.layer_names("feed", "encoder.layers.{}.mlp", up="fc1", down="fc2"),
    "feed_norm": "encoder.layers.{}.norm2",
}


def _build(config: EncoderConfig, factory: LayerFactory) -> Encoder:
    return bert.build(config, factory, AttentionConfig(config.heads, fused=True, rotary=config.rotary))


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    base.require(config, position_embedding_type="rotary", use_reg_tokens=False)
    return EncoderConfig(
        **base.whole_sizes(config, gte.SIZES),
        rotary=base.rotary(config, "rotary_emb_base"),
        epsilon=base.number(config, "layer_norm_eps", 1e-5),
        activation=base.activation(config),
    )


JINA_V3 = replace(
    gte.GTE,
    model_type="jina_embeddings_v3",
    read_config=_read_sizes,
    build=_build,
    keys=nomic_bert.TABLES | base.block_keys(_BLOCK),
    prefixes=("roberta.",),
    pooler="pooler.dense",
    pooling="mean",
    exported=("JinaEmbeddingsV3Model", "jina_embeddings_v3"),
)
