"""A step that is not affine: an embedding is made anew from those features of a sparse autoencoder that are kept.

The features of an embedding are the ``active`` largest of ``relu(x E)``; the others count as zero. With the factor of
each feature, 1 where it is kept and 0 where it is removed::

    y = (factors * features) D

or, where the error of the autoencoder is kept, with ``x - features D`` added: then only what is removed changes ``x``.
There are no biases, so that ``y`` of ``c x`` is ``c y`` for a positive c.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.arrays import product
from lsar_jax.shapes import AnyArray, LanguageIds

__all__ = ["SparseAutoencoder", "largest"]

# Vectors whose features are in memory together.
_TOGETHER = 1024


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["encoder", "decoder", "factors"],
    meta_fields=["active", "keep_error"],
)
@dataclass(frozen=True, eq=False)
class SparseAutoencoder:
    """A step of a ``Transform`` that removes features of embeddings.

    Attributes:
      encoder: E, ``[dim, feature]``.
      decoder: D, ``[feature, dim]``.
      factors: 1 for a feature that is kept and 0 for a feature that is removed, ``[feature]``; or ``[row, feature]``,
        with a row for each language.
      active: number of features that an embedding has at most.
      keep_error: whether what the autoencoder cannot reconstruct is added again.
    """

    encoder: Float[AnyArray, "dim feature"]
    decoder: Float[AnyArray, "feature dim"]
    factors: Float[AnyArray, "*row feature"]
    active: int
    keep_error: bool

    clusters: ClassVar[None] = None  # as of a Step without

    def __iter__(self) -> Iterator[AnyArray]:
        """The arrays of the step, as those of ``Step``, for digests."""
        options = (np.array([option], np.int32) for option in (self.active, self.keep_error))
        return iter((self.encoder, self.decoder, self.factors, *options))

    def __call__(self, x: Float[AnyArray, "vector dim"], language: LanguageIds) -> Float[Array, "vector dim"]:
        """Applies the step; pure, for use under ``jit`` and ``vmap``.

        ``language`` is the index of the language, one for all vectors or one per vector; a shared step ignores it.
        """
        x = jnp.asarray(x)
        if len(x) > _TOGETHER:

            def move(vector: tuple[Array, Array]) -> Array:
                return self(vector[0][None], vector[1])[0]

            languages = jnp.broadcast_to(jnp.asarray(language), len(x))
            return jax.lax.map(move, (x, languages), batch_size=_TOGETHER)
        factors = jnp.asarray(self.factors)
        factors = factors[jnp.asarray(language)] if factors.ndim == 2 else factors
        features = largest(jax.nn.relu(product(x, jnp.asarray(self.encoder))), self.active)
        if self.keep_error:
            return x - product((1 - factors) * features, jnp.asarray(self.decoder))
        return product(factors * features, jnp.asarray(self.decoder))


def largest(features: Float[Array, "vector feature"], active: int) -> Float[Array, "vector feature"]:
    """Returns the ``active`` largest features of each vector, and zero for the others; ties may leave more."""
    least = jax.lax.top_k(features, active)[0][:, -1:]
    return jnp.where(features >= least, features, jnp.zeros((), features.dtype))
