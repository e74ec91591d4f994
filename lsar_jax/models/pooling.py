"""Hidden states to one embedding a sentence.

Padding never counts; special tokens do, as in the reference code of every paper that this
library implements, but for ``mean_no_special``. Sums are float32 whatever the compute dtype is.
What a checkpoint applies after one of these (its pooler, Dense layers) is in ``lsar_jax.head``.
"""

import jax.numpy as jnp

from lsar_jax.shapes import Hidden, Lengths, Mask, Pooled
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["POOLINGS", "cls_pool", "max_pool", "mean_no_special_pool", "mean_pool", "pool", "token_mask"]


def token_mask(lengths: Lengths, length: int) -> Mask:
    """Returns True where a token stands: ``[batch, length]`` from ``[batch]``."""
    return jnp.arange(length, dtype=lengths.dtype)[None, :] < lengths[:, None]


def mean_pool(hidden: Hidden, lengths: Lengths) -> Pooled:
    """Returns the mean state of each row's tokens; zero for a row without tokens."""
    return _mean(hidden, token_mask(lengths, hidden.shape[1]), lengths)


def mean_no_special_pool(hidden: Hidden, lengths: Lengths, specials: Specials) -> Pooled:
    """Returns the mean state of the text's own tokens; zero for a row without them.

    Args:
      hidden: ``[batch, length, dim]``.
      lengths: tokens in each row, special tokens counted, ``[batch]``.
      specials: how many tokens at either end of a row are left out. One that the text
        itself spells out in the middle counts as text.
    """
    length = hidden.shape[1]
    inside = token_mask(lengths - specials.after, length) & (jnp.arange(length) >= specials.before)[None, :]
    return _mean(hidden, inside, lengths - specials.before - specials.after)


def cls_pool(hidden: Hidden, lengths: Lengths) -> Pooled:
    """Returns the state of each row's first token; zero for a row without tokens."""
    return jnp.where(lengths[:, None] > 0, hidden[:, 0].astype(jnp.float32), 0.0)


def max_pool(hidden: Hidden, lengths: Lengths) -> Pooled:
    """Returns the largest value of each dimension over a row's tokens; zero without tokens."""
    mask = token_mask(lengths, hidden.shape[1])
    largest = jnp.where(mask[:, :, None], hidden.astype(jnp.float32), -jnp.inf).max(axis=1)
    return jnp.where(lengths[:, None] > 0, largest, 0.0)


POOLINGS = ("mean", "mean_no_special", "cls", "max")


def pool(name: str, hidden: Hidden, lengths: Lengths, specials: Specials) -> Pooled:
    """Returns ``[batch, dim]`` float32 by the pooling called ``name``, one of ``POOLINGS``."""
    if name == "mean_no_special":
        return mean_no_special_pool(hidden, lengths, specials)
    return {"mean": mean_pool, "cls": cls_pool, "max": max_pool}[name](hidden, lengths)


def _mean(hidden: Hidden, mask: Mask, counts: Lengths) -> Pooled:
    # where, not a product: what stands in padding may be infinite or NaN.
    total = jnp.where(mask[:, :, None], hidden.astype(jnp.float32), 0.0).sum(axis=1)
    return total / jnp.maximum(counts, 1).astype(jnp.float32)[:, None]
