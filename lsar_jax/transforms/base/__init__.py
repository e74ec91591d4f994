"""The ``Transform`` that every method returns: its steps, the record of how each was fitted, and its file."""

from lsar_jax.transforms.base.fit import Fit
from lsar_jax.transforms.base.sparse_autoencoder import SparseAutoencoder
from lsar_jax.transforms.base.steps import Step, TransformStep, fix_signs
from lsar_jax.transforms.base.transform import Transform

__all__ = ["Fit", "SparseAutoencoder", "Step", "Transform", "TransformStep", "fix_signs"]
