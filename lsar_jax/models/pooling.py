"""Pooling of hidden states into one embedding per sentence.

Padding is always ignored. Special tokens are included, as in the reference code of every paper that this library
implements, except by ``mean_no_special``. Sums are in float32, whatever the compute dtype is. Poolings joined by ``+``,
such as ``mean+cls``, are concatenated in this order. The layers that a checkpoint applies after pooling (its pooler,
Dense layers) are in ``lsar_jax.models.projection``.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from lsar_jax.checks import check_choice
from lsar_jax.models.segments import inside, starts_of
from lsar_jax.shapes import Hidden, Lengths, Pooled
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["POOLINGS", "pool", "pooled_width"]

# The weight of a token in ``weighted_mean`` is its place in the sentence, 1, 2, ... (Muennighoff, "SGPT: GPT Sentence
# Embeddings for Semantic Search", 2022).
POOLINGS = ("mean", "mean_no_special", "mean_sqrt_len", "weighted_mean", "cls", "max", "last")


def pooled_width(name: str, hidden: int) -> int:
    """Returns the width of the embeddings of hidden states of this width."""
    return len(name.split("+")) * hidden


def pool(name: str, hidden: Hidden, lengths: Lengths, specials: Specials, prompt: int = 0) -> Pooled:
    """Returns embeddings ``[batch, segment, dim]`` in float32; zero for a segment without tokens.

    Args:
      name: one of ``POOLINGS``, or several joined by ``+``, which are concatenated.
      hidden: hidden states, ``[batch, length, dim]``; one that is not finite makes its segment NaN, and no other.
      lengths: number of tokens of each segment, including special tokens, ``[batch, segment]``.
      specials: numbers of tokens that ``mean_no_special`` leaves out at the ends of a segment.
      prompt: number of tokens, special ones included, that are left out at the beginning of each segment. The weights
        of ``weighted_mean`` count them.
    """
    if "+" in name:
        parts = [pool(part, hidden, lengths, specials, prompt) for part in name.split("+")]
        return jnp.concatenate(parts, axis=2)
    check_choice("pooling", name, POOLINGS)
    # 0 times infinity would be NaN in each segment of the row.
    finite = jnp.isfinite(hidden).all(axis=2)
    lost = (inside(lengths, hidden.shape[1]) & ~finite[:, None]).any(axis=2, keepdims=True)
    return jnp.where(lost, jnp.nan, _pooled(name, jnp.where(finite[:, :, None], hidden, 0), lengths, specials, prompt))


def _pooled(name: str, hidden: Hidden, lengths: Lengths, specials: Specials, prompt: int) -> Pooled:
    length, there = hidden.shape[1], jnp.asarray(lengths)[:, :, None] > prompt
    if name in ("cls", "last"):
        at = starts_of(lengths) + (prompt if name == "cls" else jnp.maximum(lengths, 1) - 1)
        # An empty segment may begin past the end of its row.
        states = jnp.take_along_axis(hidden, jnp.minimum(at, length - 1)[:, :, None], axis=1)
        return jnp.where(there, states.astype(jnp.float32), 0.0)
    if name == "max":
        mask = inside(lengths, length, prompt)[:, :, :, None]
        return jnp.where(there, jnp.where(mask, hidden[:, None].astype(jnp.float32), -jnp.inf).max(axis=2), 0.0)
    if name == "weighted_mean":
        places = jnp.arange(1, length + 1, dtype=jnp.int32)[None, None] - starts_of(lengths)[:, :, None]
        weights = jnp.where(inside(lengths, length, prompt), places, 0).astype(jnp.float32)
        # Other than zeros and ones, the weights of long sentences are not exact in bfloat16.
        return _sums(weights, hidden.astype(jnp.float32)) / jnp.maximum(weights.sum(axis=2, keepdims=True), 1.0)
    before, after = (max(specials.before, prompt), specials.after) if name == "mean_no_special" else (prompt, 0)
    counts = jnp.maximum(lengths - (before + after), 1).astype(jnp.float32)
    counts = jnp.sqrt(counts) if name == "mean_sqrt_len" else counts
    return _sums(inside(lengths, length, before, after), hidden) / counts[:, :, None]


def _sums(weights: jax.Array, hidden: Hidden) -> Float[jax.Array, "batch segment dim"]:
    """Returns the weighted sum of the hidden states of each segment, as a product of matrices."""
    # Zeros and ones are exact in any dtype, and the sums are float32.
    return jax.lax.dot_general(
        weights.astype(hidden.dtype), hidden, (((2,), (1,)), ((0,), (0,))),
        precision=jax.lax.Precision.HIGHEST if hidden.dtype == jnp.float32 else None,
        preferred_element_type=jnp.float32,
    )  # fmt: skip
