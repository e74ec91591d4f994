"""BERT: mBERT, LaBSE, multilingual-e5-small, MiniLM (Devlin et al., NAACL 2019).

XLM-R, XLM and others have the same config and block, and differ in the input embeddings and in the names of the
weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.blocks import PostNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import FeedForward, LayerFactory
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention

__all__ = ["BERT", "BertConfig", "block", "build", "export_options", "read_sizes"]

_SIZES = base.SIZES | {"token_types": "type_vocab_size"}
_TABLES = {
    "embeddings.word.embedding": "embeddings.word_embeddings.weight",
    "embeddings.position.embedding": "embeddings.position_embeddings.weight",
    "embeddings.token_type.embedding": "embeddings.token_type_embeddings.weight",
    **base.weight_and_bias("embeddings.norm", "embeddings.LayerNorm"),
}
_BLOCK = {
    "attention.query": "encoder.layer.{}.attention.self.query",
    "attention.key": "encoder.layer.{}.attention.self.key",
    "attention.value": "encoder.layer.{}.attention.self.value",
    "attention.out": "encoder.layer.{}.attention.output.dense",
    "attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "feed.up": "encoder.layer.{}.intermediate.dense",
    "feed.down": "encoder.layer.{}.output.dense",
    "feed_norm": "encoder.layer.{}.output.LayerNorm",
}


@dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """Sizes of BERT and of the architectures with its blocks.

    Attributes:
      layer_norm_epsilon: constant added to the variance in LayerNorm.
      activation: activation of the feed-forward layer, one of ``ACTIVATIONS``.
    """

    layer_norm_epsilon: float = 1e-12
    activation: str = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        base.check_heads(self, multiple=1)


def build(config: BertConfig, factory: LayerFactory) -> Encoder:
    """Returns the encoder with zero weights."""
    norm = factory.layer_norm(config.hidden, config.layer_norm_epsilon)
    embeddings = TokenEmbeddings(factory, config, positions=config.positions, norm=norm)
    return Encoder(config, embeddings, [block(config, factory) for _ in range(config.blocks)])


def block(config: BertConfig, factory: LayerFactory) -> PostNormBlock:
    """Returns a block with zero weights."""
    return PostNormBlock(
        SelfAttention(factory, config.hidden, AttentionConfig(config.heads)),
        factory.layer_norm(config.hidden, config.layer_norm_epsilon),
        FeedForward(factory, config.hidden, config.intermediate, config.activation),
        factory.layer_norm(config.hidden, config.layer_norm_epsilon),
    )


def read_sizes(config: Mapping[str, Any], first_position: int = 0) -> BertConfig:
    """Returns the sizes of a BERT model whose first token has position ``first_position``."""
    base.require(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return BertConfig(
        **base.whole_sizes(config, _SIZES),
        first_position=first_position,
        layer_norm_epsilon=base.number(config, "layer_norm_eps", 1e-12),
        activation=base.activation(config),
    )


def export_options(sizes: BertConfig, blocks: int) -> dict[str, Any]:
    """Returns what a config says besides the sizes."""
    return {"layer_norm_eps": sizes.layer_norm_epsilon, "hidden_act": sizes.activation}


BERT = base.Architecture(
    "bert",
    read_sizes,
    build,
    _TABLES | base.block_keys(_BLOCK),
    # The pooler, and the heads of language models and classifiers.
    unused=r"(pooler|cls|lm_head|classifier|qa_outputs)\..*|embeddings\.position_ids",
    prefixes=("bert.",),
    pooler="pooler.dense",
    sizes=_SIZES,
    exported=("BertModel", "bert"),
    export_options=export_options,
)
