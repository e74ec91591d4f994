"""Ranks against sorting everything, whatever the chunks."""

import numpy as np
import pytest

from lsar_jax.retrieval.ranks import candidate_ranks
from tests.reference import unit


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("chunk", [1, 7, 256])
def test_equals_sorting(rng, metric, chunk):
    queries = rng.standard_normal((23, 16)).astype(np.float32)
    candidates = (rng.standard_normal((50, 16)) * rng.uniform(0.1, 10, (50, 1))).astype(np.float32)
    relevant = rng.integers(-1, 50, (23, 4))
    left_out = rng.integers(-1, 50, 23)
    got = candidate_ranks(queries, candidates, relevant, metric=metric, left_out=left_out, chunk=chunk)
    x, y = queries.astype(float), candidates.astype(float)
    if metric == "cosine":
        y /= np.linalg.norm(y, axis=1, keepdims=True)
    for row in range(23):
        order = [i for i in np.argsort(-(y @ x[row]), kind="stable") if i != left_out[row]]
        expected = [order.index(i) if i >= 0 and i != left_out[row] else -1 for i in relevant[row]]
        np.testing.assert_array_equal(got[row], expected)


def test_ranks_by_local_scaling_equal_float64(rng):
    x = rng.standard_normal((30, 8)) + 0.5
    bank = rng.standard_normal((40, 8)) * rng.uniform(0.1, 10, (40, 1))
    scores = 2 * unit(x) @ unit(x).T - np.sort(unit(x) @ unit(bank).T)[:, -10:].mean(axis=1)
    np.fill_diagonal(scores, -np.inf)
    relevant = rng.integers(0, 30, (30, 3))
    expected = (scores[:, None, :] > np.take_along_axis(scores, relevant, 1)[:, :, None]).sum(axis=2)
    expected = np.where(relevant == np.arange(30)[:, None], -1, expected)
    np.testing.assert_array_equal(candidate_ranks(x, x, relevant, bank=bank, left_out=np.arange(30)), expected)


def test_ties_go_to_the_lower_index():
    x = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(candidate_ranks(x, x, np.array([[0, 1, 2]] * 3)), [[0, 1, 2]] * 3)


def test_refusals(unchecked):
    x = np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match=r"relevant has shape \(2, 1\) and type int64; expected 3 x any whole"):
        candidate_ranks(x, x, np.zeros((2, 1), int))
    with pytest.raises(ValueError, match="relevant holds 3; it must be from -1 to 2"):
        candidate_ranks(x, x, np.full((3, 1), 3))
    with pytest.raises(ValueError, match="metric is 'dot', but CSLS"):
        candidate_ranks(x, x, np.zeros((3, 1), int), bank=x, metric="dot")
    with pytest.raises(ValueError, match="metric 'l2' is not one of cosine, dot"):
        candidate_ranks(x, x, np.zeros((3, 1), int), metric="l2")
