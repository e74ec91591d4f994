"""The small parts of a transformer: linear layers, tables, norms, feed-forward layers.

An architecture puts them together. A ``LayerFactory`` makes them with the dtypes of an encoder; the weights are zero
until a checkpoint is loaded. Products are in the compute dtype, norms in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from lsar_jax.models.product import summed_in_float32
from lsar_jax.shapes import Hidden

__all__ = ["ACTIVATIONS", "RNGS", "FeedForward", "GatedFeedForward", "LayerFactory", "RMSNorm", "unit_rms"]

# BERT uses the exact GELU; the tanh approximation differs from it by up to 5e-4.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "relu": jax.nn.relu,
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), lambda x: jax.nn.gelu(x, approximate=True)),
    **dict.fromkeys(("silu", "swish"), jax.nn.silu),
}

# No random initialisation: every weight comes from a checkpoint. The counter of nnx.Rngs would make tracing 24 blocks
# take a second.
_ZEROS = nnx.initializers.zeros_init()
RNGS: Any = SimpleNamespace(params=partial(jax.random.key, 0))


@dataclass(frozen=True)
class LayerFactory:
    """Makes the layers of an encoder.

    Attributes:
      dtype: compute dtype, float32 or bfloat16.
      param_dtype: dtype of the parameters; norms have float32 in any case.
      attention: kind of attention, as in ``attend``; with ``cudnn``, the encoder is arranged for an NVIDIA GPU.
    """

    dtype: Any
    param_dtype: Any
    attention: str = "xla"

    def linear(self, inner: int, outer: int, *, bias: bool = True) -> nnx.Linear:
        """A linear layer."""
        product = summed_in_float32 if self.dtype == jnp.bfloat16 else jax.lax.dot_general
        return nnx.Linear(
            inner, outer, use_bias=bias, dtype=self.dtype, param_dtype=self.param_dtype, kernel_init=_ZEROS,
            dot_general=product, rngs=RNGS,
        )  # fmt: skip

    def table(self, rows: int, width: int) -> nnx.Embed:
        """A table of embeddings."""
        return nnx.Embed(rows, width, param_dtype=self.param_dtype, embedding_init=_ZEROS, rngs=RNGS)

    def layer_norm(self, width: int, epsilon: float, *, bias: bool = True) -> nnx.LayerNorm:
        """LayerNorm (Ba et al., 2016)."""
        # The fast variance E[x^2] - E[x]^2 loses precision if the mean is large, as with outlier dimensions.
        return nnx.LayerNorm(
            width, epsilon=epsilon, use_bias=bias, use_fast_variance=False, dtype=jnp.float32, rngs=RNGS
        )


class RMSNorm(nnx.Module):
    """``x / sqrt(mean(x^2) + epsilon) * (offset + scale)``, in float32 (Zhang and Sennrich, NeurIPS 2019).

    The published weights of Gemma are relative to an ``offset`` of 1, all others to 0.
    """

    def __init__(self, width: int, epsilon: float, offset: float = 0.0) -> None:
        self.epsilon = epsilon
        self.offset = offset
        self.scale = nnx.Param(jnp.zeros(width, jnp.float32))

    def __call__(self, x: Float[Array, "*row width"]) -> Float[Array, "*row width"]:
        """Returns x, normalised, in float32."""
        return unit_rms(x, self.epsilon) * jnp.expand_dims(self.offset + self.scale[...], range(x.ndim - 1))


def unit_rms(x: Float[Array, "*row width"], epsilon: float) -> Float[Array, "*row width"]:
    """Returns ``x / sqrt(mean(x^2) + epsilon)`` in float32."""
    x = x.astype(jnp.float32)
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + epsilon)


class FeedForward(nnx.Module):
    """``down(activation(up(x)))`` (Vaswani et al., NIPS 2017, section 3.3)."""

    def __init__(self, factory: LayerFactory, hidden: int, inner: int, activation: str) -> None:
        # On an NVIDIA GPU in bfloat16, the tanh approximation of the exact GELU: cuBLAS computes it within the product
        # before, so that the layer is written once and not twice. It differs by at most 5e-4; bfloat16 rounds a number
        # of 0.13 as far.
        fast = factory.attention == "cudnn" and factory.dtype == jnp.bfloat16 and activation == "gelu"
        self.activation = "gelu_new" if fast else activation
        self.up = factory.linear(hidden, inner)
        self.down = factory.linear(inner, hidden)

    def __call__(self, x: Hidden) -> Hidden:
        """Returns what the layer adds to the hidden states."""
        return self.down(ACTIVATIONS[self.activation](self.up(x)))


class GatedFeedForward(nnx.Module):
    """``down(activation(gate(x)) * up(x))`` (Shazeer, "GLU Variants Improve Transformer", 2020).

    Args:
      factory: makes the layers.
      hidden: width of a hidden state.
      inner: width of the gate.
      activation: one of ``ACTIVATIONS``.
      fused: whether a checkpoint has gate and up as one matrix: ``"gate_up"`` or ``"up_gate"``, by their order.
      bias: whether gate and up have a bias.
      out_bias: whether ``down`` has a bias; by default as ``bias``.
    """

    def __init__(
        self, factory: LayerFactory, hidden: int, inner: int, activation: str, *, fused: str | None = None,
        bias: bool = False, out_bias: bool | None = None,
    ) -> None:  # fmt: skip
        self.activation = activation
        self.fused = fused
        if fused is None:
            self.gate = factory.linear(hidden, inner, bias=bias)
            self.up = factory.linear(hidden, inner, bias=bias)
        else:
            self.both = factory.linear(hidden, 2 * inner, bias=bias)
        self.down = factory.linear(inner, hidden, bias=bias if out_bias is None else out_bias)

    def __call__(self, x: Hidden) -> Hidden:
        """Returns what the layer adds to the hidden states."""
        if self.fused is None:
            gate, up = self.gate(x), self.up(x)
        else:
            first, second = jnp.split(self.both(x), 2, axis=-1)
            gate, up = (first, second) if self.fused == "gate_up" else (second, first)
        return self.down(ACTIVATIONS[self.activation](gate) * up)
