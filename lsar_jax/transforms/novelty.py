"""Novelty: how far an embedding is from all languages of the fit, so that its language counts as unknown.

In the terms of ``identifier.py``, the canonical variates u = A^T x are the directions in which the means differ, scaled
such that S is the identity (Rao 1948). With k of them, and expectations over the text that was fitted on::

    novelty(x) = (|u - u_l|^2 / k) / (|x - mu_l|^2 / E|x - mu_l|^2)

for the nearest mean mu_l. It is about 1 for text like that, and more for text in another language, whose mean lies
elsewhere in these directions; a language that differs from the others only where they do not differ is not seen. The
denominator allows for text of another length or domain, which is further from its mean in all directions.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.arrays import product, to_device
from lsar_jax.shapes import AnyArray

__all__ = ["NOVEL", "Novelty", "novelty_of"]

# The default threshold: docs/explanation/transforms.md has the shares of wrong answers.
NOVEL = 4.0
# Directions whose share of the differences between the means is smaller are rounding errors.
_LEAST = 1e-5


class Novelty(NamedTuple):
    """The parts of the novelty of embeddings from which the mean over the languages has been subtracted.

    Attributes:
      axes: A, ``[dim, direction]``.
      places: u of each language's mean, ``[language, direction]``.
      means: the means divided by ``unit``, ``[language, dim]``.
      unit: the root mean square deviation of a value from the mean of its language, ``[1]``.
    """

    axes: Float[AnyArray, "dim direction"]
    places: Float[AnyArray, "language direction"]
    means: Float[AnyArray, "language dim"]
    unit: Float[AnyArray, " one"]

    def __call__(self, x: Float[Array, "vector dim"], nearest: Int[Array, " vector"]) -> Float[Array, " vector"]:
        """Returns the novelty of each row, given the number of its nearest mean; pure, for use under ``jit``."""
        inside = product(x, jnp.asarray(self.axes)) - jnp.asarray(self.places)[nearest]
        everywhere = x / jnp.asarray(self.unit)[None] - jnp.asarray(self.means)[nearest]
        # Only their ratio counts, and squares may overflow.
        largest = jnp.abs(everywhere).max(axis=1, keepdims=True)
        scale = jnp.where(largest > 0, largest, 1.0)
        expected = jnp.mean((everywhere / scale) ** 2, axis=1)
        return jnp.mean((inside / scale) ** 2, axis=1) / jnp.where(expected > 0, expected, 1.0)


def novelty_of(
    means: Float[np.ndarray, "language dim"], weights: Float[np.ndarray, "language dim"], unit: float
) -> Novelty:
    """Returns the novelty of centred means; ``weights`` are the means times the inverse covariance in the languages."""
    gram = weights @ means.T
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    large = values > _LEAST * values[-1]
    lengths, vectors = np.sqrt(values[large]), vectors[:, large]
    parts = weights.T @ (vectors / lengths), vectors * lengths, means / unit, np.array([unit])
    return Novelty(*map(to_device, parts))
