"""Steering: remove the first principal component of the embeddings of all languages.

Goncharov, Kondusov and Zaytsev, "Language steering in latent space to mitigate unintended code-switching",
2025 (arXiv 2510.13849). They take the first principal component v of the hidden states of translations,
which differ in nothing but the language, and move a decoder's by::

    y = x - s (v^T x) v.

This is their projection, s = 1, for embeddings. The larger s with which they write against the language of a
prompt would give embeddings another language, rather than none. Of text that is not parallel, the first
component may be a topic.
"""

from typing import Annotated

import numpy as np

from lsar_jax.checks import whole_number
from lsar_jax.moments import common_source, pool_moments
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.base.decompose import decompose
from lsar_jax.transforms.base.limits import DIMENSIONS, check_rank
from lsar_jax.transforms.methods.lir import principal_directions

__all__ = ["fit_steering"]


def fit_steering(
    x: LanguageData,
    components: Annotated[int, DIMENSIONS] = 1,
    *,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - V V^T x`` with V the top principal components of all embeddings, the same for all languages.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``, best of translations, to moments with second moments, or
        ``PooledMoments``; at least two languages, weighted by their number of sentences.
      components: directions removed; the paper takes 1.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: there are fewer than two languages, an array or code is invalid, widths or encoders differ, moments
        have no second moments, or ``components`` exceeds the dimensions in which the embeddings vary.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 8)) + 9 * i * np.eye(8)[3] for i, code in enumerate(("de", "en"))}
      >>> np.abs(lj.transforms.fit_steering(x).steps[0].basis).argmax(axis=0).tolist()  # planted above
      [3]
    """
    pooled = pool_moments(x, least=2, precise=precise)
    total = pooled.total()
    most = min(total.dim, total.count - 1)
    count = whole_number("components", components, 1, most, "the sentences and dimensions")
    covariance = total.covariance()
    covariance /= np.trace(covariance) or 1.0
    basis, values = decompose(x, principal_directions, covariance, components=count, precise=precise)
    # Eigenvalues are accurate to a few eps of the largest.
    eps = np.finfo(np.float64 if precise else np.float32).eps
    significant = int((values > 16 * eps * values[0]).sum())
    check_rank("components", count, significant, "the embeddings vary in")
    fit = Fit.of("steering", pooled, by_language=False, components=count)
    return Transform((Step.of(basis=basis),), (fit,), common_source(pooled, source)).with_sample(x)
