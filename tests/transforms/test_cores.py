"""The functions of arrays that the fits call: in float32 under ``jit`` and ``vmap``, they are what numpy finds."""

from functools import partial

import jax
import numpy as np
import pytest

from lsar_jax.transforms import (
    erasing_functionals,
    language_subspace,
    largest_dimensions,
    principal_directions,
    procrustes,
    scatter_directions,
    varying_dimensions,
    zca,
)
from lsar_jax.transforms.identifier import discriminant

# Three of each: means of 4 languages, 8 wide, covariances, and orthonormal columns.
MEANS = np.random.default_rng(0).standard_normal((3, 4, 8))
ROOTS = np.random.default_rng(1).standard_normal((3, 8, 20)) * np.geomspace(1, 4, 8)[:, None]
COVARIANCES = ROOTS @ np.swapaxes(ROOTS, 1, 2)
SCATTER = COVARIANCES[:, None] * np.random.default_rng(2).uniform(1, 3, (3, 4, 8, 1)) * np.ones(8)
SCATTER = SCATTER + np.swapaxes(SCATTER, 2, 3)
SPANS = np.linalg.qr(ROOTS[..., :2])[0]


@pytest.mark.parametrize(
    ("core", "arrays"),
    [
        (partial(language_subspace, rank=2), [MEANS]),
        (partial(principal_directions, components=3), [COVARIANCES]),
        (partial(zca, eps=0.1), [COVARIANCES]),
        (partial(erasing_functionals, floor=1e-6), [COVARIANCES, SPANS]),
        (partial(discriminant, shrinkage=0.1), [MEANS, COVARIANCES]),
        (procrustes, [ROOTS[..., :8]]),
        (partial(largest_dimensions, largest=2), [MEANS]),
        (partial(varying_dimensions, dimensions=3), [MEANS]),
        (partial(scatter_directions, components=2), [SCATTER, SPANS]),
    ],
)
def test_cores_under_jit_and_vmap(core, arrays):
    batch = jax.vmap(jax.jit(core))(*(stack.astype(np.float32) for stack in arrays))
    for row in range(3):
        expected = core(*(stack[row] for stack in arrays))
        found = jax.tree.map(lambda part, row=row: part[row], batch)
        assert all(isinstance(part, jax.Array) for part in jax.tree.leaves(found))
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-3), found, expected)
