"""Moments: the streaming statistic that transforms are fitted from, and its file format.

Sums are merged in float64 with whole counts, so that a corpus can be read in parts and in any order.

Precision is one policy. Devices sum float32 embeddings in float32, each block around a vector of its own. The host sums
in float64 what is float64, the means of numpy arrays if no second moment is needed, and everything with
``precise=True``. Embeddings that lie on a device are decomposed there in float32, unless ``precise``; all else,
moments, and what float32 loses digits of (LIR, the linear map, joint), by numpy in float64, for which nothing is
compiled; what is below the rounding of float32 counts as zero there unless ``precise``. Only the matrices of the
whitening by language are decomposed on a device in any case, unless ``precise``. The functions that the fits call are
``lsar_jax.functional``, for ``jit`` and ``vmap``. A fitted transform is applied in float32 and exported in float64.
"""

from lsar_jax.moments.by_language import (
    PooledMoments,
    check_number,
    common_source,
    covariances,
    moments_by_language,
    pool_moments,
    stack_means,
)
from lsar_jax.moments.moments import Moments, sum_over_processes
from lsar_jax.moments.moments_file import load_moments, merge_moments, save_moments
from lsar_jax.moments.ray_aggregation import ray_aggregation

__all__ = [
    "Moments",
    "PooledMoments",
    "check_number",
    "common_source",
    "covariances",
    "load_moments",
    "merge_moments",
    "moments_by_language",
    "pool_moments",
    "ray_aggregation",
    "save_moments",
    "stack_means",
    "sum_over_processes",
]
