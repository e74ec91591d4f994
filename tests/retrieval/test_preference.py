"""Language preference: hand-worked ranks and planted preference."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.retrieval import candidate_ranks, nearest
from lsar_jax.retrieval.preference import fair_share, language_preference, top_k_share
from lsar_jax.retrieval.search import nearest_others


def pool(rng, groups=40, languages=3, dim=6, bias=0.0):
    """Translations of the same meanings at each call, each language moved by ``bias`` its own way."""
    language, group = np.divmod(rng.permutation(groups * languages), groups)
    meanings, ways = np.random.default_rng(9).standard_normal((groups, dim)), np.eye(languages, dim)
    noise = 0.3 * rng.standard_normal((len(group), dim))
    return (meanings[group] + bias * ways[language] + noise).astype(np.float32), group, language


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
        places = np.empty((200, 3), int)
        places[group, language] = np.arange(len(x))
        result = language_preference(candidate_ranks(queries, x, places[wanted]), own, len(x))
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


IDS = np.arange(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: language_preference(IDS, IDS, 3), r"ranks have shape \(3,\)"),
        (lambda: language_preference(IDS[None], IDS[:1], 2), "ranks holds 2; it must be from -1 to 1"),
        (lambda: language_preference(IDS[None], IDS[:1] + 3, 3), "query_language holds 3; it must be from 0 to 2"),
        (lambda: language_preference(IDS[None], IDS, 3), "query_language has shape"),
        (lambda: language_preference(IDS[:, None], IDS * 0, 3), "no query has two relevant candidates"),
        (lambda: language_preference(IDS[None], IDS[:1], 0), "pool is 0"),
        (lambda: fair_share(IDS[:2]), "counts has 1 texts; give at least two"),
        (lambda: top_k_share(IDS, IDS, IDS), r"top_ids have shape \(3,\)"),
        (lambda: top_k_share(IDS[None], IDS[:2], IDS[:1]), "top_ids holds 2; it must be from 0 to 1"),
        (lambda: top_k_share(IDS[None], IDS, IDS), "query_language has shape"),
    ],
)
def test_refusals(unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call()
