"""Centered: subtract the mean of the sentence's language.

Libovicky, Rosa and Fraser, "On the Language Neutrality of Pre-trained Multilingual
Representations", Findings of EMNLP 2020; a baseline of Xie et al. 2022.
"""

from lsar_jax.checks import check_flags
from lsar_jax.moments import common_source, moments_by_language, stack_means
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform

__all__ = ["fit_center"]


def fit_center(
    x: LanguageData,
    *,
    per_language: bool = True,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - mean``, with the mean of each language or the mean over languages.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]`` or to their moments; one language is enough.
      per_language: whether to subtract each language's mean, or the unweighted mean over languages, which removes
        anisotropy but nothing specific to a language.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: an array or code is invalid, widths or encoders differ, ``x`` is empty, or a flag is not a bool.

    Example:
      >>> center = lj.transforms.fit_center({"de": np.array([[1.0, 2.0], [3.0, 4.0]]), "en": np.ones((1, 2))})
      >>> center(np.array([[2.0, 0.0]]), "de").tolist()
      [[0.0, -3.0]]
    """
    check_flags(per_language=per_language)
    moments = moments_by_language(x, least=1, precise=precise)
    means = stack_means(moments)
    shift = means if per_language else means.mean(axis=0)
    fit = Fit.of("center", moments, by_language=per_language, **({} if per_language else {"per_language": 0}))
    return Transform((Step.of(shift=shift),), (fit,), common_source(moments, source)).with_sample(x)
