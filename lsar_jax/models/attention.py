"""Scaled dot-product attention (Vaswani et al., NIPS 2017, equation 1), by what suits a device.

Written plainly, the scores of a full batch go to the memory of the device and back: 0.8 GB a block for 32,768 tokens in
rows of 512. On NVIDIA GPUs, cuDNN's flash attention avoids this. On TPU, the rows of a batch are taken a few at a
time, so that XLA keeps their scores in the fast memory of the core.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lsar_jax.models.dropout import Dropout, zeroed
from lsar_jax.models.segments import segments_of
from lsar_jax.shapes import Lengths

__all__ = ["AttentionMask", "PerGroup", "PerHead", "attend", "attend_with_dropout", "attention_for"]

# Queries, and what is mixed for them; keys or values.
PerHead = Float[Array, "batch length head part"]
PerGroup = Float[Array, "batch length group part"]

# cuDNN's flash attention takes half precision and head widths that are multiples of 8, up to 128. It works on tiles of
# 64 or 128 positions of one row, so that the short rows of a single query waste most of its work. On an H100, four
# blocks of XLM-R base took 4.45 ms with it and 4.74 ms without at 32 positions, and 4.01 and 4.83 ms at 64; fewer were
# not measured.
_FLASH_FROM = 32

# Bytes of scores in float32 that are kept at a time: half of the fast memory of a v5e core.
_SCORES = 1 << 26


@partial(jax.tree_util.register_dataclass, data_fields=["lengths", "segments"], meta_fields=["causal", "window"])
@dataclass(frozen=True)
class AttentionMask:
    """Which positions a position attends to: those of its segment, if they are not after it, or not too far away.

    Attributes:
      lengths: number of tokens of each segment, ``[batch, segment]``.
      segments: segment of each position, ``[batch, length]``; padding is a segment of its own.
      causal: whether a position attends to itself and those before it alone.
      window: how many positions before it, and after it, a position attends to at most; None for all.
    """

    lengths: Any
    segments: Any
    causal: bool = False
    window: int | None = None

    @classmethod
    def of(cls, lengths: Lengths, length: int, *, causal: bool = False, window: int | None = None) -> "AttentionMask":
        """Returns the mask of rows of ``length`` positions."""
        return cls(lengths, segments_of(lengths, length), causal, window)

    def allowed(self) -> Bool[Array, "batch length length"]:
        """Returns whether each position, of axis 1, attends to each position, of axis 2."""
        allowed = jnp.asarray(self.segments)[:, :, None] == self.segments[:, None, :]
        column = jnp.arange(self.segments.shape[1], dtype=jnp.int32)
        # Segments are not interrupted: two positions are as far apart in a row as in their sentence.
        ahead = column[None, :] - column[:, None]
        if self.causal:
            allowed &= ahead <= 0
        return allowed if self.window is None else allowed & (abs(ahead) <= self.window)


def attention_for(device: jax.Device) -> str:
    """Returns ``rows`` on TPU, ``cudnn`` on an NVIDIA GPU with its flash attention (Ampere and later), else ``xla``."""
    if device.platform == "tpu":
        return "rows"
    capability = str(getattr(device, "compute_capability", ""))
    return "cudnn" if device.platform == "gpu" and capability[:1].isdigit() and float(capability) >= 8 else "xla"


def attend(
    kind: str, query: PerHead, key: PerGroup, value: PerGroup, mask: AttentionMask, scale: float | None = None
) -> PerHead:
    """Mixes the values that each position attends to.

    Args:
      kind: ``xla``; ``cudnn``, for cuDNN's flash attention where it can run, otherwise as ``xla``; or ``rows``, for the
        scores of a few rows of the batch at a time if those of all are many.
      query: ``[batch, length, head, part]``.
      key: keys, ``[batch, length, group, part]``; a group serves ``head / group`` heads, which follow each other.
      value: values.
      mask: which positions a position attends to.
      scale: factor of the scores, by default ``part ** -0.5``.
    """
    steps = _steps(query) if kind == "rows" else 1
    if steps == 1:
        return _whole(kind, query, key, value, mask, scale)

    def cut(x: jax.Array) -> jax.Array:
        # A step takes every so many rows: in training, where rows are split over devices, each has a share of it.
        return jnp.reshape(x, (-1, steps, *x.shape[1:])).swapaxes(0, 1)

    def some(part: Any) -> PerHead:
        query, key, value, lengths, segments = part
        return _whole("xla", query, key, value, replace(mask, lengths=lengths, segments=segments), scale)

    mixed = jax.lax.map(some, tuple(map(cut, (query, key, value, mask.lengths, mask.segments))))
    return mixed.swapaxes(0, 1).reshape(query.shape)


def attend_with_dropout(
    query: PerHead, key: PerGroup, value: PerGroup, mask: AttentionMask, dropout: Dropout, scale: float | None = None
) -> PerHead:
    """Attends with dropout of the weights, which jax's own attention does not offer; arguments as of ``attend``."""
    repeats = query.shape[2] // key.shape[2]
    key, value = (jnp.repeat(x, repeats, axis=2) for x in (key, value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=jnp.float32)
    scores = jnp.where(mask.allowed()[:, None], scores * (scale or query.shape[-1] ** -0.5), -jnp.inf)
    weights = zeroed(jax.nn.softmax(scores), dropout.attention, dropout.key).astype(value.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value)


def _whole(
    kind: str, query: PerHead, key: PerGroup, value: PerGroup, mask: AttentionMask, scale: float | None
) -> PerHead:
    width = query.shape[-1]
    fits = query.dtype == jnp.bfloat16 and width % 8 == 0 and width <= 128 and query.shape[1] >= _FLASH_FROM
    flash = kind == "cudnn" and fits
    # In bfloat16, jax's own attention mixes dtypes, which strict promotion does not allow.
    with jax.numpy_dtype_promotion("standard"):
        attention = partial(jax.nn.dot_product_attention, query, key, value, scale=scale)
        if flash and mask.lengths.shape[1] == 1 and mask.window is None:
            # For one sentence a row, cuDNN needs no matrix. It yields NaN if there is no position to attend to.
            lengths = jnp.maximum(mask.lengths[:, 0], 1)
            return attention(key_value_seq_lengths=lengths, is_causal=mask.causal, implementation="cudnn")
        return attention(mask=mask.allowed()[:, None], implementation="cudnn" if flash else "xla")


def _steps(query: PerHead) -> int:
    """Returns the least number of equal parts of the batch whose scores fit, or that of the rows if none fits."""
    batch, length, heads, _ = query.shape
    most = max(1, _SCORES // (4 * heads * length**2))
    return next(steps for steps in range(1, batch + 1) if batch % steps == 0 and batch // steps <= most)
