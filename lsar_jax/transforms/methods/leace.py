"""LEACE: the least change after which no linear classifier can tell apart the languages of the fitted text.

Belrose et al., "LEACE: Perfect linear concept erasure in closed form", NeurIPS 2023. With S the total
covariance of the embeddings and U an orthonormal basis of the span of the differences between the
language means::

    y = x - U (U^T S^-1 U)^-1 U^T S^-1 (x - mean).

That is the paper's ``x - W^+ P W (x - mean)`` with ``W = S^-1/2``: its P projects onto W U. In this form,
the part that is removed lies in the span of the means whatever rounding does to S^-1, so the means of
the languages coincide afterwards. The span is LSAR's at full rank; LSAR projects orthogonally.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import product
from lsar_jax.checks import errors_of
from lsar_jax.moments import common_source, pool_moments
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.base.decompose import decompose
from lsar_jax.transforms.methods.lsar import language_subspace, significant_values

__all__ = ["erasing_functionals", "fit_leace"]


def erasing_functionals(
    covariance: Float[AnyArray, "dim dim"], span: Float[AnyArray, "dim rank"], floor: float | Float[AnyArray, ""]
) -> Float[Any, "dim rank"]:
    """Returns B ``[dim, rank]`` of ``y = x - U B^T (x - mean)``, for U = ``span``, with ``U^T B = I``.

    Pure: works under ``jit`` and ``vmap``, for example over layers; numpy arrays are decomposed by numpy.

    Args:
      covariance: S, the covariance of all embeddings, ``[dim, dim]``.
      span: U, with orthonormal columns, ``[dim, rank]``.
      floor: share of the largest eigenvalue of S below which an eigenvalue counts as 0 (in the pseudo-inverse).
    """
    xp = covariance.__array_namespace__()
    values, vectors = xp.linalg.eigh(covariance)
    large = values > floor * values[-1]
    inverse = xp.where(large, 1 / xp.where(large, values, 1), 0)
    solved = product(vectors * inverse[None], product(vectors.T, span))
    return xp.linalg.solve(product(span.T, solved), solved.T).T


def fit_leace(x: LanguageData, *, source: EncoderSpec | None = None, precise: bool = False) -> Transform:
    """Fits least-squares erasure of the language, one map for all text, in other languages and unlabelled text too.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``, to moments with second moments, or
        ``PooledMoments``; at least two languages, weighted by their number of sentences.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: there are fewer than two languages, an array or code is invalid, widths or encoders differ, moments
        have no second moments, the means do not differ, or the covariance is singular in float32 where they do.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {"de": rng.normal(size=(200, 6)) + 2, "en": rng.normal(size=(200, 6))}
      >>> leace = lj.transforms.fit_leace(x)
      >>> bool(np.allclose(leace(x["de"]).mean(axis=0), leace(x["en"]).mean(axis=0), atol=1e-5))
      True
    """
    pooled = pool_moments(x, least=2, precise=precise)
    total = pooled.total()
    centred = pooled.means - total.mean
    covariance = total.covariance()
    most = min(len(pooled) - 1, pooled.dim)
    span, values = decompose(x, language_subspace, centred, rank=most, precise=precise)
    rank = significant_values(values, centred.shape, precise)
    if not rank:
        raise ValueError(f"the means of {', '.join(pooled)} do not differ; there is no language to erase")
    span = span[:, : min(rank, most)]
    # Eigenvalues are accurate to a few eps of the largest.
    floor = 16 * float(np.finfo(np.float64 if precise else np.float32).eps)
    level = np.trace(covariance) / pooled.dim
    with errors_of("the covariance is singular where the languages differ; use precise=True", np.linalg.LinAlgError):
        functionals = decompose(x, erasing_functionals, covariance / level, span, floor, precise=precise)
    # The two conditions that make the means coincide: U spans their differences, and U^T B = I.
    span, _ = np.linalg.qr(centred.T @ (centred @ span))
    functionals = functionals @ np.linalg.inv(span.T @ functionals)
    fit = Fit.of("leace", pooled, by_language=False)
    step = Step.of(shift=total.mean, basis=functionals, dual=span, offset=total.mean)
    return Transform((step,), (fit,), common_source(pooled, source)).with_sample(x)
