"""The layers after the pooling: a pooler, Dense, LayerNorm, Normalize, whole numbers, and a cut.

BERT's pooler is a Dense layer with tanh on the state of the first token (Devlin et al. 2019). LaBSE normalises the
output of its pooler (Feng et al., "Language-agnostic BERT Sentence Embedding", ACL 2022). sentence-transformers lists
such layers in ``modules.json``. The first dimensions of a Matryoshka embedding are an embedding too (Kusupati et al.,
"Matryoshka Representation Learning", NeurIPS 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float

from lsar_jax.arrays import unit_rows
from lsar_jax.checks import whole_number
from lsar_jax.models.parts import ACTIVATIONS

__all__ = ["TORCH_NAMES", "Dense", "Int8", "Layer", "LayerNorm", "Normalize", "Projection", "Truncate", "width_after"]

# The class names that sentence-transformers writes.
_TORCH = dict.fromkeys(("Tanh", "ReLU", "GELU", "Sigmoid", "SiLU"), "activation") | {"Identity": "linear"}
TORCH_NAMES = {name.lower(): f"torch.nn.modules.{module}.{name}" for name, module in _TORCH.items()}
_ACTIVATIONS = ACTIVATIONS | {"tanh": jnp.tanh, "identity": lambda x: x, "sigmoid": jax.nn.sigmoid}
_NORM = "layer_norm"


@dataclass(frozen=True)
class Normalize:
    """A layer that divides each embedding by its Euclidean length."""


@dataclass(frozen=True)
class Int8:
    """A layer that maps to the whole numbers from -127 to 127, ``round(127 tanh(x))``, as pplx-embed-v1 does."""


@dataclass(frozen=True)
class LayerNorm:
    """A layer norm, ``(x - mean) / sqrt(variance + 1e-5) * w + b``, as torch has it by default.

    Attributes:
      weight: w, ``[dim]`` float32.
      bias: b, ``[dim]`` float32.
    """

    weight: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True)
class Dense:
    """A dense layer, ``activation(x W^T + b)``.

    Attributes:
      weight: W, ``[out, in]`` float32.
      bias: b, ``[out]`` float32.
      activation: one of the keys of ``TORCH_NAMES``.
    """

    weight: np.ndarray
    bias: np.ndarray
    activation: str


@dataclass(frozen=True)
class Truncate:
    """A layer that keeps the first ``dim`` dimensions of each embedding."""

    dim: int


Layer = Dense | Int8 | LayerNorm | Normalize | Truncate


def width_after(layers: Sequence[Layer], width: int, of: str) -> int:
    """Returns the width of embeddings after the layers ``of`` a checkpoint, given the width before them.

    Raises:
      ValueError: a layer takes another width.
    """
    for layer in layers:
        if isinstance(layer, Dense | LayerNorm) and (taken := layer.weight.shape[-1]) != width:
            name = "dense layer" if isinstance(layer, Dense) else "layer norm"
            raise ValueError(f"a {name} of {of} takes width {taken}, its input has width {width}")
        if isinstance(layer, Truncate):
            width = whole_number("dim", layer.dim, 1, width, f"the width of the embeddings of {of}")
        elif isinstance(layer, Dense):
            width = len(layer.weight)
    return width


class Projection(nnx.Module):
    """Applies layers to pooled embeddings, in their order, in float32.

    Attributes:
      dim: width of the embeddings after the layers; None if the layers do not say.
      kinds: of each layer, the activation of a Dense, ``layer_norm``, or the layer itself, which has no weights.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        weighted = [layer for layer in layers if isinstance(layer, Dense | LayerNorm)]
        wide = [layer for layer in layers if not isinstance(layer, Normalize | Int8)]
        widths = [x.dim if isinstance(x, Truncate) else len(x.bias) for x in wide]
        self.dim = widths[-1] if widths else None
        self.kernels = nnx.List([nnx.Param(jnp.asarray(layer.weight.T)) for layer in weighted])
        self.biases = nnx.List([nnx.Param(jnp.asarray(layer.bias)) for layer in weighted])
        self.kinds = tuple(
            layer.activation if isinstance(layer, Dense) else _NORM if isinstance(layer, LayerNorm) else layer
            for layer in layers
        )

    def __call__(self, x: Float[jax.Array, "*row inner"]) -> Float[jax.Array, "*row outer"]:
        """Maps pooled embeddings ``[..., inner]`` to the final embeddings ``[..., outer]``."""
        weights = zip(self.kernels, self.biases, strict=True)
        for kind in self.kinds:
            if isinstance(kind, Normalize):
                x = unit_rows(x)
            elif isinstance(kind, Int8):
                x = jnp.round(127 * jnp.tanh(x))
            elif isinstance(kind, Truncate):
                x = x[..., : kind.dim]
            else:
                kernel, bias = (weight[...] for weight in next(weights))
                bias = jnp.expand_dims(bias, range(x.ndim - 1))
                if kind == _NORM:
                    x = jax.nn.standardize(x, variance=x.var(axis=-1, keepdims=True), epsilon=1e-5)
                    x = x * kernel.reshape(bias.shape) + bias
                else:
                    x = _ACTIVATIONS[kind](jnp.matmul(x, kernel, precision=jax.lax.Precision.HIGHEST) + bias)
        return x

    def layers(self) -> list[Layer]:
        """Returns the layers with their weights in host memory."""
        weights = ((np.asarray(k[...]).T, np.asarray(b[...])) for k, b in zip(self.kernels, self.biases, strict=True))
        return [
            kind if not isinstance(kind, str) else LayerNorm(*next(weights)) if kind == _NORM
            else Dense(*next(weights), kind)
            for kind in self.kinds
        ]  # fmt: skip
