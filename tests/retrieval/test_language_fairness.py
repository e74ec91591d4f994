"""TLR, MRC and PEER: scipy's tests row by row, and values by hand."""

import numpy as np
import pytest
from scipy.stats import kruskal, spearmanr

from lsar_jax.retrieval.preference import mrc, peer, tlr


@pytest.fixture
def pool(rng):
    """Results of 30 queries among 60 candidates of three languages; up to 12 are relevant."""
    found = np.stack([rng.permutation(60) for _ in range(30)])[:, :20]
    relevant = np.stack([rng.permutation(60)[:12] for _ in range(30)])
    relevant[:10, 5:] = -1
    return found, relevant, rng.integers(3, size=60)


def test_peer_is_kruskal_and_wallis(pool):
    found, relevant, language = pool
    values = peer(found, relevant, language)
    for row, (results, wanted) in enumerate(zip(found.tolist(), relevant.tolist(), strict=True)):
        ranks = {c: results.index(c) + 1 if c in results else 21 for c in wanted if c >= 0}
        groups = [[r for c, r in ranks.items() if language[c] == code] for code in range(3)]
        groups = [group for group in groups if group]
        alike = len(groups) < 2 or len(set(ranks.values())) == 1
        assert values[row] == pytest.approx(1.0 if alike else kruskal(*groups).pvalue, rel=1e-12)
    assert 0 < values.min() < 0.5
    # One language alone, no candidate among the first, and no relevant candidate.
    edges = np.array([[0, 1, -1], [2, 3, -1], [-1, -1, -1]])
    np.testing.assert_array_equal(peer(np.full((3, 1), 0), edges, np.array([0, 0, 0, 1])), [1, 1, 1])


def test_peer_is_blind_with_one_relevant_candidate_a_language(pool):
    """However they rank, the value is the same; only finding none of them at all is another, and the best."""
    found = pool[0]
    found[:15] = np.sort(found[:15], axis=1)  # of these, the last languages come last
    relevant = np.tile([5, 25, 45, 55], (30, 1))
    values = peer(found, relevant, np.repeat(np.arange(4), [20, 20, 10, 10]))
    lost = ~np.isin(found, relevant[0]).any(axis=1)
    np.testing.assert_allclose(values, np.where(lost, 1.0, kruskal(*np.arange(4)[:, None]).pvalue))


def test_tlr_counts_only_other_languages(pool, rng):
    found, relevant, language = pool
    own = rng.integers(4, size=30)  # a language that the pool lacks, too
    values = tlr(found, relevant, language, own)
    for row, wanted in enumerate(relevant.tolist()):
        others = {c for c in wanted if c >= 0 and language[c] != own[row]}
        expected = len(others & set(found[row].tolist())) / len(others) if others else np.nan
        assert values[row] == pytest.approx(expected, nan_ok=True)
    alone = tlr(np.array([[0]]), np.array([[0, -1]]), np.array([0, 1]), np.array([0]))
    np.testing.assert_array_equal(alone, [np.nan])


@pytest.mark.parametrize("decimals", [8, 1])  # 1: with ties
def test_mrc_is_spearmans(rng, decimals):
    scores = (rng.standard_normal((1, 6, 50)) + rng.standard_normal((3, 6, 50))).round(decimals)
    values, k = mrc(scores, first=7), 7
    for row in range(6):
        pairs = []
        for a, b in ((0, 1), (0, 2), (1, 2)):
            # Of equal scores at the end of the first k, any may be taken.
            tops = [set(np.argpartition(-scores[side, row], k - 1)[:k].tolist()) for side in (a, b)]
            union = sorted(tops[0] | tops[1])
            pairs.append(spearmanr(scores[a, row, union], scores[b, row, union]).statistic)
        assert values[row] == pytest.approx(np.mean(pairs), abs=1e-12)
    assert mrc(np.stack([scores[0], 3 * scores[0] + 1]), first=7) == pytest.approx(1)
    np.testing.assert_array_equal(mrc(np.ones((2, 1, 5)), first=5), [np.nan])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: tlr(i[None], i[None] + 1, i, i[:1]), "relevant holds 3; it must be from -1 to 2"),
        (lambda i: tlr(i[None], i[None], i, i), "query_language has shape"),
        (lambda i: peer(i[None] - 1, i[None], i), "found holds -1; it must be from 0 to 2"),
        (lambda i: mrc(np.ones((1, 2, 3))), "the number of languages is 1"),
        (lambda i: mrc(np.ones((2, 2, 3))), "first is 20; it must be a whole number from 1 to 3"),
        (lambda i: mrc(np.full((2, 2, 3), np.nan)), "not finite"),
    ],
)
def test_refusals(unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call(np.arange(3))
