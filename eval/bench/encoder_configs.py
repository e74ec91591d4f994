"""Configs of published encoders, as far as they decide the shapes and the work of a program."""

from collections.abc import Mapping
from typing import Any

from lsar_jax.models.architectures import ARCHITECTURES, Architecture, Config

__all__ = ["CONFIGS", "sizes_of"]

_XLM_R = {
    "model_type": "xlm-roberta", "vocab_size": 250_002, "max_position_embeddings": 514, "type_vocab_size": 1,
    "layer_norm_eps": 1e-5, "pad_token_id": 1,
}  # fmt: skip

# As in config.json, by the name in the rows of a table; those of XLM-R (Conneau et al., ACL 2020, Table 5) are base and
# large.
CONFIGS: dict[str, dict[str, Any]] = {
    "base": {
        **_XLM_R, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    },
    "large": {
        **_XLM_R, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3", "vocab_size": 151_669, "hidden_size": 1024, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
        "max_position_embeddings": 32_768, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
    },
    "embeddinggemma": {
        "model_type": "gemma3_text", "vocab_size": 262_144, "hidden_size": 768, "num_hidden_layers": 24,
        "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 1152,
        "max_position_embeddings": 2048, "sliding_window": 512, "sliding_window_pattern": 6,
        "query_pre_attn_scalar": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "rms_norm_eps": 1e-6,
        "use_bidirectional_attention": True,
    },
    "mmbert-base": {
        "model_type": "modernbert", "vocab_size": 256_000, "hidden_size": 768, "num_hidden_layers": 22,
        "num_attention_heads": 12, "intermediate_size": 1152, "max_position_embeddings": 8192,
        "local_attention": 128, "global_attn_every_n_layers": 3, "global_rope_theta": 160_000,
        "local_rope_theta": 160_000, "norm_eps": 1e-5, "pad_token_id": 0,
    },
    "gte": {
        "model_type": "gte", "vocab_size": 250_048, "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 8192, "type_vocab_size": 1,
        "rope_theta": 20_000, "rope_scaling": {"type": "ntk", "factor": 8.0}, "layer_norm_eps": 1e-12,
        "pad_token_id": 1,
    },
}  # fmt: skip


def sizes_of(config: Mapping[str, Any]) -> tuple[Architecture, Config]:
    """Returns the architecture of a config and its sizes; raises ValueError if they are not supported."""
    architecture = ARCHITECTURES[config["model_type"]]
    return architecture, architecture.read_config(config)
