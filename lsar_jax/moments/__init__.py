"""Moments: the streaming statistic that transforms are fitted from, and its file format."""

from lsar_jax.moments.by_language import (
    PooledMoments,
    common_source,
    moments_by_language,
    pool_moments,
    stack_means,
    too_few,
)
from lsar_jax.moments.moments import Moments
from lsar_jax.moments.moments_file import load_moments, merge_moments, save_moments

__all__ = [
    "Moments",
    "PooledMoments",
    "common_source",
    "load_moments",
    "merge_moments",
    "moments_by_language",
    "pool_moments",
    "save_moments",
    "stack_means",
    "too_few",
]
