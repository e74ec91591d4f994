"""XLM, some of whose models have language embeddings (Conneau and Lample, NeurIPS 2019)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lsar_jax.checks import whole_number
from lsar_jax.languages import code_or_none
from lsar_jax.models.architectures import base
from lsar_jax.models.architectures.bert import build
from lsar_jax.models.encoder import EncoderConfig, sinusoids
from lsar_jax.tokens.xlm import xlm_tokenizer

__all__ = ["XLM"]

_SIZES = {
    "vocabulary": "vocab_size",
    "hidden": "emb_dim",
    "blocks": "n_layers",
    "heads": "n_heads",
    "positions": "max_position_embeddings",
}
_TABLES = {
    "embeddings.word.embedding": "embeddings.weight",
    "embeddings.position.embedding": "position_embeddings.weight",
    "embeddings.language.embedding": "lang_embeddings.weight",
    **base.weight_and_bias("embeddings.norm", "layer_norm_emb"),
}
_BLOCK = {
    **base.layer_names("attention", "attentions.{}", query="q_lin", key="k_lin", value="v_lin", out="out_lin"),
    "attention_norm": "layer_norm1.{}",
    **base.layer_names("feed", "ffns.{}", up="lin1", down="lin2"),
    "feed_norm": "layer_norm2.{}",
}


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    base.require(config, causal=False, is_encoder=True, asm=False)
    # The first checkpoints call vocab_size n_words.
    config = {"vocab_size": config.get("n_words"), "max_position_embeddings": 512, **config}
    sizes = base.whole_sizes(config, _SIZES)
    return EncoderConfig(
        **sizes,
        intermediate=4 * sizes["hidden"],
        languages=config["n_langs"] if _embeds_languages(config) else 0,
        epsilon=base.number(config, "layer_norm_eps", 1e-12),
        activation="gelu" if config.get("gelu_activation", True) else "relu",
    )


def _languages(config: Mapping[str, Any]) -> dict[str, int] | None:
    if not _embeds_languages(config):
        return None
    rows, count = config.get("lang2id"), config["n_langs"]
    if not isinstance(rows, dict) or not all(isinstance(row, int) and 0 <= row < count for row in rows.values()):
        raise ValueError(f"lang2id must map languages to rows 0 to {count - 1} of the language embeddings")
    # Some of XLM's Wikipedias are aliases of a language that has its own Wikipedia (als besides sq, simple besides en);
    # they keep their names.
    codes = {name: code_or_none(name) or name for name in rows}
    taken = {code for name, code in codes.items() if code == name}
    return {code if code == name or code not in taken else name: rows[name] for name, code in codes.items()}


def _computed(config: Mapping[str, Any], sizes: EncoderConfig) -> dict[str, np.ndarray]:
    if not config.get("sinusoidal_embeddings"):
        return {}
    return {"position_embeddings.weight": sinusoids(sizes.positions, sizes.widths[0])}


def _export_options(sizes: EncoderConfig, blocks: int) -> dict[str, Any]:
    return {"gelu_activation": sizes.activation == "gelu", "n_langs": 1, "use_lang_emb": False}


def _embeds_languages(config: Mapping[str, Any]) -> bool:
    count = whole_number("n_langs in config.json", config.get("n_langs", 1), 1, 1 << 18, "the sizes of encoders")
    return bool(config.get("use_lang_emb", True)) and count > 1


XLM = base.Architecture(
    "xlm",
    _read_sizes,
    build,
    _TABLES | base.block_keys(_BLOCK),
    unused=r"pred_layer\..*",
    tokenizer=xlm_tokenizer,
    languages=_languages,
    computed=_computed,
    prefixes=("transformer.",),
    sizes=_SIZES,
    exported=("XLMModel", "xlm"),
    options={"epsilon": "layer_norm_eps"},
    export_options=_export_options,
)
