"""A step that is not affine: it reconstructs embeddings from the features of a sparse autoencoder that are kept.

The features of an embedding are the ``active`` largest of ``relu(x E)``; the others count as zero. With the factor of
each feature, 1 where it is kept and 0 where it is removed::

    y = (factors * features) D

or, where the error of the autoencoder is kept, with ``x - features D`` added: then only what is removed changes ``x``.
There are no biases, so that ``y`` of ``c x`` is ``c y`` for a positive c.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.arrays import product
from lsar_jax.shapes import AnyArray, LanguageIds
from lsar_jax.transforms.base.steps import in_parts

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
      factors: 1 for a feature that is kept and 0 for a feature that is removed, ``[feature]``.
      active: number of features that an embedding has at most.
      keep_error: whether what the autoencoder cannot reconstruct is added again.
    """

    encoder: Float[AnyArray, "dim feature"]
    decoder: Float[AnyArray, "feature dim"]
    factors: Float[AnyArray, " feature"]
    active: int
    keep_error: bool

    @classmethod
    def from_arrays(cls, active: np.ndarray, keep_error: np.ndarray, **arrays: AnyArray) -> "SparseAutoencoder":
        """Returns the step of the arrays of a file."""
        return cls(**arrays, active=active.item(), keep_error=bool(keep_error.item()))

    def not_affine(self) -> str:
        """Why there is no single A and b."""
        return "each vector has its own features"

    def __iter__(self) -> Iterator[AnyArray]:
        """All arrays, for digests."""
        return iter(self.arrays().values())

    def arrays(self) -> dict[str, AnyArray]:
        """The arrays by name, with the options as arrays."""
        options = {"active": np.array([self.active], np.int32), "keep_error": np.array([self.keep_error], np.int32)}
        return {"encoder": self.encoder, "decoder": self.decoder, "factors": self.factors, **options}

    def shapes(self, dim: int, languages: int) -> dict[str, list[int]]:
        """The shapes that its parts must have."""
        count = self.encoder.shape[-1]
        return {"encoder": [dim, count], "decoder": [count, dim], "factors": [count]}

    def __call__(self, x: Float[AnyArray, "vector dim"], language: LanguageIds) -> Float[Array, "vector dim"]:
        """Applies the step; see ``TransformStep``."""
        x = jnp.asarray(x)
        if len(x) > _TOGETHER:
            return in_parts(self, x, language, _TOGETHER)
        factors = jnp.asarray(self.factors)[None]
        features = largest(jax.nn.relu(product(x, jnp.asarray(self.encoder))), self.active)
        if self.keep_error:
            return x - product((1 - factors) * features, jnp.asarray(self.decoder))
        return product(factors * features, jnp.asarray(self.decoder))


def largest(features: Float[Array, "vector feature"], active: int) -> Float[Array, "vector feature"]:
    """Returns the ``active`` largest features of each vector, and zero for the others; ties may leave more."""
    least = jax.lax.top_k(features, active)[0][:, -1:]
    return jnp.where(features >= least, features, jnp.zeros((), features.dtype))
