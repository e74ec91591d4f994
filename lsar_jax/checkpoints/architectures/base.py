"""What an architecture is, and the checks that all of them use to read ``config.json``.

An architecture turns ``config.json`` into the sizes of a Flax module, and maps each leaf of the module to a
tensor of the checkpoint.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.models.laser import LaserConfig
from lsar_jax.models.transformer import ACTIVATIONS, Transformer, TransformerConfig
from lsar_jax.tokens.hugging_face import fast_tokenizer
from lsar_jax.tokens.tokenizer import Tokenizer

__all__ = [
    "Architecture",
    "Config",
    "activation",
    "epsilon",
    "hugging_face_tokenizer",
    "require",
    "weight_and_bias",
    "whole_sizes",
]

Config = TransformerConfig | LaserConfig


def hugging_face_tokenizer(folder: Path, sizes: TransformerConfig, config: Mapping[str, Any]) -> Tokenizer:
    """Opens ``tokenizer.json``, or what transformers makes a tokenizer from."""
    pad_id = config.get("pad_token_id")
    return fast_tokenizer(folder, sizes.vocabulary, sizes.longest, pad_id if isinstance(pad_id, int) else None)


@dataclass(frozen=True)
class Architecture:
    """How to read the checkpoints of one architecture.

    Attributes:
      model_type: its name in ``config.json``.
      read_config: returns the sizes from a config; raises ValueError.
      keys: leaf of the module to tensor of the checkpoint; ``{}`` stands for the number of a block.
      unused: regular expression of the tensors that checkpoints carry and embeddings do not need.
      tokenizer: opens the tokenizer in a folder, given sizes and config.
      build: makes the module from sizes, ``dtype``, ``param_dtype`` and ``attention``; its weights are zero.
      languages: returns the rows of the language embeddings from a config; None if there are none.
      computed: returns the tensors that a checkpoint leaves out because they follow from its config.
      prefix: name of the model, in front of every tensor of a checkpoint that has a task's head.
      pooler: prefix of the weight and bias of the pooler; empty if the architecture has none.
      pooling: what embeds a sentence if the checkpoint does not say.
      export: the reverse of ``read_config``, for a number of blocks and a padding id; None if transformers has no
        class for it.
    """

    model_type: str
    read_config: Callable[[Mapping[str, Any]], Config]
    keys: Mapping[str, str]
    unused: str
    tokenizer: Callable[[Path, Any, Mapping[str, Any]], Tokenizer] = hugging_face_tokenizer
    build: Callable[..., Any] = Transformer
    languages: Callable[[Mapping[str, Any]], dict[str, int] | None] = lambda config: None
    computed: Callable[[Mapping[str, Any], Any], dict[str, np.ndarray]] = lambda config, sizes: {}
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


def weight_and_bias(ours: str, theirs: str) -> dict[str, str]:
    """Returns the two entries of a key table for a layer; a module whose name ends in ``norm`` is a LayerNorm."""
    weight = "scale" if ours.endswith("norm") else "kernel"
    return {f"{ours}.{weight}": f"{theirs}.weight", f"{ours}.bias": f"{theirs}.bias"}


def whole_sizes(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Returns sizes by our names, from a config that has them by its own.

    Raises:
      ValueError: some are missing or not whole numbers.
    """

    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    lacking = sorted(theirs for theirs in names.values() if not whole(config.get(theirs)))
    if lacking:
        raise ValueError(f"config.json lacks whole numbers for {', '.join(lacking)}")
    return {ours: config[theirs] for ours, theirs in names.items()}


def require(config: Mapping[str, Any], **values: Any) -> None:
    """Raises ValueError if an option of the config is there and has another value."""
    for name, value in values.items():
        if config.get(name, value) != value:
            raise ValueError(f"{name} is {config[name]!r} in config.json; only {value!r} is supported")


def epsilon(config: Mapping[str, Any]) -> float:
    """Returns the epsilon of LayerNorm, 1e-12 by default; raises ValueError if it is not a small positive number."""
    value = config.get("layer_norm_eps", 1e-12)
    if not isinstance(value, float) or not 0 < value < 1:
        raise ValueError(f"layer_norm_eps is {value!r} in config.json; it must be a small positive number")
    return value


def activation(name: Any) -> str:
    """Returns ``name`` if it is a known activation; raises ValueError otherwise."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"hidden_act {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return name
