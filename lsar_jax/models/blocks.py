"""The two kinds of blocks: a norm after each residual sum, or before each sublayer.

A block is put together from its sublayers; which they are is the architecture's choice. Residual sums are computed in
float32 and kept in the compute dtype.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from lsar_jax.models.attention import AttentionMask
from lsar_jax.models.dropout import Dropout, drop, independent
from lsar_jax.models.self_attention import SelfAttention
from lsar_jax.shapes import Hidden

__all__ = ["PostNormBlock", "PreNormBlock", "normed", "residual_sum"]


class PostNormBlock(nnx.Module):
    """``x = norm(x + attention(x))``, then ``x = norm(x + feed(x))`` (Vaswani et al., NIPS 2017, section 3.1)."""

    def __init__(self, attention: SelfAttention, attention_norm: Any, feed: Any, feed_norm: Any) -> None:
        self.attention = attention
        self.attention_norm = attention_norm
        self.feed = feed
        self.feed_norm = feed_norm

    def __call__(self, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None) -> Hidden:
        """Returns the next hidden states."""
        weights, attended, fed = independent(dropout, 3)
        change = self.attention(x, mask, weights)
        x = self._written(self.attention_norm(residual_sum(x, change, attended)).astype(x.dtype))
        return self._written(self.feed_norm(residual_sum(x, self.feed(x), fed)).astype(x.dtype))

    def _written(self, x: Hidden) -> Hidden:
        """Returns x; on an NVIDIA GPU, written with each position's vector together, in its dtype."""
        # XLA's GPU compiler would choose [batch, dim, length] because of the mean over the length at the end, which
        # splits each LayerNorm into five kernels, and would keep a float32 copy beside the rounded one. A constraint
        # on the layout would do the same on one GPU, but gathers the whole batch on several.
        if self.attention.kind != "cudnn":
            return x
        return jax.lax.optimization_barrier(x.reshape(-1, x.shape[-1])).reshape(x.shape)


class PreNormBlock(nnx.Module):
    """``x = x + attention(norm(x))``, then ``x = x + feed(norm(x))`` (Xiong et al., ICML 2020).

    Args:
      attention_norm: the norm before attention; None for no norm.
      attention: the attention.
      feed_norm: the norm before the feed-forward layer.
      feed: the feed-forward layer.
      attended_norm: a further norm of what attention adds, if any, as in Gemma 3.
      fed_norm: a further norm of what the feed-forward layer adds, if any.
    """

    def __init__(
        self, attention_norm: Any, attention: SelfAttention, feed_norm: Any, feed: Any, *, attended_norm: Any = None,
        fed_norm: Any = None,
    ) -> None:  # fmt: skip
        self.attention_norm = attention_norm
        self.attention = attention
        self.attended_norm = attended_norm
        self.feed_norm = feed_norm
        self.feed = feed
        self.fed_norm = fed_norm

    def __call__(self, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None) -> Hidden:
        """Returns the next hidden states."""
        weights, attended, fed = independent(dropout, 3)
        change = self.attention(normed(self.attention_norm, x), mask, weights)
        x = residual_sum(x, normed(self.attended_norm, change), attended).astype(x.dtype)
        return residual_sum(x, normed(self.fed_norm, self.feed(normed(self.feed_norm, x))), fed).astype(x.dtype)


def normed(norm: Any, x: Hidden) -> Hidden:
    """Returns x, normalised in float32, in its dtype; with None for the norm, as it is."""
    return x if norm is None else norm(x).astype(x.dtype)


def residual_sum(x: Hidden, change: Hidden, dropout: Dropout | None) -> Hidden:
    """Returns the sum of x and of what a sublayer adds, in float32."""
    return x.astype(jnp.float32) + drop(change, dropout).astype(jnp.float32)
