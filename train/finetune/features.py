"""Features of a frozen encoder: a mix of all its layers, and some blocks of their own on top.

Wu and Dredze (EMNLP 2020) test the linear mapping so: the states of a frozen encoder's layers are summed with weights
(Peters et al., "Deep Contextualized Word Representations", NAACL 2018), and four transformer blocks are trained on the
sum. The mapping of a language is applied to its states at each layer, when it is tested.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from lsar_jax import EncoderSpec, Transform
from lsar_jax.models.architectures.bert import block
from lsar_jax.models.attention import AttentionMask
from lsar_jax.models.dropout import Dropout
from lsar_jax.models.encoder import EncoderConfig
from lsar_jax.models.parts import LayerFactory
from train.encoder_parameters import EncoderParts, Skeleton

__all__ = ["FeatureMix", "Maps", "read_maps"]

# Matrices of each language, for layers 0, 1, ...
Maps = Mapping[str, Float[np.ndarray, "layer dim dim"]]

_BLOCKS = 4
_FLOAT = jnp.dtype("float32")


class FeatureMix:
    """Sums the states of a frozen encoder's layers with trained weights, and runs trained blocks on the sum.

    The weights are softmax-normalised; ``maps``, if given, are applied to the states of each layer first.
    """

    def __init__(self, config: EncoderConfig) -> None:
        self._layers = config.blocks + 1
        sizes = EncoderConfig(
            vocabulary=1, hidden=config.hidden, blocks=0, heads=config.heads, intermediate=4 * config.hidden,
            positions=1, activation="relu", epsilon=1e-5,
        )  # fmt: skip
        blocks = nnx.List([block(sizes, LayerFactory(_FLOAT, _FLOAT)) for _ in range(_BLOCKS)])
        self._skeleton = Skeleton(EncoderParts(blocks, None))
        self._start = self._skeleton.parameters

    def init(self, key: Array) -> dict[str, Any]:
        """Returns random parameters: equal weights of all layers, and blocks drawn by Glorot and Bengio's rule."""
        names = sorted(self._start)
        keys = dict(zip(names, jax.random.split(key, len(names)), strict=True))

        def draw(name: str, value: Array) -> Array:
            if value.ndim != 2:
                return value
            bound = (6 / sum(value.shape)) ** 0.5
            return jax.random.uniform(keys[name], value.shape, jnp.float32, -bound, bound)

        blocks = {name: draw(name, self._start[name]) for name in names}
        return {"mix": jnp.zeros(self._layers, jnp.float32), "blocks": blocks}

    def __call__(
        self,
        parameters: dict[str, Any],
        states: Sequence[Float[Array, "batch length dim"]],
        lengths: Int[Array, "batch segment"],
        dropout: Dropout | None,
        maps: Float[Array, "layer dim dim"] | None = None,
    ) -> Float[Array, "batch length dim"]:
        """Returns the output of the last block."""
        weights = jax.nn.softmax(parameters["mix"])
        mixed = jnp.zeros(states[0].shape, jnp.float32)
        for layer, state in enumerate(states):
            state = state.astype(jnp.float32)
            if maps is not None:
                state = jnp.einsum("bwd,ed->bwe", state, maps[layer], precision=jax.lax.Precision.HIGHEST)
            mixed += weights[layer] * state
        blocks = self._skeleton.filled(parameters["blocks"]).model
        keys = [None] * _BLOCKS if dropout is None else jax.random.split(dropout.key, _BLOCKS)
        mask = AttentionMask.of(lengths, mixed.shape[1])
        for trained, key in zip(blocks, keys, strict=True):
            zeros = None if dropout is None else Dropout(key, dropout.hidden, dropout.attention)
            mixed = trained(mixed, mask, zeros)
        return mixed


def read_maps(folder: Path, spec: EncoderSpec) -> Maps:
    """Returns the matrices of each mapped language that ``python -m train.align --objective linear`` wrote."""
    transforms = []
    for layer in range(spec.layer + 1):
        transform = Transform.load(folder / f"layer-{layer}.safetensors")
        space = replace(spec, layer=layer)
        if transform.source is not None and not transform.source.same_space(space):
            raise ValueError(f"{folder} has maps of {transform.source}, but the encoder is {space}")
        transforms.append(transform)
    codes, target = transforms[0].languages or (), dict(transforms[0].fits[0].parameters).get("target")
    stacked = np.stack([np.asarray(transform.steps[0].arrays()["matrix"]) for transform in transforms])
    return {code: stacked[:, row] for row, code in enumerate(codes) if code != target}
