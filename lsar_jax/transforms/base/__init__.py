"""What every method makes a transform of: affine steps, how each was fitted, and the file that keeps both."""

from lsar_jax.transforms.base.affine import Step, fix_signs
from lsar_jax.transforms.base.fit_record import Fit
from lsar_jax.transforms.base.transform import Transform

__all__ = ["Fit", "Step", "Transform", "fix_signs"]
