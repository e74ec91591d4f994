"""LEACE: the published formula, and equal means, after which no linear probe finds a language."""

import numpy as np
import pytest

from lsar_jax.transforms import fit_leace
from tests import reference


def together(x):
    return np.concatenate(list(x.values())), [code for code, rows in x.items() for _ in rows]


@pytest.mark.parametrize("precise", [False, True])
def test_equals_its_twin(x, precise):
    leace = fit_leace(x, precise=precise)
    for part in x.values():
        np.testing.assert_allclose(leace(part), reference.leace(part, *together(x)), atol=2e-4)
    means = np.stack([np.asarray(leace(part), np.float64).mean(axis=0) for part in x.values()])
    np.testing.assert_allclose(means, np.tile(means[0], (len(means), 1)), atol=1e-4)
