"""Centered: subtract the mean of the sentence's language.

Libovicky, Rosa and Fraser, "On the Language Neutrality of Pre-trained Multilingual
Representations", Findings of EMNLP 2020; a baseline of Xie et al. 2022.
"""

from collections.abc import Mapping

import jax.numpy as jnp

from lsar_jax.moments import Moments, moments_by_language, stack_means
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Transform
from lsar_jax.transforms.step import Step

__all__ = ["fit_center"]


def fit_center(
    x: Mapping[str, Embeddings | Moments], *, source: EncoderSpec | None = None, precise: bool = False
) -> Transform:
    """Fits ``y = x - mean of the language``.

    Args:
      x: from language to raw embeddings ``[n, dim]`` or to their moments; one language is
        enough.
      source: the encoder's spec, remembered and checked later.
      precise: whether to sum embeddings in float64; moments come summed.

    Returns:
      A transform that needs the language of each vector.

    Raises:
      ValueError: bad arrays or language codes.
    """
    moments = moments_by_language(x, least=1, precise=precise)
    step = Step(shift=jnp.asarray(stack_means(moments), jnp.float32))
    return Transform((step,), (Fit.of("center", moments, by_language=True),), source)
