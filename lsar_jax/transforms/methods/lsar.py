"""LSAR: remove the low-rank subspace that the means of the languages span.

Xie et al., "Discovering Low-rank Subspaces for Language-agnostic Multilingual
Representations", EMNLP 2022, Algorithm 1. The paper finds the subspace M_s by two SVDs with a
pseudo-inverse between them; it is spanned by the top left singular vectors of the
means centred over the languages, because the vector mu that the second SVD subtracts is
orthogonal to all differences of means. So one SVD is enough, and no matrix is inverted. Step 1
divides by the number of languages L; the printed 1/d is a misprint, as the proof needs 1/L.

The released code computes the printed steps in float32, where the pseudo-inverse of a matrix of rank
r + 1 < L inverts rounding errors: mu almost vanishes, and M_s also holds most of the direction of
the overall mean. That is another method, ``fit_lsar(..., published=True)``.
"""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import product
from lsar_jax.checks import check_flags
from lsar_jax.moments import common_source, moments_by_language, stack_means
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform, fix_signs
from lsar_jax.transforms.base.decompose import decompose
from lsar_jax.transforms.base.limits import Limit, check_rank
from lsar_jax.transforms.methods.center import fit_center

__all__ = [
    "RANK", "fit_lsar", "fit_mean_then_lsar", "language_components", "language_subspace", "published_subspace",
    "significant_values",
]  # fmt: skip

RANK = Limit(
    1,
    lambda languages, dim, **_: min(languages - 1, dim),
    "the span of the means of {languages} languages of width {dim}",
)


def language_subspace(
    means: Float[AnyArray, "language dim"], rank: int
) -> tuple[Float[Any, "dim rank"], Float[Any, " spectrum"]]:
    """Returns an orthonormal basis ``[dim, rank]`` of the language subspace, and the singular values of centred means.

    The largest come first, and the largest entry of each column is positive. Pure: works under ``jit`` (``rank``
    static), ``vmap``, for example over layers, and ``grad``; numpy decomposes numpy arrays.

    Args:
      means: the mean raw embedding of each language, ``[language, dim]``.
      rank: number of columns of the basis, at most ``language - 1`` for a meaningful result.
    """
    centred = means - means.mean(axis=0, keepdims=True)
    _, values, rows = centred.__array_namespace__().linalg.svd(centred, full_matrices=False)
    return fix_signs(rows[:rank].T), values


def language_components(
    means: Float[AnyArray, "language dim"], rank: int
) -> tuple[Float[Any, " dim"], Float[Any, "dim rank"], Float[Any, "language rank"]]:
    """Returns mu ``[dim]``, M_s ``[dim, rank]`` and Gamma ``[language, rank]`` of Algorithm 1, without its inverse.

    ``mu + M_s Gamma_l`` is the mean of language l in the subspace: mu is what all languages share, and Gamma_l the
    language. M_s spans ``language_subspace``, turned as the second SVD of the algorithm does. Pure, as that is.

    Example:
      >>> means = np.random.default_rng(0).normal(size=(4, 8)) + 5
      >>> mu, subspace, gamma = lj.functional.language_components(means, rank=3)
      >>> bool(np.allclose(mu + gamma @ subspace.T, means))
      True
    """
    overall = means.mean(axis=0)
    basis, _ = language_subspace(means, rank)
    mu = overall - product(basis, product(overall, basis))
    _, _, turn = means.__array_namespace__().linalg.svd(product(means, basis), full_matrices=False)
    basis = fix_signs(product(basis, turn.T))
    return mu, basis, product(means, basis)


def significant_values(values: Float[np.ndarray, " spectrum"], shape: tuple[int, ...], precise: bool) -> int:
    """Counts the singular values of means of this shape that are more than the rounding of their sums."""
    eps = np.finfo(np.float64 if precise else np.float32).eps
    return int((values > values[0] * max(shape) * eps).sum())


def published_subspace(
    means: Float[np.ndarray, "language dim"], rank: int
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim rank"], Float[np.ndarray, "language rank"]]:
    """Returns what ``language_components`` does of means ``[language, dim]``, by the printed steps, in their dtype.

    In float64, M_s has the span of ``language_subspace``. In float32 it is so only for a rank of
    ``language - 1``; below, it depends on rounding, and so on the linear algebra library.
    """
    overall = means.mean(axis=0)
    left, values, right = np.linalg.svd(means - overall, full_matrices=False)
    approximation = overall + (left[:, :rank] * values[:rank]) @ right[:rank]
    # The cutoff that the released code left to numpy.
    v = np.linalg.pinv(approximation, rcond=1e-15) @ np.ones(len(means), means.dtype)
    mu = v / (v @ v)
    left, values, right = np.linalg.svd(approximation - mu, full_matrices=False)
    return mu, right[:rank].T, left[:, :rank] * values[:rank]


def fit_lsar(
    x: LanguageData,
    rank: Annotated[int | None, RANK] = None,
    *,
    published: bool = False,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - M_s M_s^T x``, with one M_s for all text, in other languages and unlabelled text too.

    Args:
      x: mapping from language to raw (not normalised) embeddings ``[n, dim]`` or to their moments;
        at least two languages.
      rank: dimensions removed; by default one less than the number of languages L, which makes all means equal.
      published: whether to compute the printed algorithm in float32, as the released code does. Below
        rank ``L - 1`` it also removes most of the direction of the mean over languages.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: there are fewer than two languages, an array or code is invalid, widths or encoders differ, ``rank``
        exceeds the rank of the means, or both ``published`` and ``precise`` are given.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 8)) + 5 * rng.normal(size=8) for code in ("de", "en", "fr")}
      >>> lsar = lj.transforms.fit_lsar(x)
      >>> lsar
      Transform(lsar(rank=2); dim 8, shared)
      >>> bool(np.allclose(lsar(x["de"]).mean(axis=0), lsar(x["en"]).mean(axis=0), atol=1e-5))
      True
    """
    check_flags(published=published)
    if published and precise:
        raise ValueError("published is float32, and precise is float64; omit one of them")
    moments = moments_by_language(x, least=2, precise=precise)
    means = stack_means(moments)
    languages, dim = means.shape
    rank = RANK("rank", min(languages - 1, dim) if rank is None else rank, languages=languages, dim=dim)
    centred = means - means.mean(axis=0)  # in float64: a large common offset would cost float32 its digits
    basis, values = decompose(x, language_subspace, centred, rank=rank, precise=precise)
    significant = significant_values(values, means.shape, precise)
    check_rank("rank", rank, significant, f"the means of {', '.join(moments)} span")
    if published:
        basis = fix_signs(published_subspace(means.astype(np.float32), rank)[1])
    fit = Fit.of("lsar-published" if published else "lsar", moments, by_language=False, rank=rank)
    return Transform((Step.of(basis=basis),), (fit,), common_source(moments, source)).with_sample(x)


def fit_mean_then_lsar(
    x: LanguageData,
    rank: Annotated[int | None, RANK] = None,
    *,
    source: EncoderSpec | None = None,
) -> Transform:
    """Fits the removal of the mean over languages, and then LSAR.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]`` or to their moments; at least two languages.
      rank: dimensions removed; by default one less than the number of languages.
      source: spec of the embeddings' encoder; saved, and checked on use.
    """
    return fit_center(x, per_language=False, source=source).then(fit_lsar(x, rank, source=source))
