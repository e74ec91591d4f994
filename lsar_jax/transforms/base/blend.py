"""A step that takes back part of the steps before it, so that a transform can be applied at a strength.

With T the steps before it, all together, and s the strength from 0 to 1::

    y = x + s (T x - x)

It is affine if T is, and T keeps its low rank. SHIFT's alpha (arXiv 2606.18801) is this strength.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import to_device
from lsar_jax.checks import as_float
from lsar_jax.shapes import AnyArray

__all__ = ["Blend"]


@partial(jax.tree_util.register_dataclass, data_fields=["strength"], meta_fields=["steps"])
@dataclass(frozen=True, eq=False)
class Blend:
    """A step of a ``Transform`` at a strength; see ``Transform.at_strength``.

    Attributes:
      strength: s, ``[1]``.
      steps: number of steps before it that are T.
    """

    strength: Float[AnyArray, "1"]
    steps: int

    @classmethod
    def of(cls, strength: int | float, steps: int) -> "Blend":
        """Returns the step; raises ValueError unless the strength is a number from 0 to 1."""
        if not 0 <= as_float(strength) <= 1:
            raise ValueError(f"strength is {strength!r:.80}; it must be a number from 0 (unchanged) to 1 (as fitted)")
        return cls(to_device(np.array([strength])), steps)

    @classmethod
    def from_arrays(cls, strength: np.ndarray, steps: np.ndarray) -> "Blend":
        """Returns the step of the arrays of a file."""
        return cls(strength, steps.item())

    def not_affine(self) -> str:
        """Empty: it is affine."""
        return ""

    def __iter__(self) -> Iterator[AnyArray]:
        """All arrays, for digests."""
        return iter(self.arrays().values())

    def arrays(self) -> dict[str, AnyArray]:
        """The arrays by name, with the number of steps as an array."""
        return {"strength": self.strength, "steps": np.array([self.steps], np.int32)}

    def shapes(self, dim: int, languages: int) -> dict[str, list[int]]:
        """The shapes that its parts must have."""
        return {"strength": [1]}

    def between(self, x: Float[AnyArray, "vector dim"], y: Float[AnyArray, "vector dim"]) -> Float[Any, "vector dim"]:
        """Returns ``x + s (y - x)``; numpy arrays are blended by numpy."""
        return x + x.__array_namespace__().asarray(self.strength)[0] * (y - x)
