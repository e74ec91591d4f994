"""BERT: mBERT, LaBSE, multilingual-e5-small, MiniLM (Devlin et al., NAACL 2019).

XLM-R, XLM and others have the same config and block, and differ in the input embeddings and in the names of the
weights.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.blocks import PostNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import FeedForward, LayerFactory
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention

__all__ = ["BERT", "TABLES", "block", "build", "read_sizes"]

_SIZES = base.SIZES | {"token_types": "type_vocab_size"}
TABLES = {
    "embeddings.word.embedding": "embeddings.word_embeddings.weight",
    "embeddings.position.embedding": "embeddings.position_embeddings.weight",
    "embeddings.token_type.embedding": "embeddings.token_type_embeddings.weight",
    **base.weight_and_bias("embeddings.norm", "embeddings.LayerNorm"),
}
_BLOCK = {
    **base.layer_names("attention", "encoder.layer.{}.attention.self", query="query", key="key", value="value"),
    "attention.out": "encoder.layer.{}.attention.output.dense",
    "attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    **base.layer_names("feed", "encoder.layer.{}", up="intermediate.dense", down="output.dense"),
    "feed_norm": "encoder.layer.{}.output.LayerNorm",
}


def build(
    config: EncoderConfig,
    factory: LayerFactory,
    attention: AttentionConfig | None = None,
    feed: Callable[[int], Any] = lambda number: None,
) -> Encoder:
    """Returns the encoder with zero weights.

    Args:
      config: the sizes; with rotary positions, there are no position embeddings.
      factory: makes the layers.
      attention: options of self-attention, by default BERT's.
      feed: returns the feed-forward layer of a block, given its number from 0 on; None is BERT's.
    """
    norm = factory.layer_norm(config.hidden, config.epsilon)
    embeddings = TokenEmbeddings(factory, config, positions=0 if config.rotary else config.positions, norm=norm)
    blocks = [block(config, factory, attention, feed(number)) for number in range(config.blocks)]
    return Encoder(config, embeddings, blocks)


def block(
    config: EncoderConfig, factory: LayerFactory, attention: AttentionConfig | None = None, feed: Any = None
) -> PostNormBlock:
    """Returns a block with zero weights; arguments as of ``build``."""
    return PostNormBlock(
        SelfAttention(factory, config.hidden, attention or AttentionConfig(config.heads)),
        factory.layer_norm(config.hidden, config.epsilon),
        feed or FeedForward(factory, config.hidden, config.intermediate, config.activation),
        factory.layer_norm(config.hidden, config.epsilon),
    )


def read_sizes(config: Mapping[str, Any], first_position: int = 0) -> EncoderConfig:
    """Returns the sizes of a BERT model whose first token has position ``first_position``."""
    base.require(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return EncoderConfig(
        **base.whole_sizes(config, _SIZES),
        first_position=first_position,
        epsilon=base.number(config, "layer_norm_eps", 1e-12),
        activation=base.activation(config),
    )


BERT = base.Architecture(
    "bert",
    read_sizes,
    build,
    TABLES | base.block_keys(_BLOCK),
    # The pooler, and the heads of language models and classifiers.
    unused=r"(pooler|cls|lm_head|classifier|qa_outputs)\..*",
    prefixes=("bert.",),
    pooler="pooler.dense",
    sizes=_SIZES,
    exported=("BertModel", "bert"),
    options={"epsilon": "layer_norm_eps", "activation": "hidden_act"},
)
