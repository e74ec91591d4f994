"""LASER1 and LASER2, in the format that ``lsar-jax convert`` writes."""

from collections.abc import Mapping
from typing import Any

from lsar_jax.models.architectures.base import Architecture, whole_sizes
from lsar_jax.models.laser import Laser, LaserConfig
from lsar_jax.tokens.laser import laser_tokenizer

__all__ = ["LASER"]

_SIZES = {
    "vocabulary": "vocab_size",
    "embedding": "embedding_size",
    "hidden": "hidden_size",
    "blocks": "num_hidden_layers",
}
_PARTS = {"kernel": "weight_ih", "recurrent": "weight_hh", "bias": "bias_ih", "recurrent_bias": "bias_hh"}


def _read_sizes(config: Mapping[str, Any]) -> LaserConfig:
    return LaserConfig(**whole_sizes(config, _SIZES))


LASER = Architecture(
    "laser",
    _read_sizes,
    Laser,
    {"embeddings.embedding": "embed_tokens.weight"}
    | {
        f"blocks.{{}}.{direction}.{ours}": f"lstm.{theirs}_l{{}}{suffix}"
        for direction, suffix in {"forward": "", "backward": "_reverse"}.items()
        for ours, theirs in _PARTS.items()
    },
    unused=r"",
    tokenizer=laser_tokenizer,
    pooling="max",
)
