"""LSAR: remove the low-rank subspace that the means of the languages span.

Xie et al., "Discovering Low-rank Subspaces for Language-agnostic Multilingual
Representations", EMNLP 2022, Algorithm 1. The paper finds the subspace M_s by two SVDs with a
pseudo-inverse between them; its span equals that of the top left singular vectors of the
means centred over the languages, because the vector mu that the second SVD subtracts is
orthogonal to all differences of means. So one SVD is enough, and no matrix is inverted. Step 1 divides by the number of
languages L; the printed 1/d is a slip, the proof needs 1/L.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.checks import whole_number
from lsar_jax.moments import Moments, moments_by_language, stack_means
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.affine import Step, fix_signs
from lsar_jax.transforms.base import Transform
from lsar_jax.transforms.fit_record import Fit

__all__ = ["fit_lsar", "language_subspace"]


def language_subspace(
    means: Float[AnyArray, "language dim"], rank: int
) -> tuple[Float[Array, "dim rank"], Float[Array, " spectrum"]]:
    """Returns an orthonormal basis of the language subspace, and all singular values.

    Args:
      means: the mean raw embedding of each language.
      rank: columns of the basis, at most ``language - 1`` for a meaningful answer.

    Pure: passes under ``jit`` (``rank`` static) and ``vmap``, say over layers.
    """
    centred = means - means.mean(axis=0, keepdims=True)
    _, values, rows = jnp.linalg.svd(centred, full_matrices=False)
    return fix_signs(rows[:rank].T), values


def fit_lsar(
    x: Mapping[str, Embeddings | Moments],
    rank: int | None = None,
    *,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - M_s M_s^T x``, one M_s for every language.

    Args:
      x: from language to raw (not normalised) embeddings ``[n, dim]`` or to their moments;
        at least two languages.
      rank: dimensions removed; by default one less than there are languages, with which all
        language means become equal.
      source: the encoder's spec, remembered and checked later.
      precise: whether to sum embeddings and decompose in float64; moments come summed.

    Returns:
      A transform that needs no language: it applies to unlabelled and unseen ones.

    Raises:
      ValueError: fewer than two languages, bad arrays or codes, or a rank that the means do
        not have.
    """
    moments = moments_by_language(x, least=2, precise=precise)
    means = stack_means(moments)
    languages, dim = means.shape
    most = min(languages - 1, dim)
    span = f"what the means of {languages} languages of width {dim} span"
    kept = most if rank is None else whole_number("rank", rank, 1, most, span)
    with jax.enable_x64(precise):
        # Centred in float64 first: what the means have in common would cost float32 its digits.
        centred = jnp.asarray(means - means.mean(axis=0), jnp.float64 if precise else jnp.float32)
        basis, values = _subspace(centred, kept)
        basis, values = basis.astype(jnp.float32), np.asarray(values)
    significant = int((values > values[0] * max(means.shape) * np.finfo(values.dtype).eps).sum())
    if kept > significant:
        # Directions of vanishing singular values are whatever the SVD's rounding makes them.
        raise ValueError(f"rank is {kept}, but the means of {', '.join(moments)} span {significant} dimensions")
    fit = Fit.of("lsar", moments, by_language=False, rank=kept)
    return Transform((Step(basis=basis),), (fit,), source)


_subspace = partial(jax.jit, static_argnames="rank")(language_subspace)
