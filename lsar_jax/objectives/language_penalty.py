"""A penalty on what embeddings have in the subspace of the languages, to train an encoder that has little in it.

LSAR (Xie et al., "Discovering Low-rank Subspaces for Language-agnostic Multilingual Representations", EMNLP 2022)
removes from the embeddings of a finished encoder the subspace that the means of the languages span. Here the share of
their length inside it is a loss. The means are those of the batches so far, each of less weight than the next, because
a batch has too few sentences of a language. With C the means of unit vectors, centred over languages, one a row,

    share(x) = x^T C^T (C C^T + D)^-1 C x,  D = diag(1 / n),

where n is the decayed number of sentences that a mean stands for: the mean of n unit vectors varies by at most 1 / n.
Without D this is the squared length of the projection onto the span of C. With it, directions in which the means differ
by chance count about a third as much, so that little of the penalty is left when the language is gone.

The penalty is this library's own. All functions are pure, for ``jit``, ``vmap`` and ``grad``.

Example:
  >>> from lsar_jax.objectives.language_penalty import LanguageMeans, language_penalty
  >>> x = jax.random.normal(jax.random.key(0), (200, 8))
  >>> language = jnp.arange(200) % 2
  >>> shifted = x + 3 * jnp.where(language == 0, 1, -1)[:, None] * jnp.eye(8)[:1]
  >>> means = [LanguageMeans.start(2, 8).update(vectors, language) for vectors in (x, shifted)]
  >>> [round(float(language_penalty(vectors, of)), 1) for vectors, of in zip((x, shifted), means)]
  [0.1, 0.6]
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import product
from lsar_jax.objectives.cosine import unit

__all__ = ["LanguageMeans", "language_penalty"]

# What a sum over batches keeps of itself at each batch.
_DECAY = 0.9


class LanguageMeans(NamedTuple):
    """Running sums of unit vectors.

    Attributes:
      sums: ``[language, dim]``.
      counts: number of vectors, ``[language]``; both decay by a tenth a batch.
    """

    sums: Float[Array, "language dim"]
    counts: Float[Array, " language"]

    @classmethod
    def start(cls, languages: int, dim: int) -> "LanguageMeans":
        """Returns the sums before the first batch."""
        return cls(jnp.zeros((languages, dim), jnp.float32), jnp.zeros(languages, jnp.float32))

    def update(self, x: Float[Array, "vector dim"], language: Int[Array, " vector"]) -> "LanguageMeans":
        """Returns the sums with a batch ``[vector, dim]``, of no gradient; a language of -1 marks padding."""
        member = jax.nn.one_hot(language, len(self.counts), dtype=jnp.float32)
        added = product(member.T, unit(x.astype(jnp.float32)))
        new = LanguageMeans(_DECAY * self.sums + added, _DECAY * self.counts + member.sum(axis=0))
        return jax.lax.stop_gradient(new)


def language_penalty(
    x: Float[Array, "vector dim"], means: LanguageMeans, language: Int[Array, " vector"] | None = None
) -> Float[Array, ""]:
    """Returns the mean share of the squared length of embeddings that is in the subspace of the languages.

    Args:
      x: embeddings, ``[vector, dim]``, of any length.
      means: the running means, of at least two languages.
      language: index of the language of each, ``[vector]``, -1 for padding, which does not count; by default, all
        count.

    Returns:
      A scalar from 0, where the means of the languages do not differ, to below 1.
    """
    seen = (means.counts > 0).astype(jnp.float32)
    counts = jnp.where(means.counts > 0, means.counts, 1)
    mean = means.sums / counts[:, None]
    centred = seen[:, None] * (mean - mean.sum(axis=0, keepdims=True) / jnp.maximum(seen.sum(), 1))
    # R^T R = C C^T + D. Centred means are dependent: C C^T is singular but for rounding, which may give NaN. R is not
    # singular: the roots of D are far above the rounding of C.
    noise = jnp.diag(jnp.maximum(1 / counts, 1e-6) ** 0.5)
    triangle = jnp.linalg.qr(jnp.concatenate([centred.T, noise]), mode="r")
    coordinates = product(unit(x.astype(jnp.float32)), centred.T)
    solved = jax.scipy.linalg.solve_triangular(triangle, coordinates.T, trans=1)
    counted = jnp.ones(len(x), jnp.float32) if language is None else (language >= 0).astype(jnp.float32)
    return (counted * (solved * solved).sum(axis=0)).sum() / jnp.maximum(counted.sum(), 1)
