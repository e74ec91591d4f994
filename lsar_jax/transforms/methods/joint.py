"""The joint subspace of means and second moments: LSAR, the mean over languages, and where the languages vary apart.

Xie et al. 2022 (LSAR) name as a limitation that their subspace holds the means' differences alone. The second
moments of the languages are ``C_l + m_l m_l^T``, with their means m_l and covariances C_l. So what they differ in is in
the span of the means, which is LSAR's with the mean over languages, and in the range of the differences of the C_l.

With Q the projection onto the complement of the means, C the mean of the ``Q C_l Q`` over languages and e its mean
eigenvalue, the top eigenvectors V of::

    mean over l of (H (Q C_l Q - C) H)^2,   H = (C + eps e I)^-1/2,

are the directions in which the languages' variances differ most *relative to the variance that they share*, and
``H^-1 V`` spans the part of the embeddings that does: if the embeddings of language l are a sum of meaning, distributed
alike in all, and of ``B u_l``, with a covariance of u_l of its own, ``C_l - C`` has the span of B, and so has
``H^-1 V``. The means and these directions are removed orthogonally.

For means this is sliced inverse regression (Li 1991), for covariances sliced average variance estimation (Cook and
Weisberg 1991), of the language given the embedding. The metric H matters: the differences of sampled covariances
are largest where the variance is, in the directions of meaning, and without H those would be removed.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import product
from lsar_jax.checks import positive_number, whole_number
from lsar_jax.moments import Moments, common_source, covariances, moments_by_language, stack_means
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform, fix_signs
from lsar_jax.transforms.base.limits import Limit, check_rank, positive
from lsar_jax.transforms.methods.lir import top_directions
from lsar_jax.transforms.methods.lsar import fit_lsar

__all__ = ["fit_joint", "scatter_directions"]

_COMPONENTS = Limit(1, lambda languages, dim, **_: dim - languages, "the dimensions that {languages} means leave")


def scatter_directions(
    covariances: Sequence[Float[AnyArray, "dim dim"]] | Float[AnyArray, "language dim dim"],
    span: Float[AnyArray, "dim rank"],
    components: int,
    eps: float | Float[AnyArray, ""] = 1e-3,
) -> tuple[Float[Any, "dim components"], Float[Any, " components"]]:
    """Returns an orthonormal basis ``[dim, components]`` of where the languages vary differently, and the eigenvalues.

    Pure: works under ``jit`` (``components`` static) and ``vmap``, for example over layers; numpy decomposes numpy
    arrays.

    Args:
      covariances: C_l, the covariance of each language, ``[dim, dim]``.
      span: directions that are removed already, with orthonormal columns, ``[dim, rank]``; the basis is orthogonal to
        them.
      components: number of columns of the basis, at most ``dim - rank``.
      eps: added to the eigenvalues of the mean covariance, as a share of the mean eigenvalue.
    """
    xp = span.__array_namespace__()
    mean = sum(covariances[1:], start=covariances[0]) / len(covariances)

    def inside(symmetric: Float[Any, "dim dim"]) -> Float[Any, "dim dim"]:
        """Q C Q, in products with the few columns of the span."""
        left = symmetric - product(product(symmetric, span), span.T)
        return left - product(span, product(span.T, left))

    shared = inside(mean)
    shared = (shared + shared.T) / 2 + eps * xp.trace(shared) / len(shared) * xp.eye(len(shared), dtype=shared.dtype)
    # Any R with R R^T = H does for H^1/2: that of Cholesky needs no eigenvalues.
    root = xp.linalg.cholesky(shared)
    inverse = xp.linalg.inv(root)
    # One language at a time: of many, all together would take several times the memory of their covariances.
    squares = xp.zeros_like(mean)
    for covariance in covariances:
        rows = product(product(inverse, inside(covariance - mean)), inverse.T)
        squares = squares + product(rows.T, rows)
    directions, values = top_directions(squares / len(covariances), components)
    basis, _ = xp.linalg.qr(product(root, directions))
    return basis, values


def fit_joint(
    x: LanguageData,
    components: Annotated[int, _COMPONENTS] = 1,
    *,
    eps: Annotated[float, positive] = 1e-3,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - B B^T x``, B the basis of the means and of where the languages vary differently, for all text.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``, or to moments with second moments; at least two
        languages, of which all have the same weight, and better thousands of sentences of each than dozens: where the
        languages vary alike, the directions are chance.
      components: directions removed besides the means' directions, which are as many as the languages.
      eps: added to the eigenvalues of the covariance that the languages share, as a share of their mean.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: there are fewer than two languages, an array or code is invalid, widths or encoders differ, moments
        have no second moments or are pooled, a language has one sentence, the means span too few dimensions,
        ``components`` exceeds the directions in which the languages vary differently, or ``eps`` is not a positive
        number.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> spread = {code: np.where(np.arange(8) == 5, i, 1) for i, code in enumerate(("de", "en", "fr"))}
      >>> x = {code: of * rng.normal(size=(2000, 8)) for code, of in spread.items()}  # of dimension 5: 0, 1 and 2
      >>> basis = lj.transforms.fit_joint(x, 1).steps[0].basis
      >>> round(float(np.linalg.norm(basis[5])), 1)
      1.0
    """
    eps = positive_number("eps", eps)
    moments = moments_by_language(x, least=2, second_moment=True, precise=precise)
    span = _span_with_mean(
        np.asarray(fit_lsar(moments, precise=precise).steps[0].arrays()["basis"], np.float64), moments
    )
    dim, rank = span.shape
    whole_number("components", components, 1, dim - rank, f"the dimensions that {rank} of the means leave")
    by_language = covariances(moments)
    if not any(of.any() for of in by_language):
        raise ValueError("in no language do the embeddings vary; give more than copies of one sentence")
    basis, values = scatter_directions(by_language, span, components, eps)
    # Further directions are those of rounding, or of the means again; values are squares of relative differences.
    significant = int((values > max(1e-6 * values[0], 1e-8)).sum())
    check_rank("components", components, significant, "the languages vary differently in")
    fit = Fit.of("joint", moments, by_language=False, components=components, eps=eps)
    both = np.concatenate([span, fix_signs(basis)], axis=1)
    return Transform((Step.of(basis=both),), (fit,), common_source(moments, source)).with_sample(x)


def _span_with_mean(
    span: Float[np.ndarray, "dim rank"], moments: Mapping[str, Moments]
) -> Float[np.ndarray, "dim more"]:
    """Adds the direction of the mean over languages to a basis, unless it has it already."""
    mean = stack_means(moments).mean(axis=0)
    rest = mean - span @ (span.T @ mean)
    if np.linalg.norm(rest) <= 1e-6 * np.linalg.norm(mean):
        return span
    return np.column_stack([span, rest / np.linalg.norm(rest)])
