"""Mean direction: remove the direction of the mean of all sentences, whatever their languages.

arXiv 2511.11041 (2025): the embeddings of many models share a large mean, which takes part in every cosine. With m the
mean of all embeddings divided by its norm::

    y = x - (m^T x) m.

``fit_steering`` removes the direction in which sentences vary most around this mean, and leaves the mean.
"""

import numpy as np

from lsar_jax.moments import common_source, moments_by_language, stack_means
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform

__all__ = ["fit_mean_direction"]


def fit_mean_direction(x: LanguageData, *, source: EncoderSpec | None = None, precise: bool = False) -> Transform:
    """Fits ``y = x - (m^T x) m`` with the direction m of the mean of all sentences, the same for all languages.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]`` or to their moments, weighted by the number of sentences.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: an array or code is invalid, widths or encoders differ, or the mean is zero.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 8)) + 9 * np.eye(8)[3] for code in ("de", "en")}  # planted
      >>> np.abs(lj.transforms.fit_mean_direction(x).steps[0].basis).argmax(axis=0).tolist()
      [3]
    """
    moments = moments_by_language(x, least=1, precise=precise)
    means = stack_means(moments)
    mean = np.average(means, axis=0, weights=[m.count for m in moments.values()])
    norm, rounding = np.linalg.norm(mean), np.finfo(np.float32).eps * np.linalg.norm(means, axis=1).max()
    if norm <= 4 * rounding:
        raise ValueError(f"the mean of all {sum(m.count for m in moments.values())} embeddings is 0: no direction")
    fit = Fit.of("mean-direction", moments, by_language=False)
    return Transform((Step.of(basis=mean[:, None] / norm),), (fit,), common_source(moments, source))
