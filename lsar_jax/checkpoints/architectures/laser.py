"""LASER1 and LASER2, in the format that ``lsar-jax convert`` writes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from lsar_jax.checkpoints.architectures.base import Architecture, whole_sizes
from lsar_jax.models.laser import Laser, LaserConfig
from lsar_jax.tokens.laser import laser_tokenizer
from lsar_jax.tokens.tokenizer import Tokenizer

__all__ = ["LASER"]

_SIZES = {
    "vocabulary": "vocab_size",
    "embedding": "embedding_size",
    "hidden": "hidden_size",
    "blocks": "num_hidden_layers",
}


def _read_sizes(config: Mapping[str, Any]) -> LaserConfig:
    return LaserConfig(**whole_sizes(config, _SIZES))


def _tokenizer(folder: Path, sizes: LaserConfig, config: Mapping[str, Any]) -> Tokenizer:
    return laser_tokenizer(folder, sizes.vocabulary, sizes.longest)


def _build(sizes: LaserConfig, *, dtype: jnp.dtype, param_dtype: jnp.dtype, attention: str) -> Laser:
    return Laser(sizes, dtype=dtype, param_dtype=param_dtype)


def _keys() -> dict[str, str]:
    keys = {"embeddings.embedding": "embed_tokens.weight"}
    parts = {"kernel": "weight_ih", "recurrent": "weight_hh", "bias": "bias_ih", "recurrent_bias": "bias_hh"}
    for direction, suffix in (("forward", ""), ("backward", "_reverse")):
        keys |= {f"blocks.{{}}.{direction}.{o}": f"lstm.{t}_l{{}}{suffix}" for o, t in parts.items()}
    return keys


LASER = Architecture("laser", _read_sizes, _keys(), unused=r"", tokenizer=_tokenizer, build=_build, pooling="max")
