"""Language preference against brute force, hand-worked ranks and planted preference."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.retrieval.preference import language_preference, relevant_ranks, top_k_share
from lsar_jax.retrieval.search import nearest


def brute_force(queries, candidates, query_group, group, language, left_out):
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in np.asarray([queries, candidates], dtype=object))
    ranks = np.full((len(queries), language.max() + 1), -1)
    for row, scores in enumerate(u @ v.T):
        scores[left_out[row]] = -np.inf if left_out[row] >= 0 else scores[left_out[row]]
        order = np.argsort(-scores, kind="stable")
        for rank, candidate in enumerate(order):
            if group[candidate] == query_group[row] and candidate != left_out[row]:
                ranks[row, language[candidate]] = rank
    return ranks


def pool(rng, groups=40, languages=3, dim=6, bias=0.0):
    """Translations of the same meanings at each call, each language moved by ``bias`` its own way."""
    language, group = np.divmod(rng.permutation(groups * languages), groups)
    meanings, ways = np.random.default_rng(9).standard_normal((groups, dim)), np.eye(languages, dim)
    noise = 0.3 * rng.standard_normal((len(group), dim))
    return (meanings[group] + bias * ways[language] + noise).astype(np.float32), group, language


@pytest.mark.parametrize("chunk", [1, 7, 256])
@pytest.mark.parametrize("seen", [True, False])
def test_ranks_equal_brute_force(rng, chunk, seen):
    x, group, language = pool(rng)
    left_out = np.full(len(x), -1) if seen else np.arange(len(x))
    kept = np.sort(rng.permutation(len(x))[:100])  # so that some groups miss a language
    left_out = np.where(np.isin(left_out, kept), np.searchsorted(kept, left_out), -1)
    candidates = x[kept], group[kept], language[kept]
    twin = brute_force(x.astype(float), candidates[0].astype(float), group, *candidates[1:], left_out)
    ranks = relevant_ranks(
        x, jnp.asarray(candidates[0]), group, *candidates[1:], left_out=None if seen else left_out, chunk=chunk
    )
    np.testing.assert_array_equal(ranks, twin)
    assert (twin == -1).any()
    assert ranks.dtype == np.int32


def test_ranks_are_places_in_nearest(rng):
    x, group, language = pool(rng, bias=1.0)
    queries, wanted = rng.standard_normal((33, 6)).astype(np.float32), rng.integers(0, 40, 33)
    ranks = relevant_ranks(queries, x, wanted, group, language)
    order = np.asarray(nearest(queries, x, len(x))[1])
    for row, column in np.ndindex(ranks.shape):
        found = order[row, ranks[row, column]]
        assert (group[found], language[found]) == (wanted[row], column)


def test_ties_go_to_the_lower_index():
    ranks = relevant_ranks(
        np.ones((2, 3)), np.ones((4, 3)), np.array([7, 9]), np.array([9, 7, 7, 9]), np.arange(4) // 2
    )
    np.testing.assert_array_equal(ranks, [[1, 2], [0, 3]])


def test_a_group_without_candidates_and_a_lone_query_left_out():
    x = np.eye(3, dtype=np.float32)
    ranks = relevant_ranks(
        x[:2], x, np.array([-5, 1]), np.array([1, 1, 2]), np.array([0, 1, 1]), left_out=np.array([-1, 0])
    )
    np.testing.assert_array_equal(ranks, [[-1, -1], [-1, 0]])


def test_preference_by_hand():
    ranks = np.array([[0, 4, 9], [3, 2, 5], [-1, 1, 3], [-1, -1, 8]])
    result = language_preference(ranks, np.array([0, 0, 0, 2]), 10)
    np.testing.assert_array_equal(result.preferred, [1, 0, np.nan, np.nan])
    np.testing.assert_allclose(result.spreads, [0.9, 0.3, 0.2, np.nan])
    assert result.preference == 0.5
    assert result.spread == pytest.approx((0.9 + 0.3 + 0.2) / 3)


def test_translations_without_the_query_have_a_spread_and_no_preference():
    result = language_preference(jnp.array([[-1, 4, 9], [3, -1, 5]]), jnp.array([0, 1]), 10)
    assert np.isnan(result.preference)
    assert result.spread == pytest.approx(0.35)


def test_planted_preference(rng):
    means = {}
    for bias in (0.0, 10.0):
        queries, wanted, own = pool(rng, groups=200, bias=bias)
        x, group, language = pool(rng, groups=200, bias=bias)
        result = language_preference(relevant_ranks(queries, x, wanted, group, language), own, len(x))
        top = top_k_share(nearest(queries, x, 10)[1], language, own)
        means[bias] = result.preference, result.spread, top.share
        assert top.pool_share == pytest.approx(1 / 3)
    assert means[10.0][0] == 1
    assert means[10.0][2] > 0.99
    assert means[10.0][1] > 0.5 > means[0.0][1] + 0.3
    assert means[0.0][0] == pytest.approx(1 / 3, abs=0.06)  # three standard errors of 600 queries
    assert means[0.0][2] == pytest.approx(1 / 3, abs=0.02)


def test_top_share_by_hand():
    result = top_k_share(np.array([[0, 1], [3, 2], [1, 0]]), np.array([0, 0, 0, 1]), np.array([0, 1, 5]))
    np.testing.assert_allclose(result.shares, [1, 0.5, 0])
    np.testing.assert_allclose(result.pool_shares, [0.75, 0.25, 0])
    assert (result.share, result.pool_share) == (pytest.approx(0.5), pytest.approx(1 / 3))


X = np.eye(3, dtype=np.float32)
IDS = np.arange(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relevant_ranks(X, X * np.nan, IDS, IDS, IDS), "candidates: 3 of 3 rows hold NaN or infinity"),
        (lambda: relevant_ranks(X, X[:, :2], IDS, IDS, IDS), "differ in width: {'queries': 3, 'candidates': 2}"),
        (lambda: relevant_ranks(X[:2], X, IDS, IDS, IDS), r"query_group has shape \(3,\) .* expected 2 whole numbers"),
        (lambda: relevant_ranks(X, X, IDS, IDS * 1.0, IDS), "candidate_group has .* type float64"),
        (lambda: relevant_ranks(X, X, IDS, IDS, IDS - 1), "candidate_language holds -1; it must be at least 0"),
        (lambda: relevant_ranks(X, X, IDS, IDS * 0, IDS // 2), "group 0 has two candidates in language 0"),
        (lambda: relevant_ranks(X, X, IDS, IDS, IDS, left_out=IDS + 1), "left_out holds 3; it must be from -1 to 2"),
        (lambda: relevant_ranks(X, X, IDS, IDS, IDS, chunk=0), "chunk is 0"),
        (lambda: language_preference(IDS, IDS, 3), r"ranks have shape \(3,\)"),
        (lambda: language_preference(IDS[None], IDS[:1], 2), "ranks holds 2; it must be from -1 to 1"),
        (lambda: language_preference(IDS[None], IDS[:1] + 3, 3), "query_language holds 3; it must be from 0 to 2"),
        (lambda: language_preference(IDS[None], IDS, 3), "query_language has shape"),
        (lambda: language_preference(IDS[:, None], IDS * 0, 3), "no query has two relevant candidates"),
        (lambda: language_preference(IDS[None], IDS[:1], 0), "pool is 0"),
        (lambda: top_k_share(IDS, IDS, IDS), r"top_ids have shape \(3,\)"),
        (lambda: top_k_share(IDS[None], IDS[:2], IDS[:1]), "top_ids holds 2; it must be from 0 to 1"),
        (lambda: top_k_share(IDS[None], IDS, IDS), "query_language has shape"),
    ],
)
def test_refusals(unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call()
