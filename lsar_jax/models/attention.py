"""Scaled dot-product attention (Vaswani et al., NIPS 2017, equation 1), by what suits a device.

Written plainly, the scores of a full batch go to the memory of the device and back: 0.8 GB a block for 32,768 tokens in
sentences of 512. On NVIDIA GPUs, cuDNN's flash attention avoids this. On TPU, the rows of a batch are taken a few at a
time, so that XLA keeps their scores in the fast memory of the core.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsar_jax.shapes import Lengths

__all__ = ["FLASH_FROM", "PerHead", "attend", "attention_for"]

# Queries, keys or values.
PerHead = Float[Array, "batch length head part"]

# cuDNN's flash attention takes half precision and head widths that are multiples of 8, up to 128. It works on tiles of
# 64 or 128 positions of one sentence, so that short ones waste most of its work. On an H100, four blocks of XLM-R base
# took 4.45 ms with it and 4.74 ms without at 32 positions, and 4.01 and 4.83 ms at 64; fewer were not measured.
FLASH_FROM = 32

# Bytes of scores in float32 that are kept at a time: half of the fast memory of a v5e core.
_SCORES = 1 << 26


def attention_for(device: jax.Device) -> str:
    """Returns ``rows`` on TPU, ``cudnn`` on an NVIDIA GPU with its flash attention (Ampere and later), else ``xla``."""
    if device.platform == "tpu":
        return "rows"
    capability = str(getattr(device, "compute_capability", ""))
    return "cudnn" if device.platform == "gpu" and capability[:1].isdigit() and float(capability) >= 8 else "xla"


def attend(kind: str, query: PerHead, key: PerHead, value: PerHead, lengths: Lengths) -> PerHead:
    """Mixes the values that each position attends to.

    Args:
      kind: ``xla``; ``cudnn``, for cuDNN's flash attention where it can run, otherwise as ``xla``; or ``rows``, for the
        scores of a few rows of the batch at a time if those of all are many.
      query: ``[batch, length, head, part]``, as ``key`` and ``value``.
      key: keys.
      value: values.
      lengths: number of positions of each row that others attend to, at least 1, ``[batch]``.
    """
    steps = _steps(query) if kind == "rows" else 1
    if steps == 1:
        return _whole(kind, query, key, value, lengths)

    def cut(x: jax.Array) -> jax.Array:
        # A step takes every so many rows: in training, where rows are split over devices, each has a share of it.
        return x.reshape(-1, steps, *x.shape[1:]).swapaxes(0, 1)

    parts = (cut(query), cut(key), cut(value), cut(jnp.asarray(lengths)))
    mixed = jax.lax.map(lambda part: _whole("xla", *part), parts)
    return mixed.swapaxes(0, 1).reshape(query.shape)


def _whole(kind: str, query: PerHead, key: PerHead, value: PerHead, lengths: Lengths) -> PerHead:
    width = query.shape[-1]
    fits = query.dtype == jnp.bfloat16 and width % 8 == 0 and width <= 128 and query.shape[1] >= FLASH_FROM
    # In bfloat16, jax's own attention mixes dtypes, which strict promotion does not allow.
    with jax.numpy_dtype_promotion("standard"):
        return jax.nn.dot_product_attention(
            query,
            key,
            value,
            key_value_seq_lengths=lengths,
            implementation="cudnn" if kind == "cudnn" and fits else "xla",
        )


def _steps(query: PerHead) -> int:
    """Returns the least number of equal parts of the batch whose scores fit, or that of the rows if none fits."""
    batch, length, heads, _ = query.shape
    most = max(1, _SCORES // (4 * heads * length**2))
    return next(steps for steps in range(1, batch + 1) if batch % steps == 0 and batch // steps <= most)
