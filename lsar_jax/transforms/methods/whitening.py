"""ZCA whitening: every direction gets the same variance, without a rotation of the axes.

The map is::

    W = D (L + eps)^-1/2 D^T,   y = W (x - mean)

with D L D^T the eigendecomposition of the covariance over features (Bell and Sejnowski 1997;
Kessy, Lewin and Strimmer 2018), as Hämmerl et al., "Exploring Anisotropy and Outliers in
Multilingual Language Models for Cross-Lingual Semantic Sentence Similarity", Findings of ACL 2023,
print it. Their code instead decomposes the covariance between the sentences, which mixes the
evaluated sentences with each other; ``whiten_samples`` does that, to reproduce their numbers.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import padded_rows, product
from lsar_jax.checks import check_flags, positive_number
from lsar_jax.moments import Moments, common_source, covariances, moments_by_language, pool_moments
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.base.decompose import decompose
from lsar_jax.transforms.base.limits import positive

__all__ = ["fit_whitening", "whiten_samples", "zca"]


def zca(covariance: Float[AnyArray, "dim dim"], eps: float | Float[AnyArray, ""]) -> Float[Any, "dim dim"]:
    """Returns the symmetric ``(C + eps I)^-1/2`` of a covariance C, ``[dim, dim]``; eps is in the unit of C.

    Pure: works under ``jit`` and ``vmap``, and under ``grad`` where no two eigenvalues are nearly equal; numpy
    decomposes a numpy array. Eigenvalues that are negative by rounding count as 0.
    """
    xp = covariance.__array_namespace__()
    values, vectors = xp.linalg.eigh(covariance)
    return product(vectors / xp.sqrt(xp.maximum(values, 0) + eps)[None], vectors.T)


def fit_whitening(
    x: LanguageData,
    eps: Annotated[float, positive] = 1e-3,
    *,
    absolute: bool = False,
    per_language: bool = False,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = W (x - mean)``, with one W for all languages or one for each.

    Models of today mostly lose by it (arXiv 2511.11041; ``docs/explanation/transforms.md``).

    Args:
      x: mapping from language to raw embeddings ``[n, dim]`` or to moments with second moments
        (``PooledMoments`` suffice for a shared whitening).
      eps: added to the eigenvalues; bounds the amplification of directions without variance, of which there are many
        if there are fewer sentences than dimensions.
      absolute: whether ``eps`` is absolute, as in the papers (1e-5), or a share of the mean eigenvalue.
      per_language: whether each language has a mean and a covariance, or all share the pooled embeddings' own, with
        languages weighted by their number of sentences.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``. If eps is below float32's rounding of
        the eigenvalues, they always are.

    Raises:
      ValueError: an array or code is invalid, widths or encoders differ, moments have no second moments, ``eps`` is not
        a positive number, or the embeddings do not vary.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = np.linspace(1, 9, 6) * rng.normal(size=(500, 6)) + 5
      >>> y = lj.transforms.fit_whitening({"de": x[:200], "en": x[200:]}, eps=1e-6)(x)
      >>> bool(np.allclose(np.cov(y.T), np.eye(6), atol=1e-2)), bool(np.allclose(y.mean(axis=0), 0, atol=1e-4))
      (True, True)
    """
    check_flags(absolute=absolute, per_language=per_language)
    eps = positive_number("eps", eps)
    moments: Mapping[str, Moments]
    if per_language:
        moments = groups = moments_by_language(x, least=1, second_moment=True, precise=precise)
    else:
        moments = pool_moments(x, precise=precise)
        groups = {"all languages together": moments.total()}
    matrices = []
    for code, covariance in zip(groups, covariances(groups), strict=True):
        level = np.trace(covariance) / len(covariance)
        if not level > 0:
            raise ValueError(f"{code}: the embeddings do not vary; there is nothing to whiten")
        relative = eps / level if absolute else eps
        # The largest eigenvalue is at most the Frobenius norm; an eps below its float32 rounding is noise.
        if not precise and relative < 64 * np.finfo(np.float32).eps * np.linalg.norm(covariance) / level:
            return fit_whitening(x, eps, absolute=absolute, per_language=per_language, source=source, precise=True)
        whitened = decompose(x, zca, covariance / level, relative, precise=precise, fast=per_language)
        matrices.append(whitened / np.sqrt(level))
    means = [m.mean for m in groups.values()]
    matrix, mean = (np.stack(parts) if per_language else parts[0] for parts in (matrices, means))
    options = {name: 1 for name, given in (("absolute", absolute), ("per_language", per_language)) if given}
    fit = Fit.of("whitening", moments, by_language=per_language, eps=eps, **options)
    return Transform((Step.of(shift=mean, matrix=matrix),), (fit,), common_source(moments, source)).with_sample(x)


def whiten_samples(x: Float[np.ndarray, "sentence dim"], eps: float = 1e-5) -> Float[np.ndarray, "sentence dim"]:
    """Whitens embeddings of one language, ``[n, dim]``, over sentences, as Hämmerl et al.'s published code does.

    The eigenvectors belong to the covariance between the sentences, so that a vector depends on all others in
    ``x``, and at most ``dim`` sentences end up almost equally far from each other. It cannot be applied to new text.
    With more sentences than dimensions, the published code's general eigendecomposition returns eigenvectors for the
    eigenvalue 0 that are not orthogonal; here they are.

    Raises:
      ValueError: n is less than 2, a value is not finite in float32, or ``eps`` is not a positive number.
    """
    eps = positive_number("eps", eps)
    padded_rows({"embeddings": x}, least=2, unit=False)  # checks the values
    centred = np.asarray(x, np.float64)
    centred = centred - centred.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(centred))
    return (vectors / np.sqrt(np.maximum(values, 0) + eps)) @ (vectors.T @ centred)
