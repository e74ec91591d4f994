"""The description of an architecture, and helpers to read and check ``config.json``.

An architecture turns ``config.json`` into the sizes of a Flax module, builds it, and maps its leaves to tensors.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.checks import check_choice, positive_number, whole_number
from lsar_jax.models.encoder import EncoderConfig
from lsar_jax.models.laser import LaserConfig
from lsar_jax.models.parts import ACTIVATIONS, LayerFactory
from lsar_jax.models.rotary import Rotary
from lsar_jax.tokens.hugging_face import fast_tokenizer
from lsar_jax.tokens.tokenizer import Tokenizer

__all__ = [
    "SIZES", "Architecture", "Config", "activation", "block_keys", "causal", "kind_options", "layer_kinds",
    "layer_names", "number", "require", "rotary", "weight_and_bias", "whole_sizes",
]  # fmt: skip

Config = EncoderConfig | LaserConfig
Tensors = dict[str, np.ndarray]

# The sizes of EncoderConfig, and what most configs call them.
SIZES = {
    "vocabulary": "vocab_size",
    "hidden": "hidden_size",
    "blocks": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "positions": "max_position_embeddings",
}


@dataclass(frozen=True)
class Architecture:
    """Describes how to read the checkpoints of one architecture, and how to compute it.

    Attributes:
      model_type: name of the architecture in ``config.json``.
      read_config: returns the sizes in a config; raises ValueError if they are invalid or not supported.
      build: makes the module from sizes and ``LayerFactory``; its weights are zero.
      keys: mapping from leaf of the module to tensor of the checkpoint; ``{}`` stands for the number of a block.
      unused: regular expression for tensors in checkpoints that embeddings do not need.
      prefixes: model names that may precede the tensor names, as in checkpoints with a task head.
      tokenizer: opens the tokenizer in a folder, given the rows of the embeddings and the maximum number of tokens.
      languages: returns the row of each language in the language embeddings, given a config; None if there are none.
      computed: returns the tensors that a checkpoint omits because they can be computed from its config.
      pooler: prefix of the weight and bias of the pooler; empty if the architecture has none.
      pooling: default pooling if the checkpoint does not define one.
      projection: name of the matrix, if any, that maps the states of the last block; it is applied after the pooling.
      module: the module of sentence-transformers that computes it; one other than Transformer pools too.
      complete: given the config and the tensors as stored, returns both as the other functions take them.
      sizes: what ``config.json`` calls the sizes; for an export.
      exported: torch class and model type of an export; None if there is no export.
      options: what ``config.json`` calls other attributes of the sizes; for an export.
      export_options: returns the rest of an exported config, given the sizes and a number of blocks.
      export_tensors: returns the tensors to export, given the module's, its sizes and a number of blocks.
    """

    model_type: str
    read_config: Callable[[Mapping[str, Any]], Config]
    build: Callable[[Any, LayerFactory], Any]
    keys: Mapping[str, str]
    unused: str
    prefixes: tuple[str, ...] = ()
    tokenizer: Callable[[Path, int, int], Tokenizer] = fast_tokenizer
    languages: Callable[[Mapping[str, Any]], dict[str, int] | None] = lambda config: None
    computed: Callable[[Mapping[str, Any], Any], dict[str, np.ndarray]] = lambda config, sizes: {}
    pooler: str = ""
    pooling: str = "mean"
    projection: str = ""
    module: str = "Transformer"
    complete: Callable[[dict[str, Any], dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]] = (
        lambda config, tensors: (config, tensors)
    )
    sizes: Mapping[str, str] = field(default_factory=dict)
    exported: tuple[str, str] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    export_options: Callable[[Any, int], dict[str, Any]] = lambda sizes, blocks: {}
    export_tensors: Callable[[Tensors, Any, int], Tensors] = lambda tensors, sizes, blocks: tensors

    def plain_name(self, key: str) -> str:
        """Returns the name of a tensor without the model prefix, and with the current names of LayerNorm's weights."""
        for prefix in self.prefixes:
            key = key.removeprefix(prefix)
        return key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")

    def is_unused(self, name: str) -> bool:
        """Whether embeddings do not need a tensor."""
        return re.fullmatch(rf"{self.unused}|.*\b(rotary_emb\.inv_freq|token_type_ids|position_ids)", name) is not None

    def export_config(self, sizes: Any, blocks: int, pad_id: int) -> dict[str, Any]:
        """Returns the config with which transformers loads the model's first ``blocks`` blocks.

        Raises:
          ValueError: transformers has no such model.
        """
        torch_class, model_type = self.exported or ("", self.model_type)
        given = {ours: getattr(replace(sizes, blocks=blocks), ours) for ours in (*self.sizes, *self.options)}
        if isinstance(given.get("rotary"), Rotary):
            given["rotary"] = given["rotary"].parameters()
        return {
            "architectures": [torch_class],
            "model_type": model_type,
            **{theirs: given[ours] for ours, theirs in self.sizes.items()},
            "pad_token_id": pad_id,
            **{theirs: given[ours] for ours, theirs in self.options.items()},
            **self.export_options(sizes, blocks),
        }


def weight_and_bias(ours: str, theirs: str, *, bias: bool = True) -> dict[str, str]:
    """Returns the entries of a layer in ``keys``; a layer whose name ends in ``norm`` is a norm."""
    weight = "scale" if ours.endswith("norm") else "kernel"
    return {f"{ours}.{weight}": f"{theirs}.weight"} | ({f"{ours}.bias": f"{theirs}.bias"} if bias else {})


def layer_names(ours: str, theirs: str, **layers: str) -> dict[str, str]:
    """Returns, for each layer of a part of a block, its name in our module and its name in the checkpoint."""
    return {f"{ours}.{layer}": f"{theirs}.{name}" for layer, name in layers.items()}


def block_keys(layers: Mapping[str, str], *, bias: bool = True) -> dict[str, str]:
    """Returns the entries of the layers of a block in ``keys``, given the name of each layer's tensors."""
    keys: dict[str, str] = {}
    for ours, theirs in layers.items():
        keys |= weight_and_bias(f"blocks.{{}}.{ours}", theirs, bias=bias)
    return keys


def whole_sizes(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Returns the sizes in a config by our names, given its own; raises ValueError if one is not a whole number."""
    lacking = sorted(theirs for theirs in names.values() if type(config.get(theirs)) is not int)
    if lacking:
        raise ValueError(f"config.json lacks whole numbers for {', '.join(lacking)}")
    # transformers also takes some sizes by the names that most configs have.
    require(config, **{SIZES[ours]: config[theirs] for ours, theirs in names.items() if ours in SIZES})
    return {ours: config[theirs] for ours, theirs in names.items()}


def require(config: Mapping[str, Any], **values: Any) -> None:
    """Raises ValueError if the config sets one of the options to another value."""
    for name, value in values.items():
        if config.get(name, value) != value:
            raise ValueError(f"{name} is {config[name]!r} in config.json; only {value!r} is supported")


def causal(config: Mapping[str, Any]) -> bool:
    """Returns whether a decoder is causal, by its ``is_causal`` alone, as in transformers.

    Raises:
      ValueError: ``use_bidirectional_attention`` says otherwise, which transformers does not read.
    """
    both = not config.get("is_causal", True)
    if not both and config.get("use_bidirectional_attention"):
        raise ValueError(
            "use_bidirectional_attention is true in config.json, but without is_causal: false transformers attends to "
            "one side; set either to what the checkpoint was trained with"
        )
    return not both


def number(config: Mapping[str, Any], name: str, default: float | None = None, where: str = "") -> float:
    """Returns a number of a config; raises ValueError unless it is positive. ``where`` is for the error."""
    return positive_number(f"{name}{where} in config.json", config.get(name, default))


def activation(config: Mapping[str, Any], name: str = "hidden_act", default: str = "gelu") -> str:
    """Returns the activation of a config; raises ValueError if it is not known."""
    value = config.get(name, default)
    check_choice(name, value, ACTIVATIONS)
    return value


def layer_kinds(
    config: Mapping[str, Any], blocks: int, name: str, default: int, *, first: bool = False
) -> tuple[str, ...]:
    """Returns the kind of each block, ``full_attention`` or ``sliding_attention``.

    Args:
      config: the config; its ``layer_types``, if any, name the kinds.
      blocks: number of blocks.
      name: what a config without them calls the number n, where every n-th block attends to the whole sentence.
      default: n by default.
      first: whether the first of every n blocks does, rather than the last.

    Raises:
      ValueError: ``layer_types`` has another kind, or not one for each block; or n is not such a number.
    """
    every = default if config.get(name) is None else config[name]
    whole_number(name, every, 1, 256, "the numbers of blocks")
    kinds = config.get("layer_types")
    if kinds is None:
        # Version 5 of transformers writes it, but does not read it.
        require(config, **{f"_{name}": every})
        full = [(number + (not first)) % every == 0 for number in range(blocks)]
        kinds = ["full_attention" if whole else "sliding_attention" for whole in full]
    known = ("full_attention", "sliding_attention")
    if not isinstance(kinds, list) or len(kinds) != blocks or not all(kind in known for kind in kinds):
        raise ValueError(f"layer_types is {kinds!r} in config.json; expected {blocks} of {', '.join(known)}")
    return tuple(kinds)


def kind_options(sizes: Any, blocks: int) -> dict[str, Any]:
    """Returns what a config of version 5 of transformers says where the first ``blocks`` blocks are of two kinds."""
    rotary = {"full_attention": sizes.rotary.parameters(), "sliding_attention": sizes.sliding.parameters()}
    return {"layer_types": list(sizes.kinds[:blocks]), "rope_parameters": rotary}


def rotary(
    config: Mapping[str, Any], theta: str = "rope_theta", kind: str | None = None, *, alike: bool = False,
    beta: bool = False,
) -> Rotary:  # fmt: skip
    """Returns the rotary positions of a config, as written before version 5 of transformers or since.

    Args:
      config: the config. Version 5 has ``rope_parameters``, of all layers or by kind of layer; before, ``theta`` and
        ``rope_scaling``, which counted for full layers.
      theta: name of the base before version 5.
      kind: kind of layer: ``full_attention`` or ``sliding_attention``; None where all layers are of one kind.
      alike: whether ``rope_scaling`` counted for sliding layers too.
      beta: as in ``Rotary.of``.

    Raises:
      ValueError: the base is missing, or the scaling is not one that the architecture may have.
    """
    parameters = config.get("rope_parameters")
    if isinstance(parameters, Mapping):
        require(config, rope_scaling=None)  # it would count
        parameters = parameters if kind is None else parameters.get(kind)
        parameters = parameters if isinstance(parameters, Mapping) else {}
    else:
        scaling = config.get("rope_scaling") if alike or kind != "sliding_attention" else None
        parameters = {**(scaling or {}), "rope_theta": config.get(theta)}
    base = number({theta: parameters.get("rope_theta")}, theta, where=f" of {kind}" if kind else "")
    # Where all layers are of one kind, what stands beside the parameters counts first.
    outside = None if kind else config.get("original_max_position_embeddings")
    length = outside or parameters.get("original_max_position_embeddings") or config.get("max_position_embeddings")
    part = {"partial_rotary_factor": config.get("partial_rotary_factor")}
    return Rotary.of({**part, **parameters, "rope_theta": base, "original_max_position_embeddings": length}, beta=beta)
