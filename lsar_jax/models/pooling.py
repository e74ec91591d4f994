"""Pooling of hidden states into one embedding per sentence.

Padding is always ignored. Special tokens are included, as in the reference code of every paper that this library
implements, except by ``mean_no_special``. Sums are in float32, whatever the compute dtype is. The layers that a
checkpoint applies after pooling (its pooler, Dense layers) are in ``lsar_jax.models.projection``.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lsar_jax.shapes import Hidden, Lengths, Mask, Pooled
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["POOLINGS", "pool", "token_mask"]

POOLINGS = ("mean", "mean_no_special", "cls", "max")


def token_mask(lengths: Lengths, length: int) -> Mask:
    """Returns a mask ``[batch, length]`` that is True at tokens, from lengths ``[batch]``."""
    return jnp.arange(length, dtype=lengths.dtype)[None, :] < lengths[:, None]


def pool(name: str, hidden: Hidden, lengths: Lengths, specials: Specials) -> Pooled:
    """Returns embeddings ``[batch, dim]`` in float32; zero for a row without tokens.

    Args:
      name: one of ``POOLINGS``.
      hidden: hidden states, ``[batch, length, dim]``.
      lengths: number of tokens in each row, including special tokens, ``[batch]``.
      specials: numbers of tokens that ``mean_no_special`` leaves out at the ends of a row.
    """
    length = hidden.shape[1]
    if name == "cls":
        return jnp.where(lengths[:, None] > 0, hidden[:, 0].astype(jnp.float32), 0.0)
    if name == "max":
        mask = token_mask(lengths, length)
        largest = jnp.where(mask[:, :, None], hidden.astype(jnp.float32), -jnp.inf).max(axis=1)
        return jnp.where(lengths[:, None] > 0, largest, 0.0)
    if name == "mean":
        return _mean(hidden, token_mask(lengths, length), lengths)
    if name != "mean_no_special":
        raise ValueError(f"pooling {name!r} is not one of {', '.join(POOLINGS)}")
    inside = token_mask(lengths - specials.after, length) & (jnp.arange(length) >= specials.before)[None, :]
    return _mean(hidden, inside, lengths - specials.before - specials.after)


def _mean(hidden: Hidden, mask: Mask, counts: Lengths) -> Pooled:
    total = jax.lax.platform_dependent(hidden, mask, cuda=_sum_by_window, default=_sum)
    return total / jnp.maximum(counts, 1).astype(jnp.float32)[:, None]


def _sum(hidden: Hidden, mask: Mask) -> Pooled:
    # where, not a product: padding may hold infinity or NaN.
    return jnp.where(mask[:, :, None], hidden.astype(jnp.float32), 0.0).sum(axis=1)


@jax.custom_vjp
def _sum_by_window(hidden: Hidden, mask: Mask) -> Pooled:
    """Returns the same sum, as windows of a matrix of positions.

    For the other form, XLA's GPU compiler writes the states of a layer once more, in float32 and transposed.
    """
    batch, length, dim = hidden.shape
    states = jnp.where(mask[:, :, None], hidden.astype(jnp.float32), 0.0).reshape(batch * length, dim)
    return jax.lax.reduce_window(states, np.float32(0), jax.lax.add, (length, 1), (length, 1), "VALID")


def _window_forward(hidden: Hidden, mask: Mask) -> tuple[Pooled, tuple[Mask, Any]]:
    return _sum_by_window(hidden, mask), (mask, jnp.zeros((), hidden.dtype))


def _window_backward(saved: tuple[Mask, Any], gradient: Pooled) -> tuple[Hidden, None]:
    # That of a window would be a sum over as many positions again.
    mask, zero = saved
    return jnp.where(mask[:, :, None], gradient[:, None, :].astype(zero.dtype), zero), None


_sum_by_window.defvjp(_window_forward, _window_backward)
