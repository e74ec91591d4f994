"""Scaled dot-product attention (Vaswani et al., NIPS 2017, equation 1), by what suits a device.

Written plainly, the scores of a full batch go to the memory of the device and back: 0.8 GB a block for 32,768 tokens in
rows of 512. On NVIDIA GPUs, cuDNN's flash attention avoids this. Elsewhere, the rows of a batch are taken a few at a
time, so that XLA keeps their scores in fast memory; if one row alone has too many, its queries are. Where a position
attends to a window of a long row, blocks of queries meet the keys around them alone, so that the cost grows with the
length and not with its square.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from lsar_jax.models.dropout import Dropout
from lsar_jax.models.segments import segments_of
from lsar_jax.models.written_out import PerGroup, PerHead, written_out
from lsar_jax.shapes import Lengths

__all__ = ["AttentionMask", "PerGroup", "PerHead", "attend", "attention_for"]

# cuDNN's flash attention takes half precision and head widths that are multiples of 8, up to 128. It works on tiles of
# 64 or 128 positions of one row, so that the short rows of a single query waste most of its work. On an H100, four
# blocks of XLM-R base took 4.45 ms with it and 4.74 ms without at 32 positions, and 4.01 and 4.83 ms at 64; fewer were
# not measured.
_FLASH_FROM = 32

# Bytes of scores in float32 that are kept at a time. For ``rows``, half of the fast memory of a v5e core; with as
# much, four rows of 2,048 positions took a CPU half the time that they took with all of their scores. An NVIDIA GPU
# keeps those of 32,768 tokens in rows of 512 with 16 heads.
_SCORES = {"rows": 1 << 26, "xla": 1 << 26, "cudnn": 1 << 30}

# The least number of queries in a block, which is the side of a TPU's matrix unit.
_BLOCK = 128


@partial(jax.tree_util.register_dataclass, data_fields=["lengths", "segments"], meta_fields=["causal", "window", "cap"])
@dataclass(frozen=True)
class AttentionMask:
    """The positions that a position attends to, its segment, up to itself if causal, and within the window; how much.

    Attributes:
      lengths: number of tokens of each segment, ``[batch, segment]``.
      segments: segment of each position, ``[batch, length]``; padding is a segment of its own.
      causal: whether a position attends to itself and those before it alone.
      window: how many positions before it, and after it, a position attends to at most; None for all.
      cap: the limit of the scores s, which become ``cap tanh(s / cap)``, as in Gemma 2; None for no limit.
    """

    lengths: Any
    segments: Any
    causal: bool = False
    window: int | None = None
    cap: float | None = None

    @classmethod
    def of(cls, lengths: Lengths, length: int, *, causal: bool = False, window: int | None = None) -> "AttentionMask":
        """Returns the mask of rows of ``length`` positions."""
        return cls(lengths, segments_of(lengths, length), causal, window)


def attention_for(device: jax.Device) -> str:
    """Returns ``rows`` on TPU, ``cudnn`` on an NVIDIA GPU with its flash attention (Ampere and later), else ``xla``."""
    if device.platform == "tpu":
        return "rows"
    capability = str(getattr(device, "compute_capability", ""))
    return "cudnn" if device.platform == "gpu" and capability[:1].isdigit() and float(capability) >= 8 else "xla"


def attend(
    kind: str, query: PerHead, key: PerGroup, value: PerGroup, mask: AttentionMask, scale: float | None = None,
    dropout: Dropout | None = None,
) -> PerHead:  # fmt: skip
    """Mixes the values that each position attends to; NaN at a position with a value that is not finite.

    Args:
      kind: ``xla`` on a CPU, or ``rows`` on TPU, for the scores of a few rows of the batch, or queries, at a time if
        those of all are many; or ``cudnn``, for cuDNN's flash attention where it can run, and otherwise the same.
      query: ``[batch, length, head, part]``.
      key: keys, ``[batch, length, group, part]``; a group serves ``head / group`` heads, which follow each other.
      value: values.
      mask: which positions a position attends to.
      scale: factor of the scores, by default ``part ** -0.5``.
      dropout: of the weights, which jax's own attention does not offer; all scores are then kept.
    """
    if dropout is not None and dropout.attention:
        allowed = _allowed(mask, mask.segments, mask.segments, 0)
        return written_out(query, key, value, allowed, scale, mask.cap, dropout)
    length, width = query.shape[1], query.shape[3]
    if mask.window is not None and length <= mask.window + 1:
        mask = replace(mask, window=None)  # no two positions are further apart
    fits = query.dtype == jnp.bfloat16 and width % 8 == 0 and width <= 128 and length >= _FLASH_FROM
    flash = kind == "cudnn" and fits and mask.cap is None
    if flash and mask.lengths.shape[1] == 1 and (mask.causal or mask.window is None):
        return _flash_of_sentences(query, key, value, mask, scale)
    # A weight of 0 times infinity would be NaN in each segment of the row; so, only this position is.
    finite = (jnp.isfinite(key) & jnp.isfinite(value)).all(axis=3, keepdims=True)
    key, value = (jnp.where(finite, x, 0) for x in (key, value))
    rows, first = _Rows(query, key, value, mask.segments, mask.segments), 0
    # With half of the keys, blocks took 0.4 to 0.8 of the time on a CPU; with three quarters, 0.8 to 1.7.
    if mask.window is not None and 2 * sum(_around(mask)) <= length:
        rows, first = _in_blocks(rows, mask), -_around(mask)[0]
    mix = partial(_mixed, kind="flash") if flash else partial(_in_steps, kind=kind)
    mixed = mix(rows, mask, first, scale)
    mixed = mixed.reshape(query.shape[0], -1, *query.shape[2:])[:, :length]
    return jnp.where(jnp.repeat(finite, query.shape[2] // key.shape[2], axis=2), mixed, jnp.nan)


class _Rows(NamedTuple):
    """Queries with the keys and values that they may attend to, which need not be as many."""

    query: Any
    key: Any
    value: Any
    segments: Any
    key_segments: Any


def _flash_of_sentences(
    query: PerHead, key: PerGroup, value: PerGroup, mask: AttentionMask, scale: float | None
) -> PerHead:
    """Mixes with cuDNN where a row is one sentence, which needs no matrix of who attends to whom."""
    if mask.window is None:
        # It yields NaN if there is no position to attend to.
        limits: dict[str, Any] = {"key_value_seq_lengths": jnp.maximum(mask.lengths[:, 0], 1)}
    else:
        # Padding comes after the sentence, which does not attend to what comes after.
        limits = {"local_window_size": (mask.window, 0)}
    with jax.numpy_dtype_promotion("standard"):
        return jax.nn.dot_product_attention(
            query, key, value, scale=scale, is_causal=mask.causal, implementation="cudnn", **limits
        )


def _mixed(rows: _Rows, mask: AttentionMask, first: Any, scale: float | None, kind: str) -> PerHead:
    """Mixes the values of rows whose first key is at position ``first``, if their first query is at 0."""
    allowed = _allowed(mask, rows.segments, rows.key_segments, first)
    if kind == "xla" or mask.cap is not None:
        return written_out(rows.query, rows.key, rows.value, allowed, scale, mask.cap, on_cpu=kind == "xla")
    # In bfloat16, jax's own attention mixes dtypes, which strict promotion does not allow.
    with jax.numpy_dtype_promotion("standard"):
        return jax.nn.dot_product_attention(
            rows.query, rows.key, rows.value, mask=allowed[:, None], scale=scale,
            implementation="cudnn" if kind == "flash" else "xla",
        )  # fmt: skip


def _allowed(
    mask: AttentionMask, segments: Int[Array, "batch query"], key_segments: Int[Array, "batch key"], first: Any
) -> Bool[Array, "batch query key"]:
    """Returns whether a query attends to a key; arguments as of ``_mixed``."""
    allowed = segments[:, :, None] == key_segments[:, None, :]
    query, key = (jnp.arange(x.shape[1], dtype=jnp.int32) for x in (segments, key_segments))
    # Segments are not interrupted: two positions are as far apart in a row as in their sentence.
    ahead = first + key[None, None, :] - query[None, :, None]
    if mask.causal:
        allowed &= ahead <= 0
    return allowed if mask.window is None else allowed & (abs(ahead) <= mask.window)


def _around(mask: AttentionMask) -> tuple[int, int, int]:
    """Returns how many keys a block has before its queries, beside them, and after them."""
    assert mask.window is not None
    # Multiples of 8, the rows of a TPU's registers; cuDNN needs even numbers.
    reach = -(-mask.window // 8) * 8
    return reach, max(_BLOCK, reach), 0 if mask.causal else reach


def _in_blocks(rows: _Rows, mask: AttentionMask) -> _Rows:
    """Returns blocks of queries as rows of their own, each with the keys within the window around it."""
    before, block, after = _around(mask)
    batch, length = rows.segments.shape
    count = -(-length // block)

    def pad(x: jax.Array, axis: int, start: int, end: int) -> jax.Array:
        # No query of a sentence is in segment -1.
        widths = [(start, end) if one == axis else (0, 0) for one in range(x.ndim)]
        return jnp.pad(x, widths, constant_values=-1 if x.dtype == jnp.int32 else 0)

    def cut(x: jax.Array) -> jax.Array:
        return pad(x, 1, 0, count * block - length).reshape(batch, count, block, *x.shape[2:])

    def extend(x: jax.Array) -> jax.Array:
        x = cut(x)
        parts = [pad(x[:, :-1, block - before :], 1, 1, 0), x, pad(x[:, 1:, :after], 1, 0, 1)]
        return jnp.concatenate(parts, axis=2)

    query, key, value, segments, key_segments = rows
    blocks = _Rows(cut(query), extend(key), extend(value), cut(segments), extend(key_segments))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), blocks)


def _in_steps(rows: _Rows, mask: AttentionMask, first: int, scale: float | None, kind: str) -> PerHead:
    """Attends in as few equal parts of the batch as keep the scores of each within the bytes of a device."""
    batch, length, heads, _ = rows.query.shape
    most = _SCORES[kind]
    bytes_of_query = 4 * heads * rows.key.shape[1]
    fit = max(1, most // (bytes_of_query * length))
    steps = next(steps for steps in range(1, batch + 1) if batch % steps == 0 and batch // steps <= fit)
    size = max(_BLOCK, most // bytes_of_query // _BLOCK * _BLOCK)

    def mix(rows: _Rows) -> PerHead:
        return _by_query(rows, mask, first, scale, kind, size)

    if steps == 1:
        return mix(rows)
    # A step takes every so many rows: in training, where rows are split over devices, each has a share of it.
    cut = jax.tree.map(lambda x: jnp.reshape(x, (-1, steps, *x.shape[1:])).swapaxes(0, 1), rows)
    return jax.lax.map(mix, cut).swapaxes(0, 1).reshape(rows.query.shape)


def _by_query(rows: _Rows, mask: AttentionMask, first: int, scale: float | None, kind: str, size: int) -> PerHead:
    """Mixes for ``size`` queries of each row at a time."""
    batch, length = rows.segments.shape
    if length <= size:
        return _mixed(rows, mask, first, scale, kind)
    count = -(-length // size)

    def cut(x: jax.Array) -> jax.Array:
        widths = [(0, 0), (0, count * size - length), *[(0, 0)] * (x.ndim - 2)]
        return jnp.pad(x, widths).reshape(batch, count, size, *x.shape[2:]).swapaxes(0, 1)

    # The gradients of keys and values are sums over the blocks, in float32 like those of a product.
    dtype, key, value = rows.key.dtype, rows.key.astype(jnp.float32), rows.value.astype(jnp.float32)

    # Checkpointed because the scores of all blocks, which do not fit, would be kept for the gradient.
    @jax.checkpoint
    def mix(block: tuple[jax.Array, jax.Array, jax.Array]) -> PerHead:
        query, segments, start = block
        part = _Rows(query, key.astype(dtype), value.astype(dtype), segments, rows.key_segments)
        return _mixed(part, mask, first - start, scale, kind)

    starts = jnp.arange(count, dtype=jnp.int32) * size
    mixed = jax.lax.map(mix, (cut(rows.query), cut(rows.segments), starts))
    return mixed.swapaxes(0, 1).reshape(batch, -1, *rows.query.shape[2:])[:, :length]
