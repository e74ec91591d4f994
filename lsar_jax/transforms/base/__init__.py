"""The ``Transform`` that every method returns: its affine steps, the record of how each was fitted, and its file."""

from lsar_jax.transforms.base.steps import Fit, Step, fix_signs
from lsar_jax.transforms.base.transform import Transform

__all__ = ["Fit", "Step", "Transform", "fix_signs"]
