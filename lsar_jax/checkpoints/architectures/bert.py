"""BERT: mBERT, LaBSE, multilingual-e5-small, MiniLM (Devlin et al., NAACL 2019)."""

from collections.abc import Mapping
from typing import Any

from lsar_jax.checkpoints.architectures import base
from lsar_jax.models.transformer import TransformerConfig

__all__ = ["BERT", "export_config", "read_sizes"]

_SIZES = {
    "vocabulary": "vocab_size",
    "hidden": "hidden_size",
    "blocks": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "positions": "max_position_embeddings",
    "token_types": "type_vocab_size",
}

_TABLES = {
    "embeddings.word.embedding": "embeddings.word_embeddings.weight",
    "embeddings.position.embedding": "embeddings.position_embeddings.weight",
    "embeddings.token_type.embedding": "embeddings.token_type_embeddings.weight",
    **base.weight_and_bias("embeddings.norm", "embeddings.LayerNorm"),
}
_BLOCK = {
    "query": "encoder.layer.{}.attention.self.query",
    "key": "encoder.layer.{}.attention.self.key",
    "value": "encoder.layer.{}.attention.self.value",
    "attention_out": "encoder.layer.{}.attention.output.dense",
    "attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "feed_in": "encoder.layer.{}.intermediate.dense",
    "feed_out": "encoder.layer.{}.output.dense",
    "norm": "encoder.layer.{}.output.LayerNorm",
}


def read_sizes(config: Mapping[str, Any], first_position: int = 0) -> TransformerConfig:
    """Returns the sizes of a BERT model whose first token has position ``first_position``."""
    base.require(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return TransformerConfig(
        **base.whole_sizes(config, _SIZES),
        first_position=first_position,
        layer_norm_epsilon=base.epsilon(config),
        activation=base.activation(config.get("hidden_act", "gelu")),
    )


def export_config(sizes: TransformerConfig, blocks: int, pad_id: int) -> dict[str, Any]:
    """Returns the config with which transformers loads the model's first ``blocks`` blocks."""
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        **{theirs: getattr(sizes, ours) for ours, theirs in _SIZES.items()},
        "num_hidden_layers": blocks,
        "layer_norm_eps": sizes.layer_norm_epsilon,
        "hidden_act": sizes.activation,
        "pad_token_id": pad_id,
    }


BERT = base.Architecture(
    "bert",
    read_sizes,
    _TABLES | base.block_keys(_BLOCK),
    # The pooler, and the heads of language models and classifiers.
    unused=r"(pooler|cls|lm_head|classifier|qa_outputs)\..*|embeddings\.position_ids",
    prefix="bert.",
    pooler="pooler.dense",
    export=export_config,
)
