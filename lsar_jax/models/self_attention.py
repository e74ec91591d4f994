"""Self-attention: the layers around ``attend``."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
from flax import nnx

from lsar_jax.models.attention import AttentionMask, attend
from lsar_jax.models.dropout import Dropout
from lsar_jax.models.parts import LayerFactory
from lsar_jax.models.rotary import Rotary
from lsar_jax.models.segments import positions_of
from lsar_jax.shapes import Hidden

__all__ = ["AttentionConfig", "SelfAttention"]


@dataclass(frozen=True)
class AttentionConfig:
    """Options of self-attention.

    Attributes:
      heads: number of query heads.
      groups: number of key and value heads, each for ``heads // groups`` query heads (Ainslie et al., "GQA", EMNLP
        2023); by default as many as ``heads``.
      width: width of a head; by default, together the heads are as wide as a hidden state.
      bias: whether the linear layers have a bias.
      out_bias: whether the last of them has one; by default as ``bias``.
      fused: whether a checkpoint has query, key and value as one matrix, in this order.
      rotary: turns queries and keys by their positions.
      scale: factor of the scores, by default ``width ** -0.5``.
      causal: as in ``AttentionMask``.
      window: as in ``AttentionMask``.
      cap: as in ``AttentionMask``.
    """

    heads: int
    groups: int | None = None
    width: int | None = None
    bias: bool = True
    out_bias: bool | None = None
    fused: bool = False
    rotary: Rotary | None = None
    scale: float | None = None
    causal: bool = False
    window: int | None = None
    cap: float | None = None


class SelfAttention(nnx.Module):
    """Self-attention of several heads (Vaswani et al., NIPS 2017, section 3.2.2).

    Args:
      factory: makes the layers.
      hidden: width of a hidden state.
      config: the options.
      norm: makes a norm of queries, and one of keys, given the width of a head.
    """

    def __init__(
        self, factory: LayerFactory, hidden: int, config: AttentionConfig, norm: Callable[[int], Any] | None = None
    ) -> None:
        self.kind = factory.attention
        self.config = config
        self.width = config.width or hidden // config.heads
        inner, shared = config.heads * self.width, (config.groups or config.heads) * self.width
        if config.fused:
            self.inputs = factory.linear(hidden, inner + 2 * shared, bias=config.bias)
        else:
            self.query = factory.linear(hidden, inner, bias=config.bias)
            self.key = factory.linear(hidden, shared, bias=config.bias)
            self.value = factory.linear(hidden, shared, bias=config.bias)
        self.query_norm = None if norm is None else norm(self.width)
        self.key_norm = None if norm is None else norm(self.width)
        self.out = factory.linear(inner, hidden, bias=config.bias if config.out_bias is None else config.out_bias)

    def __call__(self, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None) -> Hidden:
        """Returns what attention adds to ``x``; of ``mask``, only the segments are used."""
        config = self.config
        mask = replace(mask, causal=config.causal, window=config.window, cap=config.cap)
        query, key, value = self._heads(x)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query).astype(query.dtype), self.key_norm(key).astype(key.dtype)
        if config.rotary is not None:
            positions = positions_of(mask.lengths, x.shape[1])
            query, key = config.rotary(query, positions), config.rotary(key, positions)
            if config.rotary.beta:
                query *= config.rotary.query_scale(positions).astype(query.dtype)
        mixed = attend(self.kind, query, key, value, mask, config.scale, dropout)
        return self.out(mixed.reshape(*x.shape[:2], -1))

    def _heads(self, x: Hidden) -> tuple[jax.Array, jax.Array, jax.Array]:
        shape = (*x.shape[:2], -1, self.width)
        config = self.config
        if not config.fused:
            query, key, value = (f(self._alone(x, f)).reshape(shape) for f in (self.query, self.key, self.value))
            return query, key, value
        every = self.inputs(x).reshape(shape)
        at = config.heads, config.heads + (config.groups or config.heads)
        return every[:, :, : at[0]], every[:, :, at[0] : at[1]], every[:, :, at[1] :]

    def _alone(self, x: Hidden, layer: nnx.Linear) -> Hidden:
        """Returns x; on an NVIDIA GPU, for the product of this layer alone."""
        # XLA's GPU compiler would join two products of the same input, and then add the bias of each in a kernel that
        # copies its half of the result. The bias is in the barrier because equal barriers would be joined.
        if self.kind != "cudnn" or layer.bias is None:
            return x
        return jax.lax.optimization_barrier((x, layer.bias[...]))[0]
