"""What a checkpoint applies to its pooled embedding: the pooler, Dense layers, Normalize.

BERT's pooler is a Dense with tanh on the first token's state (Devlin et al. 2019). LaBSE's
embedding is that, then normalised (Feng et al., "Language-agnostic BERT Sentence Embedding",
ACL 2022). sentence-transformers lists such layers in ``modules.json``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float

from lsar_jax.arrays import unit_rows

__all__ = ["DENSE_ACTIVATIONS", "TORCH_NAMES", "Dense", "Normalize", "Projection"]

# By the names that sentence-transformers writes.
TORCH_NAMES = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "identity": "torch.nn.modules.linear.Identity",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
}
DENSE_ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "identity": lambda x: x,
    "relu": jax.nn.relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "sigmoid": jax.nn.sigmoid,
}


@dataclass(frozen=True)
class Normalize:
    """Division by the Euclidean length."""

    name = "normalize"


@dataclass(frozen=True)
class Dense:
    """One layer, ``activation(x W^T + b)``.

    Attributes:
      weight: W, ``[out, in]`` float32.
      bias: b, ``[out]`` float32.
      activation: one of ``DENSE_ACTIVATIONS``.
      name: in ``EncoderSpec.pooling``.
    """

    weight: np.ndarray
    bias: np.ndarray
    activation: str
    name: str = "dense"


class Projection(nnx.Module):
    """Applies layers to pooled embeddings, in float32.

    Args:
      layers: in their order.
    """

    def __init__(self, layers: Sequence[Dense | Normalize]) -> None:
        dense = [layer for layer in layers if isinstance(layer, Dense)]
        self.dim = len(dense[-1].bias) if dense else None
        self.kernels = nnx.List([nnx.Param(jnp.asarray(layer.weight.T)) for layer in dense])
        self.biases = nnx.List([nnx.Param(jnp.asarray(layer.bias)) for layer in dense])
        self.kinds = tuple(layer.activation if isinstance(layer, Dense) else layer.name for layer in layers)

    def __call__(self, x: Float[jax.Array, "*row inner"]) -> Float[jax.Array, "*row outer"]:
        """Returns the embedding, ``[..., outer]``, of a pooled one, ``[..., inner]``."""
        weights = zip(self.kernels, self.biases, strict=True)
        for kind in self.kinds:
            if kind == Normalize.name:
                x = unit_rows(x)
            else:
                kernel, bias = next(weights)
                product = jnp.matmul(x, kernel[...], precision=jax.lax.Precision.HIGHEST)
                x = DENSE_ACTIVATIONS[kind](product + bias[...])
        return x

    def layers(self) -> list[Dense | Normalize]:
        """Returns the layers, with their weights on the host."""
        weights = zip(self.kernels, self.biases, strict=True)
        result: list[Dense | Normalize] = []
        for kind in self.kinds:
            if kind == Normalize.name:
                result.append(Normalize())
            else:
                kernel, bias = next(weights)
                result.append(Dense(np.asarray(kernel[...]).T, np.asarray(bias[...]), kind))
        return result
