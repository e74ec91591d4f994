"""Rotary positions (Su et al., "RoFormer", 2021): queries and keys are turned by an angle for each position.

The two halves of a vector are the two coordinates of its planes, as in all checkpoints that this library reads.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

__all__ = ["Rotary"]


@dataclass(frozen=True)
class Rotary:
    """The angle of plane i at position p is ``p / factor * theta^(-2 i / width)``.

    Attributes:
      theta: the base.
      factor: by how much positions are drawn together; "linear" scaling.
    """

    theta: float
    factor: float = 1.0

    def parameters(self) -> dict[str, str | float]:
        """Returns what a config of version 5 of transformers calls ``rope_parameters``."""
        if self.factor == 1:
            return {"rope_type": "default", "rope_theta": self.theta}
        return {"rope_type": "linear", "rope_theta": self.theta, "factor": self.factor}

    def __call__(
        self, x: Float[Array, "batch length head width"], positions: Int[Array, "batch length"]
    ) -> Float[Array, "batch length head width"]:
        """Returns x, turned; angles are in float32 whatever the dtype of x is."""
        width = x.shape[-1]
        # In float32 like those that the models were trained with: at far positions, the rounding shows.
        powers = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
        frequencies = np.float32(1) / np.float32(self.theta) ** powers / np.float32(self.factor)
        angles = (positions.astype(jnp.float32)[:, :, None] * frequencies)[:, :, None]
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)
