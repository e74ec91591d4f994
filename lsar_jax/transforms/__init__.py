"""Transforms that make embeddings language-agnostic; one file per paper.

Each ``fit_`` function takes a mapping from language to embeddings ``[n, dim]``, or to moments where they suffice, and
returns a ``Transform``; the other functions are the pure cores of the methods, for ``jit`` and ``vmap``.
"""

from lsar_jax.transforms.base import Fit, SparseAutoencoder, Step, Transform
from lsar_jax.transforms.cbie import dominant_directions, fit_cbie, kmeans
from lsar_jax.transforms.center import fit_center
from lsar_jax.transforms.identifier import LanguageIdentifier, fit_identifier
from lsar_jax.transforms.joint import fit_joint, scatter_directions
from lsar_jax.transforms.langsae import fit_langsae, reconstruction_loss
from lsar_jax.transforms.leace import erasing_functionals, fit_leace
from lsar_jax.transforms.linear_map import fit_linear_map, procrustes
from lsar_jax.transforms.lir import fit_lir, leading_directions, principal_directions
from lsar_jax.transforms.lsar import fit_lsar, language_subspace, published_subspace
from lsar_jax.transforms.outliers import fit_outliers, largest_dimensions, zero_dimensions
from lsar_jax.transforms.shift import fit_shift
from lsar_jax.transforms.sparse_dimensions import fit_sparse_dimensions, varying_dimensions
from lsar_jax.transforms.steering import fit_steering
from lsar_jax.transforms.trained_head import head_transform
from lsar_jax.transforms.whitening import fit_whitening, whiten_samples, zca

__all__ = [
    "Fit",
    "LanguageIdentifier",
    "SparseAutoencoder",
    "Step",
    "Transform",
    "dominant_directions",
    "erasing_functionals",
    "fit_cbie",
    "fit_center",
    "fit_identifier",
    "fit_joint",
    "fit_langsae",
    "fit_leace",
    "fit_linear_map",
    "fit_lir",
    "fit_lsar",
    "fit_outliers",
    "fit_shift",
    "fit_sparse_dimensions",
    "fit_steering",
    "fit_whitening",
    "head_transform",
    "kmeans",
    "language_subspace",
    "largest_dimensions",
    "leading_directions",
    "principal_directions",
    "procrustes",
    "published_subspace",
    "reconstruction_loss",
    "scatter_directions",
    "varying_dimensions",
    "whiten_samples",
    "zca",
    "zero_dimensions",
]
