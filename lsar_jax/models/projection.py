"""The layers after the pooling: those of a checkpoint (a pooler, Dense, Normalize), and the cut of its embeddings.

BERT's pooler is a Dense layer with tanh on the state of the first token (Devlin et al. 2019). LaBSE normalises the
output of its pooler (Feng et al., "Language-agnostic BERT Sentence Embedding", ACL 2022). sentence-transformers lists
such layers in ``modules.json``. The first dimensions of a Matryoshka embedding are an embedding too (Kusupati et al.,
"Matryoshka Representation Learning", NeurIPS 2022).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float

from lsar_jax.arrays import unit_rows

__all__ = ["TORCH_NAMES", "Dense", "Layer", "Normalize", "Projection", "Truncate"]

# The class names that sentence-transformers writes.
TORCH_NAMES = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "identity": "torch.nn.modules.linear.Identity",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
}
_ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "identity": lambda x: x,
    "relu": jax.nn.relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "sigmoid": jax.nn.sigmoid,
}


@dataclass(frozen=True)
class Normalize:
    """A layer that divides each embedding by its Euclidean length."""


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


Layer = Dense | Normalize | Truncate


class Projection(nnx.Module):
    """Applies layers to pooled embeddings, in their order, in float32."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        dense = [layer for layer in layers if isinstance(layer, Dense)]
        widths = [len(x.bias) if isinstance(x, Dense) else x.dim for x in layers if not isinstance(x, Normalize)]
        self.dim = widths[-1] if widths else None
        self.kernels = nnx.List([nnx.Param(jnp.asarray(layer.weight.T)) for layer in dense])
        self.biases = nnx.List([nnx.Param(jnp.asarray(layer.bias)) for layer in dense])
        # Of each layer, its activation, or itself if it has no weights.
        self.kinds = tuple(layer.activation if isinstance(layer, Dense) else layer for layer in layers)

    def __call__(self, x: Float[jax.Array, "*row inner"]) -> Float[jax.Array, "*row outer"]:
        """Maps pooled embeddings ``[..., inner]`` to the final embeddings ``[..., outer]``."""
        weights = zip(self.kernels, self.biases, strict=True)
        for kind in self.kinds:
            if isinstance(kind, Normalize):
                x = unit_rows(x)
            elif isinstance(kind, Truncate):
                x = x[..., : kind.dim]
            else:
                kernel, bias = next(weights)
                product = jnp.matmul(x, kernel[...], precision=jax.lax.Precision.HIGHEST)
                x = _ACTIVATIONS[kind](product + bias[...])
        return x

    def layers(self) -> list[Layer]:
        """Returns the layers with their weights in host memory."""
        weights = ((np.asarray(k[...]).T, np.asarray(b[...])) for k, b in zip(self.kernels, self.biases, strict=True))
        return [Dense(*next(weights), kind) if isinstance(kind, str) else kind for kind in self.kinds]
