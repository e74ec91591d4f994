"""Transforms that make embeddings language-agnostic: in ``methods``, one file for each paper.

Each ``fit_`` function takes a mapping from language to embeddings ``[n, dim]``, or to moments where they suffice, and
returns a ``Transform``; the other functions are the pure cores of the methods, for ``jit`` and ``vmap``.
"""

from lsar_jax.transforms.base import Fit, SparseAutoencoder, Step, Transform
from lsar_jax.transforms.identifier import LanguageIdentifier, fit_identifier
from lsar_jax.transforms.methods.cbie import dominant_directions, fit_cbie, kmeans
from lsar_jax.transforms.methods.center import fit_center
from lsar_jax.transforms.methods.joint import fit_joint, scatter_directions
from lsar_jax.transforms.methods.langsae import fit_langsae, reconstruction_loss
from lsar_jax.transforms.methods.leace import erasing_functionals, fit_leace
from lsar_jax.transforms.methods.linear_map import fit_linear_map, procrustes
from lsar_jax.transforms.methods.lir import fit_lir, leading_directions, principal_directions
from lsar_jax.transforms.methods.lsar import fit_lsar, language_subspace, published_subspace
from lsar_jax.transforms.methods.mean_direction import fit_mean_direction
from lsar_jax.transforms.methods.outliers import fit_outliers, largest_dimensions, zero_dimensions
from lsar_jax.transforms.methods.shift import fit_shift
from lsar_jax.transforms.methods.sparse_dimensions import fit_sparse_dimensions, varying_dimensions
from lsar_jax.transforms.methods.steering import fit_steering
from lsar_jax.transforms.methods.trained_head import head_transform
from lsar_jax.transforms.methods.whitening import fit_whitening, whiten_samples, zca

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
    "fit_mean_direction",
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
