"""Pooling of hidden states into one embedding per sentence.

Padding is always ignored. Special tokens are included, as in the reference code of every paper that this library
implements, except by ``mean_no_special``. Sums are in float32, whatever the compute dtype is. The layers that a
checkpoint applies after pooling (its pooler, Dense layers) are in ``lsar_jax.models.projection``.
"""

import jax
import jax.numpy as jnp

from lsar_jax.models.segments import inside, starts_of
from lsar_jax.shapes import Hidden, Lengths, Pooled
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["POOLINGS", "pool"]

POOLINGS = ("mean", "mean_no_special", "cls", "max", "last")


def pool(name: str, hidden: Hidden, lengths: Lengths, specials: Specials) -> Pooled:
    """Returns embeddings ``[batch, segment, dim]`` in float32; zero for a segment without tokens.

    Args:
      name: one of ``POOLINGS``.
      hidden: hidden states, ``[batch, length, dim]``; those of padding must be finite.
      lengths: number of tokens of each segment, including special tokens, ``[batch, segment]``.
      specials: numbers of tokens that ``mean_no_special`` leaves out at the ends of a segment.
    """
    length, there = hidden.shape[1], jnp.asarray(lengths)[:, :, None] > 0
    if name in ("cls", "last"):
        at = starts_of(lengths) + (0 if name == "cls" else jnp.maximum(lengths, 1) - 1)
        # An empty segment may begin past the end of its row.
        states = jnp.take_along_axis(hidden, jnp.minimum(at, length - 1)[:, :, None], axis=1)
        return jnp.where(there, states.astype(jnp.float32), 0.0)
    if name == "max":
        mask = inside(lengths, length)[:, :, :, None]
        return jnp.where(there, jnp.where(mask, hidden[:, None].astype(jnp.float32), -jnp.inf).max(axis=2), 0.0)
    if name not in POOLINGS:
        raise ValueError(f"pooling {name!r} is not one of {', '.join(POOLINGS)}")
    before, after = specials if name == "mean_no_special" else (0, 0)
    counts = jnp.maximum(lengths - (before + after), 1).astype(jnp.float32)
    return _sums(inside(lengths, length, before, after), hidden) / counts[:, :, None]


def _sums(mask: jax.Array, hidden: Hidden) -> Pooled:
    """Returns the sum of the hidden states of each segment, as a product with a matrix of zeros and ones."""
    # Zeros and ones are exact in any dtype, and the sums are float32.
    return jax.lax.dot_general(
        mask.astype(hidden.dtype), hidden, (((2,), (1,)), ((0,), (0,))),
        precision=jax.lax.Precision.HIGHEST if hidden.dtype == jnp.float32 else None,
        preferred_element_type=jnp.float32,
    )  # fmt: skip
