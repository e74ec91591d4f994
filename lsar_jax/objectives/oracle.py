"""ORACLE's two losses of the embeddings of meaning and language: clustering and separation.

Ki, Park and Kim, "Mitigating Semantic Leakage in Cross-lingual Embeddings via Orthogonality Constraint", RepL4NLP 2024,
and its released code.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import product
from lsar_jax.objectives.cosine import apart, cosine, squares, unit
from lsar_jax.objectives.heads import HeadOutputs

__all__ = ["ClusterPairs", "Separation", "clustering_loss", "separation_loss"]

Separation = Literal["paper", "code", "alone"]
ClusterPairs = Literal["off_diagonal", "all", "same_language"]


def clustering_loss(
    source: Float[Array, "pair dim"], target: Float[Array, "pair dim"], pairs: ClusterPairs = "off_diagonal",
    target_language: Int[Array, " pair"] | None = None, languages: int | None = None,
) -> Float[Array, ""]:  # fmt: skip
    """Returns ORACLE's intra-class clustering, ``mean(2 - cos(s_i, s_j) - cos(t_i, t_j))`` over pairs i, j of a batch.

    The mean of all cosines is the squared length of the mean unit vector, so no matrix is built.

    Args:
      source: language embeddings of the sentences, ``[pair, dim]``.
      target: language embeddings of their translations, ``[pair, dim]``.
      pairs: off_diagonal, ``i != j``; all; or same_language, ``i != j`` with the same target language.
      target_language: index of each translation's language, ``[pair]``, for same_language.
      languages: number of languages, for same_language.

    Returns:
      A scalar, from 0 (all language embeddings of a side point the same way) to 4.

    Raises:
      ValueError: ``pairs`` is same_language, and ``target_language`` or ``languages`` is missing.
    """
    source, target = unit(source), unit(target)
    n = len(source)
    diagonal = squares(source).sum() + squares(target).sum()
    if pairs == "same_language":
        if target_language is None or languages is None:
            raise ValueError("pairs is 'same_language', which needs target_language and languages")
        member = jax.nn.one_hot(target_language, languages, dtype=source.dtype)
        counts = member.sum(axis=0)
        of_languages = squares(product(member.T, source)).sum() + squares(product(member.T, target)).sum()
        same = (counts * (counts - 1)).sum()
        # A batch without two translations in one language has nothing to pull together.
        return jnp.where(same > 0, 2 - (of_languages - diagonal) / jnp.maximum(same, 1), 0)
    total = squares(source.sum(axis=0, keepdims=True)).sum() + squares(target.sum(axis=0, keepdims=True)).sum()
    if pairs == "all":
        return 2 - total / n**2
    return 2 - (total - diagonal) / max(n * (n - 1), 1)


def separation_loss(source: HeadOutputs, target: HeadOutputs, separation: Separation = "paper") -> Float[Array, ""]:
    """Returns ORACLE's inter-class separation.

    In the paper, Eq. 6, it is ``mean(max(0, cos(s_m, s_l)) + max(0, cos(t_m, t_l)))``; in its code,
    ``mean(max(0, cos(s_l, t_l)))``. The stand-alone objectives of its code add ``mean(|cos(s_m, s_l)| +
    |cos(t_m, t_l)|)`` to the latter.

    Args:
      source: outputs for the sentences, each ``[pair, dim]``.
      target: outputs for their translations, each ``[pair, dim]``.
      separation: paper, code or alone.

    Returns:
      A scalar: 0 if what is separated is at right angles; at most 2 with paper, 1 with code and 3 with alone.
    """
    if separation == "code":
        return apart(source.language, target.language)
    if separation == "alone":
        of_parts = sum(jnp.abs(cosine(side.meaning, side.language)).mean() for side in (source, target))
        return of_parts + apart(source.language, target.language)
    return apart(source.meaning, source.language) + apart(target.meaning, target.language)
