"""Zero the few dimensions in which the means of the languages differ most, found from a few dozen sentences.

After Zhong et al., "Language Lives in Sparse Dimensions: Toward Interpretable and Efficient Multilingual
Control for Large Language Models", EACL 2026 (arXiv 2510.07213). Of a decoder with 4,096 or 5,120 dimensions,
their code takes the 400 of the last layer in which the mean of a language is furthest from that of English
(parallel sentences), or from its own mean at a middle layer (monolingual sentences). To make the decoder
write in a language, it overwrites these with a multiple of the language's mean.

Here the language shall be removed, whichever it is, so one set serves all languages and is set to zero: the
dimensions whose means have the largest variance over languages. For two languages, these are the paper's of
parallel sentences.
"""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float

from lsar_jax.moments import common_source, moments_by_language, stack_means
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.base.limits import DIMENSIONS, check_rank

__all__ = ["fit_sparse_dimensions", "varying_dimensions"]


def varying_dimensions(means: Float[AnyArray, "language dim"], dimensions: int) -> Bool[Any, " dim"]:
    """Returns the mask ``[dim]`` of the dimensions in which the means ``[language, dim]`` have the largest variance.

    Of equal variances, the first dimensions are taken. Pure: works under ``jit`` and ``vmap``.
    """
    xp = means.__array_namespace__()
    order = xp.argsort(-means.var(axis=0), stable=True)
    return xp.argsort(order) < dimensions


def fit_sparse_dimensions(
    x: LanguageData,
    dimensions: Annotated[int | None, DIMENSIONS] = None,
    *,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x`` with zeros in the dimensions in which the languages differ most, the same for all languages.

    In these, ``steps[0].scale`` of the transform is 0.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]`` or to their moments; at least two languages, of which all
        have the same weight.
      dimensions: number of dimensions set to zero; by default a tenth of the width, as in the paper's code.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: there are fewer than two languages, an array or code is invalid, widths or encoders differ, or
        ``dimensions`` is out of range, or more than those in which the means differ.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 32)) + i * np.eye(32)[7] for i, code in enumerate(("de", "en"))}
      >>> np.flatnonzero(lj.transforms.fit_sparse_dimensions(x, 1).steps[0].scale == 0).tolist()  # planted above
      [7]
    """
    moments = moments_by_language(x, least=2, precise=precise)
    means = stack_means(moments)
    dim = means.shape[1]
    count = max(1, dim // 10) if dimensions is None else DIMENSIONS("dimensions", dimensions, dim=dim)
    differ = means.std(axis=0) > np.finfo(np.float32).eps * np.abs(means).max(axis=0)
    check_rank("dimensions", count, int(differ.sum()), f"the means of {', '.join(moments)} differ in")
    out = varying_dimensions(means, count)
    fit = Fit.of("sparse-dimensions", moments, by_language=False, dimensions=count)
    return Transform((Step.of(scale=~out),), (fit,), common_source(moments, source)).with_sample(x)
