"""Hidden states to one embedding a sentence.

Padding never counts; special tokens do, as in the reference code of every paper that this
library implements. Sums are float32 whatever the compute dtype is.
"""

import jax.numpy as jnp

from lsar_jax.shapes import Hidden, Lengths, Mask, Pooled

__all__ = ["POOLINGS", "cls_pool", "max_pool", "mean_pool", "token_mask"]


def token_mask(lengths: Lengths, length: int) -> Mask:
    """Returns True where a token stands: ``[batch, length]`` from ``[batch]``."""
    return jnp.arange(length, dtype=lengths.dtype)[None, :] < lengths[:, None]


def mean_pool(hidden: Hidden, lengths: Lengths) -> Pooled:
    """Returns the mean state of each row's tokens; zero for a row without tokens."""
    mask = token_mask(lengths, hidden.shape[1])
    # where, not a product: what stands in padding may be infinite or NaN.
    total = jnp.where(mask[:, :, None], hidden.astype(jnp.float32), 0.0).sum(axis=1)
    return total / jnp.maximum(lengths, 1).astype(jnp.float32)[:, None]


def cls_pool(hidden: Hidden, lengths: Lengths) -> Pooled:
    """Returns the state of each row's first token; zero for a row without tokens."""
    return jnp.where(lengths[:, None] > 0, hidden[:, 0].astype(jnp.float32), 0.0)


def max_pool(hidden: Hidden, lengths: Lengths) -> Pooled:
    """Returns the largest value of each dimension over a row's tokens; zero without tokens."""
    mask = token_mask(lengths, hidden.shape[1])
    largest = jnp.where(mask[:, :, None], hidden.astype(jnp.float32), -jnp.inf).max(axis=1)
    return jnp.where(lengths[:, None] > 0, largest, 0.0)


POOLINGS = {"mean": mean_pool, "cls": cls_pool, "max": max_pool}
