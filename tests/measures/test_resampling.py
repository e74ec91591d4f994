"""Intervals that cover as often as they say, and a test that finds differences as seldom as it says."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from lsar_jax.measures.correlations import pseudo_values, resampled_correlations
from lsar_jax.measures.query_scores import QueryScores, strata_of
from lsar_jax.measures.resampling import critical_value, interval, paired_interval, paired_test, simultaneous_intervals


def test_interval_is_scipys(rng):
    values = rng.exponential(size=300)
    expected = scipy.stats.bootstrap((values,), np.mean, method="percentile", n_resamples=5000, rng=0)
    low, high = interval(QueryScores(values), resamples=5000)
    width = high - low
    assert low == pytest.approx(expected.confidence_interval.low, abs=0.05 * width)
    assert high == pytest.approx(expected.confidence_interval.high, abs=0.05 * width)


def test_hits_are_drawn_as_any_scores(rng):
    # With a little added that tells them apart each is drawn by itself.
    hits = 100.0 * (rng.random((2, 400)) < [[0.3], [0.8]]).ravel()
    strata = np.repeat([0, 1], 400)
    quick = interval(QueryScores(hits, strata), resamples=20_000)
    slow = interval(QueryScores(hits + 1e-6 * rng.random(800), strata), resamples=20_000)
    np.testing.assert_allclose(quick, slow, atol=0.02 * (quick[1] - quick[0]))


def test_means_of_strata_and_clusters():
    queries = QueryScores(np.array([1.0, 1.0, 4.0, np.nan]), clusters=np.array([0, 0, 1, 1]))
    assert queries.mean == 2
    assert interval(queries) == (1, 4)
    # All that differs is between two strata, which are always both there: nothing varies.
    values, strata = np.array([0.0] * 50 + [100.0] * 10), np.array([0] * 50 + [1] * 10)
    assert QueryScores(values, strata).mean == 50
    assert interval(QueryScores(values, strata)) == (50, 50)
    low, high = interval(QueryScores(values))
    assert low < 100 / 6 < high


def test_paired_test_is_exact_on_few(rng):
    first = rng.standard_normal(8)
    second = first + rng.standard_normal(8) + 0.8
    difference, p = paired_test(QueryScores(first), QueryScores(second), resamples=200_000)
    assert difference == pytest.approx((second - first).mean())
    options = {"permutation_type": "samples", "n_resamples": np.inf, "vectorized": True, "axis": 0}
    exact = scipy.stats.permutation_test((second - first,), np.mean, **options)
    assert p == pytest.approx(exact.pvalue, abs=0.005)
    assert paired_test(QueryScores(first), QueryScores(first)) == (0, 1)


def test_of_many_languages_without_a_difference_none_is_found(rng):
    found = {"at once": 0, "alone": 0}
    for _ in range(60):
        pairs = [(QueryScores(rng.normal(50, 10, 50)), QueryScores(rng.normal(50, 10, 50))) for _ in range(20)]
        spans = {"at once": simultaneous_intervals(pairs, resamples=200)}
        spans["alone"] = [paired_interval(*pair, resamples=200) for pair in pairs]
        for name, of in spans.items():
            found[name] += any(low > 0 or high < 0 for low, high in of)
    assert found["at once"] <= 8  # of 60, where 3 are expected; their standard deviation is 1.7
    assert found["alone"] > 30
    # One that loses, and one that no query of changes, among them.
    same = QueryScores(rng.normal(50, 10, 50))
    pairs = [*pairs, (same, QueryScores(same.values - rng.normal(8, 4, 50))), (same, same)]
    *others, (_, high), nothing = simultaneous_intervals(pairs)
    assert high < -5
    assert all(low < 0 < high for low, high in others)
    assert nothing == (0, 0)


def test_refusals(unchecked):
    with pytest.raises(ValueError, match="3 and 2 scores are not of the same queries"):
        paired_test(QueryScores(np.zeros(3)), QueryScores(np.zeros(2)))
    with pytest.raises(ValueError, match="are not of the same queries"):
        paired_test(QueryScores(np.zeros(2), np.array([0, 0])), QueryScores(np.zeros(2), np.array([0, 1])))
    with pytest.raises(ValueError, match=r"strata has shape \(1,\); it must be that of values, \(2,\)"):
        QueryScores(np.zeros(2), np.zeros(1, int))
    with pytest.raises(ValueError, match="no query has a score"):
        QueryScores(np.full(2, np.nan))


def test_clusters_are_drawn_together(rng):
    # Eleven copies of each question know no more than one.
    once = rng.standard_normal(80)
    copies = QueryScores(np.repeat(once, 11), clusters=np.repeat(np.arange(80), 11))
    np.testing.assert_allclose(interval(copies), interval(QueryScores(once)))
    expected = paired_test(QueryScores(once), QueryScores(once + 0.1))
    assert paired_test(copies, replace(copies, values=copies.values + 0.1)) == pytest.approx(expected)


@pytest.mark.parametrize("ranked", [False, True])
def test_correlations_are_scipys(rng, ranked):
    x = rng.standard_normal(120)
    y = np.round(x + rng.standard_normal(120))  # with ties
    function = scipy.stats.spearmanr if ranked else scipy.stats.pearsonr
    drawn = resampled_correlations(x, y, ranked=ranked, resamples=4000)
    expected = scipy.stats.bootstrap(
        (x, y), lambda a, b: function(a, b).statistic, paired=True, method="percentile", vectorized=False,
        n_resamples=2000, rng=1,
    ).confidence_interval  # fmt: skip
    low, high = np.quantile(drawn, (0.025, 0.975))
    assert low == pytest.approx(expected.low, abs=0.015)
    assert high == pytest.approx(expected.high, abs=0.015)


@pytest.mark.parametrize("ranked", [False, True])
def test_pseudo_values_have_the_errors_of_correlations(rng, ranked):
    """Both the errors of a correlation, and of the difference of two with the same scores by people."""
    gold = np.round(rng.uniform(0, 5, 250))  # with ties
    first, second = gold + 2 * rng.standard_normal(250), gold + 2 * rng.standard_normal(250)
    function = scipy.stats.spearmanr if ranked else scipy.stats.pearsonr
    values = [pseudo_values(x, gold, ranked=ranked) for x in (first, second)]
    assert values[0].mean() == pytest.approx(function(first, gold).statistic)
    a, b = (resampled_correlations(x, gold, ranked=ranked, resamples=4000) for x in (first, second))
    for of_pairs, drawn in ((values[0], a), (values[1] - values[0], b - a)):
        assert of_pairs.std(ddof=1) / np.sqrt(250) == pytest.approx(drawn.std(), rel=0.08)
    # Each pair's own part: left out, it changes the correlation by that much.
    without = function(first[1:], gold[1:]).statistic
    other = function(np.delete(first, 1), np.delete(gold, 1)).statistic
    assert values[0][0] - values[0][1] == pytest.approx(249 * (other - without))
    assert (pseudo_values(np.ones(5), np.arange(5), ranked=ranked) == 0).all()


def test_at_once_takes_only_queries_that_both_have(rng):
    strata = np.repeat([0, 1], 30)
    first, second = rng.normal(size=(2, 60))
    few = np.arange(60) % 7 > 0
    lacking = tuple(QueryScores(np.where(few, values, np.nan), strata) for values in (first, second))
    without = tuple(QueryScores(values[few], strata[few]) for values in (first, second))
    assert simultaneous_intervals([lacking]) == simultaneous_intervals([without])
    # The difference is of these queries too: of all that the first has, it is another.
    apart = QueryScores(np.where(few, first + 1, np.nan), strata)
    np.testing.assert_allclose(simultaneous_intervals([(QueryScores(first, strata), apart)]), [(1, 1)])
    with pytest.raises(ValueError, match="are not of the same queries"):
        simultaneous_intervals([(QueryScores(first, strata), QueryScores(first))])


def test_at_once_of_single_units(rng):
    """They have no interval, and make those of others no wider."""
    first, second = (QueryScores(values) for values in rng.normal(size=(2, 40)))
    single = QueryScores(np.ones(2), clusters=np.array([3, 3])), QueryScores(np.zeros(2), clusters=np.array([3, 3]))
    ends, none = simultaneous_intervals([(first, second), single])
    assert [ends] == simultaneous_intervals([(first, second)])
    assert np.isnan(none).all()
    # A language of one query among others of many.
    few, many = (QueryScores(np.append(of.values, 0), np.repeat([0, 1], [40, 1])) for of in (first, second))
    np.testing.assert_allclose(simultaneous_intervals([(few, many)]), np.array([ends]) / 2)
    assert simultaneous_intervals([]) == []


def test_at_once_of_strata_is_a_t_interval(rng):
    """Two strata of five units have the degrees of freedom of both."""
    first, second = rng.normal(size=(2, 2, 5))
    strata = np.repeat([0, 1], 5)
    ((low, high),) = simultaneous_intervals([(QueryScores(first.ravel(), strata), QueryScores(second.ravel(), strata))])
    error = np.sqrt((second - first).var(axis=1).sum() / 5) / 2
    assert (low + high) / 2 == pytest.approx((second - first).mean())
    assert (high - low) / 2 == pytest.approx(scipy.stats.t.ppf(0.975, 8) * np.sqrt(9 / 8) * error, rel=0.1)
    width = critical_value(np.array([scipy.stats.norm.ppf(0.975)]), 9)
    assert width == pytest.approx(scipy.stats.t.ppf(0.975, 8) * np.sqrt(9 / 8))


def f1(right, gold):
    """Planted mining: of 200 sources a tenth is gold; some of it is found, and some of the rest mined wrongly."""
    sources = np.flatnonzero(right >= 0)
    found = np.isin(gold, np.flatnonzero(right == 1))
    values, clusters = np.concatenate([right[sources], found]).astype(float), np.concatenate([sources, gold])
    return QueryScores(values, clusters=clusters, varying=True)


def test_f1_is_a_mean_of_clusters(rng):
    gold = np.arange(60)
    right = np.where(np.arange(200) < 60, rng.choice([1, 0, -1], 200), rng.choice([0, -1], 200, p=[0.2, 0.8]))
    queries = f1(right, gold)
    mined, true = (right >= 0).sum(), (right == 1).sum()
    assert queries.mean == pytest.approx(2 * true / (mined + 60))
    # By hand: sources that are mined or gold, drawn with replacement.
    is_gold = np.arange(200) < 60
    kept = np.flatnonzero((right >= 0) | is_gold)
    drawn = kept[rng.integers(len(kept), size=(4000, len(kept)))]
    sizes = (right >= 0)[drawn].sum(axis=1) + is_gold[drawn].sum(axis=1)
    expected = np.quantile(2 * (right == 1)[drawn].sum(axis=1) / sizes, (0.025, 0.975))
    np.testing.assert_allclose(interval(queries, resamples=2000), expected, atol=0.01)


def test_f1_of_two_methods(rng):
    gold, small = np.arange(60), 0
    for seed in range(100):
        others = rng.choice([0, -1], (2, 200), p=[0.2, 0.8])
        both = np.where(np.arange(200) < 60, rng.choice([1, 0, -1], (2, 200)), others)
        first, second = (f1(right, gold) for right in both)
        difference, p = paired_test(first, second, resamples=400, seed=seed)
        assert difference == pytest.approx(second.mean - first.mean)
        small += p < 0.05
    assert small <= 12  # 5% of 100 is 5, its standard deviation 2.2
    # Of two methods that find the same, one mines half as many wrong pairs.
    better = np.where((both[0] == 0) & (np.arange(200) % 2 == 0), -1, both[0])
    difference, p = paired_test(f1(both[0], gold), f1(better, gold))
    low, high = paired_interval(f1(both[0], gold), f1(better, gold))
    assert p < 0.001
    assert 0 < low < difference < high


def test_languages_become_strata():
    one, two = (QueryScores(np.array([0.0, 1, 1]), clusters=np.array(names)) for names in ([7, 7, 9], [7, 3, 3]))
    both = strata_of([one, two])
    assert both.mean == pytest.approx((one.mean + two.mean) / 2)
    # Clusters of one name in two languages are apart, and keep their names for the next method's.
    assert [part.cluster.tolist() for part in both.parts()] == [[7, 9], [3, 7]]
    assert strata_of([QueryScores(np.zeros(2)), QueryScores(np.ones(3))]).clusters is None
