"""Exact search against brute force, whatever the chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.mesh import data_mesh, replicated, split
from lsar_jax.retrieval import mix_queries, plan, similarity, top_k
from lsar_jax.retrieval.search import nearest, nearest_both
from tests.compilations import count_compilations


def brute_force(queries, candidates, k, metric):
    queries, candidates = np.asarray(queries, np.float64), np.asarray(candidates, np.float64)
    if metric == "cosine":
        sides = queries, candidates
        queries, candidates = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) for x in sides)
    scores = queries @ candidates.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), order


@pytest.fixture
def chunks(monkeypatch):
    """Sets the numbers of queries and of candidates per product, instead of what suits the device."""
    return lambda *sizes: monkeypatch.setattr(plan, "chunk_for", lambda platform, *, both=False: sizes)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("chunk", [(1024, 8192), (7, 13), (100, 1)])
@pytest.mark.parametrize("k", [1, 4, 101])
def test_equals_brute_force(rng, chunks, metric, chunk, k):
    chunks(*chunk)
    queries = rng.standard_normal((33, 16)).astype(np.float32)
    candidates = rng.standard_normal((101, 16)).astype(np.float32) * rng.uniform(0.1, 10, (101, 1)).astype(np.float32)
    scores, indices = nearest(queries, candidates, k, metric=metric)
    expected_scores, expected = brute_force(queries, candidates, k, metric)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(scores, expected_scores, atol=1e-4 if metric == "dot" else 1e-6)
    assert isinstance(scores, jax.Array)
    assert (scores.dtype, indices.dtype) == (np.float32, np.int32)
    every = similarity(queries, candidates, metric=metric)
    assert (every.shape, every.dtype) == ((33, 101), np.float32)
    np.testing.assert_allclose(np.take_along_axis(np.asarray(every), expected, axis=1), expected_scores, atol=1e-4)


@pytest.mark.parametrize("count", [4096, 5000])
@pytest.mark.parametrize("k", [1, 4, 16])
def test_blocks_and_ties_equal_brute_force(rng, chunks, count, k):
    """Small whole numbers, whose products are exact and often the same."""
    chunks(64, 4096)
    queries, candidates = (rng.integers(-2, 3, (n, 6)).astype(np.float32) for n in (100, count))
    scores, ids = nearest(queries, candidates, k, metric="dot")
    expected_scores, expected = brute_force(queries, candidates, k, "dot")
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.fixture
def as_on_tpu(monkeypatch):
    """Selects as on a TPU."""
    monkeypatch.setattr(top_k, "_by_platform", lambda on_tpu, default, *arrays: on_tpu(*arrays))


@pytest.mark.parametrize("real", [2048, 1930])
@pytest.mark.parametrize("k", [1, 2, 8, 9])
def test_the_selection_of_a_tpu_equals_brute_force(rng, as_on_tpu, k, real):
    """By the rows of tiles up to k = 8, and ties included."""
    scores = rng.integers(-9, 10, (16, 2048)).astype(np.float32)
    scores[:, real:] = scores[:, real - 1 : real]
    expected = np.argsort(-scores[:, :real], axis=1, kind="stable")[:, :k]
    scores = jnp.asarray(scores)
    assert top_k._tiled(scores, k) == (k in (2, 8))
    for top, ids in (top_k.best_of(scores, k, real), top_k.best_of_columns(scores.T, k, real)):
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(top, np.take_along_axis(np.asarray(scores), expected, axis=1))
    first, second = (top_k.best_of(half, k, real) for half in (scores[:, :1024], scores[:, 1024:real]))
    best = top_k.merged(first, (second[0], second[1] + 1024))
    np.testing.assert_array_equal(best[1], expected)


@pytest.mark.parametrize("chunk", [(2048, 8192), (64, 100)])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("k", [1, 4])
def test_both_ways_equal_one_way_each(rng, chunks, chunk, precision, k):
    chunks(*chunk)
    # Rows of ones and minus ones, whose cosines are exact in both precisions and often the same.
    source, target = (2.0 * rng.integers(0, 2, (n, 16)).astype(np.float32) - 1 for n in (1100, 1300))
    both = nearest_both(source, target, k, precision=precision)
    if precision == "float32":
        expected = nearest(source, target, k), nearest(target, source, k)
        jax.tree.map(np.testing.assert_array_equal, both, expected)
    for (scores, ids), (one, other) in zip(both, ((source, target), (target, source)), strict=True):
        np.testing.assert_array_equal(scores, brute_force(one, other, k, "cosine")[0])
        cosines = (one[:, None] * other[np.asarray(ids)]).mean(axis=2)
        np.testing.assert_array_equal(scores, cosines)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("count", "chunk"), [(1024, (64, 64)), (1001, (64, 64)), (3, (1024, 8192))])
def test_four_devices_equal_one(rng, chunks, precision, count, chunk):
    chunks(*chunk)
    queries, candidates = (rng.integers(-2, 3, (n, 6)).astype(np.float32) for n in (100, count))
    four = data_mesh(jax.devices())
    assert four.size == 4
    options = {"k": 3, "precision": precision}
    alone = nearest(queries, candidates, **options), *nearest_both(queries, candidates, **options)
    options |= {"mesh": four}
    together = nearest(queries, candidates, **options), *nearest_both(queries, candidates, **options)
    # The spare candidates of bfloat16 are those of each device, so that less is missed; here, nothing is.
    jax.tree.map(np.testing.assert_array_equal, together, alone)
    if count % 4 == 0:
        placed = jax.device_put(candidates, split(four))
        del options["mesh"]
        found = nearest(jax.device_put(queries, replicated(four)), placed, **options)
        jax.tree.map(np.testing.assert_array_equal, found, alone[0])


def test_bfloat16_scores_the_best_again(rng):
    """Candidates that bfloat16 cannot tell apart are in their true order, with the scores of float32."""
    queries = rng.standard_normal((20, 64)).astype(np.float32)
    near = queries[:, None] + 3e-2 * rng.standard_normal((20, 6, 64)).astype(np.float32)
    candidates = np.concatenate([near.reshape(-1, 64), rng.standard_normal((500, 64)).astype(np.float32)])
    expected_scores, expected = nearest(queries, candidates, 5)
    scores, ids = nearest(queries, candidates, 5, precision="bfloat16")
    np.testing.assert_array_equal(ids, expected)
    # For a single source too, of which a chunk has one row.
    (_, forward), _ = nearest_both(queries[:1], candidates, 1, precision="bfloat16")
    np.testing.assert_array_equal(forward, expected[:1, :1])
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k is 0; it must be a whole number from 1 to 3"),
        ({"k": 4}, "k is 4; it must be"),
        ({"metric": "l2"}, "metric 'l2' is not one of cosine, dot"),
        ({"precision": "int8"}, "precision 'int8' is not one of"),
        ({"queries": np.ones((2, 3), np.float32)}, "the arrays differ in width: .*'queries': 3"),
        ({"queries": np.ones((0, 2), np.float32)}, r"queries is \(0, 2\); expected \[n, dim\] with n at least 1"),
    ],
)
def test_refusals(unchecked, arguments, message):
    defaults = {"queries": np.ones((2, 2), np.float32), "candidates": np.ones((3, 2), np.float32)}
    with pytest.raises(ValueError, match=message):
        nearest(**defaults | arguments)


def test_few_programs_for_many_sizes(rng):
    x = rng.standard_normal((1000, 8)).astype(np.float32)
    nearest(x[:1000], x[:1000], 2)
    with count_compilations() as compiled:
        for n in range(600, 1000, 10):
            nearest(x[:n], x[: n + 1], 2)
    # The search itself is one program; what is left is the cut of two results to n rows.
    assert len(compiled) <= 2 * 40


def test_similarity_at_the_limits_of_float32():
    rows = np.array([[1e-30, 0], [3e38, 0]], np.float32)
    np.testing.assert_allclose(similarity(rows, rows), np.ones((2, 2)), rtol=1e-6)
    with pytest.raises(ValueError, match="too large for float32"):
        similarity(rows, rows, metric="dot")


def test_a_query_and_its_translation_count_alike(rng, unchecked):
    queries, translations = (rng.standard_normal((3, 8)).astype(np.float32) for _ in range(2))
    units = [np.asarray(x, np.float64) / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, translations)]
    # Whatever their lengths.
    mixed = mix_queries(queries * np.float32([[1e-3], [1], [1e3]]), translations)
    np.testing.assert_allclose(mixed, sum(units) / 2, atol=1e-6)
    np.testing.assert_allclose(mix_queries(queries, queries), units[0], atol=1e-6)
    np.testing.assert_allclose(jax.jit(mix_queries)(queries, translations), sum(units) / 2, atol=1e-6)
    with pytest.raises(ValueError, match="there are 3 queries and 2 translations; give one for each"):
        mix_queries(queries, translations[:2])
