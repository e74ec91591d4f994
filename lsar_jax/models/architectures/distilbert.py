"""DistilBERT, and distiluse-base-multilingual-cased (Sanh et al., 2019): BERT's blocks, without segments."""

from collections.abc import Mapping
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.architectures.bert import TABLES, build
from lsar_jax.models.encoder import EncoderConfig

__all__ = ["DISTILBERT"]

_SIZES = base.SIZES | {"hidden": "dim", "blocks": "n_layers", "heads": "n_heads", "intermediate": "hidden_dim"}
_BLOCK = {
    **base.layer_names(
        "attention", "transformer.layer.{}.attention", query="q_lin", key="k_lin", value="v_lin", out="out_lin"
    ),
    "attention_norm": "transformer.layer.{}.sa_layer_norm",
    **base.layer_names("feed", "transformer.layer.{}.ffn", up="lin1", down="lin2"),
    "feed_norm": "transformer.layer.{}.output_layer_norm",
}


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    # The epsilon of its norms is in no config: 1e-12, as by default.
    return EncoderConfig(**base.whole_sizes(config, _SIZES), activation=base.activation(config, "activation"))


DISTILBERT = base.Architecture(
    "distilbert",
    _read_sizes,
    build,
    # Sinusoids are stored too.
    TABLES | base.block_keys(_BLOCK),
    # The heads of language models and classifiers.
    unused=r"(vocab_transform|vocab_layer_norm|vocab_projector|pre_classifier|classifier|qa_outputs)\..*",
    prefixes=("distilbert.",),
    sizes=_SIZES,
    exported=("DistilBertModel", "distilbert"),
    options={"activation": "activation"},
)
