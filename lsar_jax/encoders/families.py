"""The architectures that are known: what their configs say and what their weights are called.

A family turns ``config.json`` into sizes, and has a key table from each leaf of the Flax module
to a tensor of the checkpoint. Kernels are stored transposed: torch keeps ``[out, in]``.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsar_jax.encoders.fast_text import fast_tokenizer
from lsar_jax.encoders.laser import LaserConfig
from lsar_jax.encoders.laser_text import laser_tokenizer
from lsar_jax.encoders.transformer import ACTIVATIONS, TransformerConfig
from lsar_jax.encoders.xlm_text import xlm_tokenizer
from lsar_jax.languages import language_code
from lsar_jax.tokenization import Tokenizer

__all__ = ["BERT", "FAMILIES", "LASER", "XLM", "XLM_R", "Config", "Family", "family_of"]

Config = TransformerConfig | LaserConfig


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
      model_type: in ``config.json``.
      read_config: the sizes, from a config; raises ValueError.
      keys: leaf of the module -> tensor of the checkpoint; ``{}`` is the block.
      unused: tensors that checkpoints also carry and embeddings do not need.
      prefix: the model's name, in front of every tensor of a checkpoint that has a task's head.
      pooler: the prefix of its pooler's weight and bias, empty if the architecture has none.
      pooling: what embeds a sentence where the checkpoint does not say.
      tokenizer: opens the tokenizer in a folder, for sizes and a config.
      languages: the rows of the language embeddings by language, from a config; None for none.
      export: the reverse of ``read_config``, for the first so many blocks and a padding id;
        None if transformers has no class for it.
    """

    model_type: str
    read_config: Callable[[Mapping[str, Any]], Config]
    keys: Mapping[str, str]
    unused: str
    tokenizer: Callable[[Path, Any, Mapping[str, Any]], Tokenizer]
    languages: Callable[[Mapping[str, Any]], dict[str, int] | None] = lambda config: None
    prefix: str = ""
    pooler: str = ""
    pooling: str = "mean"
    export: Callable[[TransformerConfig, int, int], dict[str, Any]] | None = None

    def plain_name(self, key: str) -> str:
        """Returns a tensor's name without the model's, and LayerNorm's weights by their usual names."""
        key = key.removeprefix(self.prefix)
        return key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")

    def is_unused(self, name: str) -> bool:
        """Whether embeddings do without this tensor."""
        return re.fullmatch(self.unused, name) is not None


def family_of(config: Mapping[str, Any]) -> Family:
    """Returns the family of a ``config.json``.

    Raises:
      ValueError: an architecture that is not known.
    """
    model_type = config.get("model_type", "xlm" if "emb_dim" in config else None)
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise ValueError(f"the checkpoint is of type {model_type!r}; known are: {', '.join(FAMILIES)}")
    return FAMILIES[model_type]


def _bert_config(config: Mapping[str, Any]) -> TransformerConfig:
    _require(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return TransformerConfig(
        **_sizes(config, _BERT_SIZES),
        layer_norm_epsilon=_epsilon(config),
        activation=_activation(config.get("hidden_act", "gelu")),
    )


def _xlm_r_config(config: Mapping[str, Any]) -> TransformerConfig:
    _require(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    pad = config.get("pad_token_id", 1)
    if not isinstance(pad, int) or isinstance(pad, bool) or pad < 0:
        raise ValueError(f"pad_token_id is {pad!r}; it must be a whole number, positions are counted from it")
    return TransformerConfig(
        **_sizes(config, _BERT_SIZES),
        first_position=pad + 1,
        layer_norm_epsilon=_epsilon(config),
        activation=_activation(config.get("hidden_act", "gelu")),
    )


def _xlm_config(config: Mapping[str, Any]) -> TransformerConfig:
    _require(config, causal=False, is_encoder=True, asm=False)
    # n_words is what the first checkpoints call it.
    config = {"vocab_size": config.get("n_words"), "max_position_embeddings": 512, **config}
    sizes = _sizes(config, _XLM_SIZES)
    gelu = config.get("gelu_activation", True)
    return TransformerConfig(
        **sizes,
        intermediate=4 * sizes["hidden"],
        languages=config["n_langs"] if _embeds_languages(config) else 0,
        layer_norm_epsilon=_epsilon(config),
        activation="gelu" if gelu else "relu",
    )


def _xlm_languages(config: Mapping[str, Any]) -> dict[str, int] | None:
    if not _embeds_languages(config):
        return None
    rows, count = config.get("lang2id"), config["n_langs"]
    if not isinstance(rows, dict) or not all(isinstance(row, int) and 0 <= row < count for row in rows.values()):
        raise ValueError(f"lang2id does not map languages to the rows 0 to {count - 1} of their embeddings")
    # Some of XLM's Wikipedias are no languages (simple), and some are varieties of a language that
    # has one of its own (als beside sq): they keep their names.
    codes = {name: _code(name) for name in rows}
    taken = {code for name, code in codes.items() if code == name}
    return {code if code == name or code not in taken else name: rows[name] for name, code in codes.items()}


def _xlm_tokenizer(folder: Path, sizes: TransformerConfig, config: Mapping[str, Any]) -> Tokenizer:
    return xlm_tokenizer(folder, sizes.vocabulary, sizes.longest)


def _laser_tokenizer(folder: Path, sizes: LaserConfig, config: Mapping[str, Any]) -> Tokenizer:
    return laser_tokenizer(folder, sizes.vocabulary, sizes.longest)


def _fast_tokenizer(folder: Path, sizes: TransformerConfig, config: Mapping[str, Any]) -> Tokenizer:
    pad_id = config.get("pad_token_id")
    return fast_tokenizer(folder, sizes.vocabulary, sizes.longest, pad_id if isinstance(pad_id, int) else None)


def _laser_config(config: Mapping[str, Any]) -> LaserConfig:
    return LaserConfig(**_sizes(config, _LASER_SIZES))


_BERT_SIZES = {
    "vocabulary": "vocab_size",
    "hidden": "hidden_size",
    "blocks": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "positions": "max_position_embeddings",
    "token_types": "type_vocab_size",
}
_XLM_SIZES = {
    "vocabulary": "vocab_size",
    "hidden": "emb_dim",
    "blocks": "n_layers",
    "heads": "n_heads",
    "positions": "max_position_embeddings",
}
_LASER_SIZES = {
    "vocabulary": "vocab_size",
    "embedding": "embedding_size",
    "hidden": "hidden_size",
    "blocks": "num_hidden_layers",
}


def _export_bert(sizes: TransformerConfig, blocks: int, pad_id: int) -> dict[str, Any]:
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        **{theirs: getattr(sizes, ours) for ours, theirs in _BERT_SIZES.items()},
        "num_hidden_layers": blocks,
        "layer_norm_eps": sizes.layer_norm_epsilon,
        "hidden_act": sizes.activation,
        "pad_token_id": pad_id,
    }


def _export_xlm_r(sizes: TransformerConfig, blocks: int, pad_id: int) -> dict[str, Any]:
    if pad_id != sizes.first_position - 1:
        raise ValueError(
            f"positions start at {sizes.first_position}, one past an id that is not the padding's, {pad_id}"
        )
    return {
        **_export_bert(sizes, blocks, pad_id),
        "architectures": ["XLMRobertaModel"],
        "model_type": "xlm-roberta",
    }


def _export_xlm(sizes: TransformerConfig, blocks: int, pad_id: int) -> dict[str, Any]:
    return {
        "architectures": ["XLMModel"],
        "model_type": "xlm",
        **{theirs: getattr(sizes, ours) for ours, theirs in _XLM_SIZES.items()},
        "n_layers": blocks,
        "layer_norm_eps": sizes.layer_norm_epsilon,
        "gelu_activation": sizes.activation == "gelu",
        "n_langs": 1,
        "use_lang_emb": False,
        "pad_token_id": pad_id,
    }


_BLOCK = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_in": "intermediate.dense",
    "feed_out": "output.dense",
    "norm": "output.LayerNorm",
}


def _weight_and_bias(ours: str, theirs: str) -> dict[str, str]:
    weight = "scale" if ours.endswith("norm") else "kernel"
    return {f"{ours}.{weight}": f"{theirs}.weight", f"{ours}.bias": f"{theirs}.bias"}


def _bert_keys() -> dict[str, str]:
    keys = {
        "embeddings.word.embedding": "embeddings.word_embeddings.weight",
        "embeddings.position.embedding": "embeddings.position_embeddings.weight",
        "embeddings.token_type.embedding": "embeddings.token_type_embeddings.weight",
        **_weight_and_bias("embeddings.norm", "embeddings.LayerNorm"),
    }
    for ours, theirs in _BLOCK.items():
        keys |= _weight_and_bias(f"blocks.{{}}.{ours}", f"encoder.layer.{{}}.{theirs}")
    return keys


def _xlm_keys() -> dict[str, str]:
    keys = {
        "embeddings.word.embedding": "embeddings.weight",
        "embeddings.position.embedding": "position_embeddings.weight",
        "embeddings.language.embedding": "lang_embeddings.weight",
        **_weight_and_bias("embeddings.norm", "layer_norm_emb"),
    }
    parts = {
        "query": "attentions.{}.q_lin",
        "key": "attentions.{}.k_lin",
        "value": "attentions.{}.v_lin",
        "attention_out": "attentions.{}.out_lin",
        "attention_norm": "layer_norm1.{}",
        "feed_in": "ffns.{}.lin1",
        "feed_out": "ffns.{}.lin2",
        "norm": "layer_norm2.{}",
    }
    for ours, theirs in parts.items():
        keys |= _weight_and_bias(f"blocks.{{}}.{ours}", theirs)
    return keys


def _laser_keys() -> dict[str, str]:
    keys = {"embeddings.embedding": "embed_tokens.weight"}
    parts = {"kernel": "weight_ih", "recurrent": "weight_hh", "bias": "bias_ih", "recurrent_bias": "bias_hh"}
    for direction, suffix in (("forward", ""), ("backward", "_reverse")):
        keys |= {f"blocks.{{}}.{direction}.{o}": f"lstm.{t}_l{{}}{suffix}" for o, t in parts.items()}
    return keys


# The pooler, and the heads of language models and classifiers.
_HEADS = r"(pooler|cls|lm_head|classifier|qa_outputs)\..*|embeddings\.position_ids"

BERT = Family(
    "bert",
    _bert_config,
    _bert_keys(),
    unused=_HEADS,
    tokenizer=_fast_tokenizer,
    prefix="bert.",
    pooler="pooler.dense",
    export=_export_bert,
)
XLM_R = Family(
    "xlm-roberta",
    _xlm_r_config,
    BERT.keys,
    unused=_HEADS,
    tokenizer=_fast_tokenizer,
    prefix="roberta.",
    pooler="pooler.dense",
    export=_export_xlm_r,
)
XLM = Family(
    "xlm",
    _xlm_config,
    _xlm_keys(),
    unused=r"pred_layer\..*|position_ids",
    tokenizer=_xlm_tokenizer,
    languages=_xlm_languages,
    prefix="transformer.",
    export=_export_xlm,
)
LASER = Family("laser", _laser_config, _laser_keys(), unused=r"", tokenizer=_laser_tokenizer, pooling="max")
FAMILIES = {family.model_type: family for family in (BERT, XLM_R, XLM, LASER)}


def _sizes(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    lacking = sorted(theirs for theirs in names.values() if not whole(config.get(theirs)))
    if lacking:
        raise ValueError(f"config.json lacks whole numbers for {', '.join(lacking)}")
    return {ours: config[theirs] for ours, theirs in names.items()}


def _require(config: Mapping[str, Any], **values: Any) -> None:
    for name, value in values.items():
        if config.get(name, value) != value:
            raise ValueError(f"{name} is {config[name]!r} in config.json; only {value!r} is known")


def _epsilon(config: Mapping[str, Any]) -> float:
    epsilon = config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise ValueError(f"layer_norm_eps is {epsilon!r} in config.json; it must be a small positive number")
    return epsilon


def _activation(name: Any) -> str:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"hidden_act {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return name


def _embeds_languages(config: Mapping[str, Any]) -> bool:
    count = config.get("n_langs", 1)
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"n_langs is {count!r} in config.json; it must be a whole number from 1")
    return bool(config.get("use_lang_emb", True)) and count > 1


def _code(name: str) -> str:
    """Returns the BCP 47 code of one of XLM's names, itself if it has none."""
    try:
        return language_code(name)
    except ValueError:
        return name
