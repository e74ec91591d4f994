"""Zero the outlier dimensions: the few whose means are so large that they dominate every cosine.

Hämmerl et al., "Exploring Anisotropy and Outliers in Multilingual Language Models for
Cross-Lingual Semantic Sentence Similarity", Findings of ACL 2023. With v the mean over languages
of their mean embeddings, dimension i is an outlier if::

    |v_i| > mean(v) + sigma std(v),

where the standard deviation divides by n - 1. Their second set is the union over languages of each
language's ten dimensions with the largest means. They leave English out of both.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lsar_jax.checks import positive_number, whole_number
from lsar_jax.moments import common_source, moments_by_language, stack_means
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.base.limits import DIMENSIONS, positive

__all__ = ["fit_outliers", "largest_dimensions", "outlier_dimensions", "outlier_mask", "zero_dimensions"]


def largest_dimensions(means: Float[AnyArray, "language dim"], largest: int) -> Bool[Array, " dim"]:
    """Returns the mask ``[dim]`` of each language's ``largest`` dimensions by size of the means ``[language, dim]``.

    Pure: works under ``jit`` (``largest`` static) and ``vmap``.
    """
    _, chosen = jax.lax.top_k(jnp.abs(jnp.asarray(means, jnp.float32)), largest)
    return jnp.zeros(means.shape[1], bool).at[chosen.ravel()].set(True)


def outlier_dimensions(mean: Float[AnyArray, "*layer dim"], sigma: float = 3.0) -> Bool[Any, "*layer dim"]:
    """Returns which entries of a mean embedding are outliers: ``|v_i| > m + sigma s``.

    m and s are the mean and the sample standard deviation of v's entries. As in Haemmerl et al.'s
    code, ``|v_i|`` is compared, not ``|v_i - m|``.

    Args:
      mean: v, ``[dim]``, or one v per layer, ``[layer, dim]``; in the paper, the unweighted mean over languages.
      sigma: number of standard deviations; 3 or 5 in the paper.

    Raises:
      ValueError: there are fewer than two dimensions, a value is not finite, or ``sigma`` is not positive.
    """
    sigma = positive_number("sigma", sigma)
    if mean.ndim < 1 or mean.shape[-1] < 2:
        raise ValueError(f"the mean has shape {mean.shape}; expected [..., dim] with dim at least 2")
    if not isinstance(mean, jax.core.Tracer) and not mean.__array_namespace__().isfinite(mean).all():
        raise ValueError("the mean holds NaN or infinity")
    return outlier_mask(mean, sigma)


def outlier_mask(
    mean: Float[AnyArray, "*layer dim"], sigma: float | Float[AnyArray, ""] = 3.0
) -> Bool[Any, "*layer dim"]:
    """Returns what ``outlier_dimensions`` does, without checks. Pure: works under ``jit`` and ``vmap``."""
    xp = mean.__array_namespace__()
    # Scaled to a largest entry of 1: squares of small numbers underflow in float32.
    largest = xp.abs(mean).max(axis=-1, keepdims=True)
    v = mean / xp.where(largest > 0, largest, 1.0).astype(mean.dtype)
    return xp.abs(v) > v.mean(axis=-1, keepdims=True) + sigma * v.std(axis=-1, keepdims=True, ddof=1)


def fit_outliers(
    x: LanguageData,
    sigma: Annotated[float, positive] = 3.0,
    *,
    largest: Annotated[int | None, DIMENSIONS] = None,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x`` with zeros in the outlier dimensions, the same for all languages.

    In these, ``steps[0].scale`` of the transform is 0.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]`` or to their moments; all languages have the
        same weight. Leave out English to follow the paper.
      sigma: standard deviations above the mean from which a dimension is an outlier; the paper uses 3 and 5.
      largest: instead of ``sigma``, the number of dimensions with the largest means to take from
        each language; their union is zeroed. The paper uses 10.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: an array or code is invalid, widths or encoders differ, ``sigma`` is not positive, ``largest`` is out
        of range, or the embeddings have fewer than two dimensions.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 32)) + 30 * np.eye(32)[7] for code in ("de", "fr")}  # dimension 7 is planted
      >>> np.flatnonzero(lj.transforms.fit_outliers(x).steps[0].scale == 0).tolist()
      [7]
    """
    moments = moments_by_language(x, least=1, precise=precise)
    means = stack_means(moments)
    parameters: dict[str, int | float]
    if largest is None:
        parameters = {"sigma": positive_number("sigma", sigma)}
        out = outlier_dimensions(means.mean(axis=0), parameters["sigma"])
    else:
        largest = DIMENSIONS("largest", largest, dim=means.shape[1])
        parameters = {"largest": largest}
        out = np.asarray(largest_dimensions(means, largest))
    fit = Fit.of("outliers", moments, by_language=False, **parameters)
    return Transform((Step.of(scale=~out),), (fit,), common_source(moments, source)).with_sample(x)


def zero_dimensions(dimensions: Sequence[int], dim: int, *, source: EncoderSpec | None = None) -> Transform:
    """Returns ``y = x`` with zeros in the given dimensions, to study the effect of single ones.

    Raises:
      ValueError: ``dim``, or a dimension, is out of range.
    """
    scale = np.ones(whole_number("dim", dim, 1, 1 << 20, "the width of the embeddings"), np.float32)
    chosen = [whole_number("a dimension", index, 0, dim - 1, "the dimensions") for index in dimensions]
    scale[chosen] = 0
    fit = Fit("zeroed", dim, (), (), (("dimensions", " ".join(map(str, chosen))),))
    return Transform((Step.of(scale=scale),), (fit,), source)
