"""Language preference: hand-worked ranks and twins; tests/eval/test_preference.py plants it."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.retrieval.preference import (
    fair_share,
    four_way,
    language_ndcg,
    language_preference,
    max_rank,
    rank_shift,
    top_k_share,
)
from lsar_jax.retrieval.search import nearest_others
from tests import reference


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


def test_top_share_by_hand():
    result = top_k_share(np.array([[0, 1], [3, 2], [1, 0]]), np.array([0, 0, 0, 1]), np.array([0, 1, 5]))
    np.testing.assert_allclose(result.shares, [1, 0.5, 0])
    np.testing.assert_allclose(result.pool_shares, [0.75, 0.25, 0])
    assert (result.share, result.pool_share) == (pytest.approx(0.5), pytest.approx(1 / 3))


def test_neighbours_of_vectors_without_language_have_the_fair_share(rng):
    counts = np.array([40, 160, 800])
    language = np.repeat(np.arange(3), counts)
    cosines, near = nearest_others(rng.normal(size=(1000, 8)).astype(np.float32), 10)
    assert not (near == np.arange(1000)[:, None]).any()
    assert (np.diff(cosines) <= 0).all()
    fair = fair_share(counts)
    assert fair == pytest.approx((40 * 39 + 160 * 159 + 800 * 799) / (1000 * 999))
    assert top_k_share(near, language, language).share == pytest.approx(fair, abs=0.02)
    # Of eleven copies, ten others are the neighbours, whether or not the vector itself is among the nearest.
    near = nearest_others(np.repeat(np.eye(2, dtype=np.float32), 11, axis=0), 3)[1]
    assert (near // 11 == np.arange(22)[:, None] // 11).all()
    assert not (near == np.arange(22)[:, None]).any()


def test_four_ways_by_hand():
    relevant = np.array([[0, 2], [1, 3], [0, 2], [-1, 3]])
    split = four_way(np.array([0, 1, 1, 2]), relevant, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 0]))
    np.testing.assert_array_equal(np.stack(split), np.eye(4, dtype=bool))


def test_measures_of_ranks_are_the_twins(rng):
    scores = rng.standard_normal((30, 40))
    relevant = np.stack([rng.choice(40, 4, replace=False) for _ in scores])
    own = rng.integers(4, size=30)
    results = np.argsort(-scores, axis=1)
    ranks = np.argsort(results, axis=1)[np.arange(30)[:, None], relevant]
    reached = max_rank(ranks, 40)
    for row, listed in enumerate(results.tolist()):
        chosen = relevant[row].tolist()
        assert (reached.ranks[row], reached.scores[row]) == pytest.approx(reference.max_rank(listed, chosen))
    for first, other in ((10, 0.5), (3, 0.25), (40, 1.0), (2, 0.0)):
        found = language_ndcg(ranks, own, first=first, other=other)
        for row, listed in enumerate(results.tolist()):
            gains = dict.fromkeys(relevant[row].tolist(), other) | {int(relevant[row, own[row]]): 1.0}
            assert found[row] == pytest.approx(reference.language_ndcg(listed, gains, first))
    some = scores[:, :10].round(1)  # with ties
    np.testing.assert_allclose(rank_shift(some), [reference.rank_shift(row) for row in some.tolist()])


def test_ndcg_by_hand():
    ranks = np.array([[0, 1, 2], [2, 1, 0], [-1, 0, 1], [0, -1, -1]])
    best = 1 + 0.5 / np.log2(3) + 0.5 / 2
    expected = [1, (0.5 + 0.5 / np.log2(3) + 1 / 2) / best, np.nan, 1]
    np.testing.assert_allclose(language_ndcg(ranks, np.zeros(4, int)), expected)
    np.testing.assert_allclose(language_ndcg(ranks, np.zeros(4, int), other=1.0), [1, 1, np.nan, 1])


def test_max_rank_by_hand():
    found = max_rank(np.array([[0, 1], [3, 7], [-1, 0], [-1, -1]]), 8)
    np.testing.assert_array_equal(found.ranks, [2, 8, 1, np.nan])
    np.testing.assert_allclose(found.scores, [1, 0, 1, np.nan])


def test_rank_shift_by_hand():
    # The third rises two places, of three that the candidates could rise.
    found = rank_shift(np.array([[0.2, 0.1, 0.3], [3, 2, 1], [1, 1, 1]]))
    np.testing.assert_allclose(found, [2 / 3, 0, 0])


IDS = np.arange(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: language_preference(IDS, IDS, 3), r"ranks has shape \(3,\)"),
        (lambda: language_preference(IDS[None], IDS[:1], 2), "ranks holds 2; it must be from -1 to 1"),
        (lambda: language_preference(IDS[:, None], IDS * 0, 3), "no query has two relevant candidates"),
        (lambda: fair_share(IDS[:2]), "the sum of counts is 1"),
        (lambda: four_way(IDS, IDS[:, None], IDS[:2], IDS), "relevant holds 2; it must be from -1 to 1"),
        (lambda: language_ndcg(IDS[None], IDS[:1], first=0), "first is 0; it must be a whole number from 1"),
        (lambda: language_ndcg(IDS[None], IDS[:1], other=2), "other is 2; it must be from 0 to 1"),
        (lambda: max_rank(IDS[None], 3), "the number of relevant candidates is 3"),
        (lambda: rank_shift(np.ones((1, 2), bool)), "translated has .* type bool"),
        (lambda: rank_shift(IDS[None, :1] / 2), r"translated has shape \(1, 1\)"),
        (lambda: top_k_share(IDS[None], IDS[:2], IDS[:1]), "top_ids holds 2; it must be from 0 to 1"),
        (lambda: top_k_share(IDS[None], IDS, IDS), "query_language has shape"),
    ],
)
def test_refusals(unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call()
