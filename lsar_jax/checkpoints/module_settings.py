"""The settings of the modules of a sentence-transformers folder: each is read, changes no vector, or is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsar_jax.tokens.sentence_settings import ARGUMENTS, sentence_settings

__all__ = ["APPLIED", "FLAGS", "SENTENCE", "Unsupported", "check_keys", "check_text"]

#: Where an export says which transforms are in its Dense layers, as ``Transform.applied``.
APPLIED = "lsar_jax_applied"
# The flags of poolings that older versions wrote, in the order in which they join them, by the names of version 6.
FLAGS = {
    "cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken",
}  # fmt: skip
# The input and output of Dense and Normalize, which version 6 writes in their configs.
_ENDS = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
SENTENCE = "config_sentence_transformers.json"
# Of each file: the keys that are read, or change no vector of ``encode``; and the only values of others.
_KEYS: Mapping[str, tuple[set[str], Mapping[str, Any]]] = {
    SENTENCE: (
        {
            "prompts", "default_prompt_name", "truncate_dim", "similarity_fn_name", "requirements", "__version__",
            APPLIED,
        },
        {"model_type": "SentenceTransformer"},
    ),
    "sentence_bert_config.json": (
        {"max_seq_length", "do_lower_case", "modality_config", "unpad_inputs", *ARGUMENTS},
        {
            "transformer_task": "feature-extraction", "module_output_name": "token_embeddings", "query_length": None,
            "document_length": None, "query_expansion": None, "tokenizer_name_or_path": None,
        },
    ),
    "modality_config": ({"format"}, {"method": "forward", "method_output_name": "last_hidden_state"}),
    "Pooling": (
        {"word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt"}
        | {f"pooling_mode_{flag}" for flag in FLAGS.values()},
        {},
    ),
    "Dense": ({"in_features", "out_features", "bias", "activation_function"}, {**_ENDS, "use_residual": False}),
    "LayerNorm": ({"dimension"}, {}),
    "Normalize": (set(), _ENDS),
    "Dropout": ({"dropout"}, {}),
}  # fmt: skip


class Unsupported(ValueError):
    """Part of a pipeline is not supported; its transformer may still be."""


def check_keys(where: Path, config: Mapping[str, Any], kind: str) -> None:
    """Raises an error if a config has an unknown key, or sets a known one to a value that is not supported."""
    known, only = _KEYS[kind]
    for key, value in config.items():
        if key not in only and key not in known:
            names = ", ".join(sorted({*known, *only}))
            raise Unsupported(f"{where}: {key} is not known; known are {names}; remove it if it changes no vector")
        if key in only and value not in (None, only[key]):
            raise Unsupported(f"{where}: {key} is {value!r}; only {only[key]!r} is supported")


def check_text(transformer: Path) -> None:
    """Raises an error if the settings of version 6 give other states of a text than the last ones."""
    settings = sentence_settings(transformer)
    check_keys(transformer, settings, "sentence_bert_config.json")
    modalities = settings.get("modality_config") or {"text": {}}
    if not modalities.keys() & {"text", "message"}:
        raise Unsupported(f"{transformer}: modality_config is {modalities!r:.200}; it needs text or message")
    for key in ("text", "message"):
        check_keys(transformer, modalities.get(key, {}), "modality_config")
