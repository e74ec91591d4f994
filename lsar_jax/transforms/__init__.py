"""Transforms that make embeddings language-agnostic; one paper a file."""

from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.center import fit_center
from lsar_jax.transforms.lir import fit_lir, principal_directions
from lsar_jax.transforms.lsar import fit_lsar, language_subspace

__all__ = [
    "Fit",
    "Step",
    "Transform",
    "fit_center",
    "fit_lir",
    "fit_lsar",
    "language_subspace",
    "principal_directions",
]
