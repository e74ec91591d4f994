"""The description of an architecture, and helpers to read and check ``config.json``.

An architecture turns ``config.json`` into the sizes of a Flax module, and maps each leaf of the module to a tensor.
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

__all__ = ["Architecture", "Config", "activation", "block_keys", "epsilon", "require", "weight_and_bias", "whole_sizes"]

Config = TransformerConfig | LaserConfig


@dataclass(frozen=True)
class Architecture:
    """Describes how to read the checkpoints of one architecture.

    Attributes:
      model_type: name of the architecture in ``config.json``.
      read_config: returns the sizes in a config; raises ValueError if they are invalid or not supported.
      keys: mapping from leaf of the module to tensor of the checkpoint; ``{}`` stands for the number of a block.
      unused: regular expression for tensors in checkpoints that embeddings do not need.
      tokenizer: opens the tokenizer in a folder, given the rows of the embeddings and the maximum number of tokens.
      build: makes the module from sizes, ``dtype``, ``param_dtype`` and ``attention``; its weights are zero.
      languages: returns the row of each language in the language embeddings, given a config; None if there are none.
      computed: returns the tensors that a checkpoint omits because they can be computed from its config.
      prefix: model name that precedes every tensor name in checkpoints with a task head.
      pooler: prefix of the weight and bias of the pooler; empty if the architecture has none.
      pooling: default pooling if the checkpoint does not define one.
      export: the inverse of ``read_config``, given a number of blocks and a padding id; None if there is no export.
    """

    model_type: str
    read_config: Callable[[Mapping[str, Any]], Config]
    keys: Mapping[str, str]
    unused: str
    tokenizer: Callable[[Path, int, int], Tokenizer] = fast_tokenizer
    build: Callable[..., Any] = Transformer
    languages: Callable[[Mapping[str, Any]], dict[str, int] | None] = lambda config: None
    computed: Callable[[Mapping[str, Any], Any], dict[str, np.ndarray]] = lambda config, sizes: {}
    prefix: str = ""
    pooler: str = ""
    pooling: str = "mean"
    export: Callable[[TransformerConfig, int, int], dict[str, Any]] | None = None

    def plain_name(self, key: str) -> str:
        """Returns the name of a tensor without the model prefix, and with the current names of LayerNorm's weights."""
        key = key.removeprefix(self.prefix)
        return key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")

    def is_unused(self, name: str) -> bool:
        """Whether embeddings do not need a tensor."""
        return re.fullmatch(self.unused, name) is not None


def weight_and_bias(ours: str, theirs: str) -> dict[str, str]:
    """Returns the two entries of a layer in ``keys``; a layer whose name ends in ``norm`` is a LayerNorm."""
    weight = "scale" if ours.endswith("norm") else "kernel"
    return {f"{ours}.{weight}": f"{theirs}.weight", f"{ours}.bias": f"{theirs}.bias"}


def block_keys(layers: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of the layers of a block in ``keys``, given the name of each layer's tensors."""
    keys: dict[str, str] = {}
    for ours, theirs in layers.items():
        keys |= weight_and_bias(f"blocks.{{}}.{ours}", theirs)
    return keys


def whole_sizes(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Returns the sizes in a config, by a mapping from our names to its own; raises ValueError if one is missing."""
    lacking = sorted(theirs for theirs in names.values() if type(config.get(theirs)) is not int)
    if lacking:
        raise ValueError(f"config.json lacks whole numbers for {', '.join(lacking)}")
    return {ours: config[theirs] for ours, theirs in names.items()}


def require(config: Mapping[str, Any], **values: Any) -> None:
    """Raises ValueError if the config sets one of the options to another value."""
    for name, value in values.items():
        if config.get(name, value) != value:
            raise ValueError(f"{name} is {config[name]!r} in config.json; only {value!r} is supported")


def epsilon(config: Mapping[str, Any]) -> float:
    """Returns the epsilon of LayerNorm, by default 1e-12; raises ValueError unless it is between 0 and 1."""
    value = config.get("layer_norm_eps", 1e-12)
    if not isinstance(value, float) or not 0 < value < 1:
        raise ValueError(f"layer_norm_eps is {value!r} in config.json; it must be a float between 0 and 1")
    return value


def activation(name: Any) -> str:
    """Returns ``name`` if it is a known activation; raises ValueError otherwise."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"hidden_act {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return name
