"""The choice among candidates, with planted differences and with none."""

import numpy as np
import pytest

from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.report.recommendation import recommend


def test_the_best_candidate_is_chosen(rng):
    clusters, strata = np.repeat(np.arange(50), 4), np.tile(np.arange(2), 100)
    base = rng.uniform(20, 60, 200)
    noise = [rng.normal(0, 1, 200) for _ in range(3)]
    gains = (0.0, 10.0, 9.99)
    candidates = [QueryScores(base + gain + one, strata, clusters) for gain, one in zip(gains, noise, strict=True)]
    choice = recommend(candidates)
    assert choice.best in (1, 2)
    assert choice.score.value == pytest.approx(candidates[choice.best].mean)
    assert choice.as_good() == [3 - choice.best]
    gain = choice.gains[0]
    assert gain.low < 10 < gain.high
    assert gain.high - gain.low < 1  # the difference is surer than the score, as queries are paired
    assert choice.score.high - choice.score.low > 2
    assert 0.2 < choice.again < 0.95


def test_within_a_tie_the_preferred_candidate_is_chosen(rng):
    base = rng.uniform(20, 60, 200)
    candidates = [QueryScores(base + gain + rng.normal(0, 1, 200)) for gain in (0, 10, 10.2, 13)]
    tied = recommend(candidates[:3], [True, True, False])
    assert (tied.best, tied.top) == (1, 2)
    assert tied.score.value == pytest.approx(candidates[1].mean)
    assert tied.gains[2].value < 0 < tied.gains[2].high
    assert tied.as_good() == [2]
    assert tied.again > 0.7
    better = recommend(candidates, [True, True, False, False])
    assert (better.best, better.top) == (3, 3)


def test_equal_candidates_are_seldom_called_worse(rng):
    # The best of fifty without a difference looks better than it is elsewhere.
    choice = recommend([QueryScores(rng.normal(50, 10, 40)) for _ in range(50)])
    assert choice.score.value > 52
    assert abs(choice.elsewhere - 50) < 2
    wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        candidates = [QueryScores(rng.normal(50, 10, 60)) for _ in range(12)]
        wrong += len(recommend(candidates, resamples=300).as_good()) < 11
    assert wrong <= 9  # of 100, where 5 are expected
