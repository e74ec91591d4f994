"""Metrics on matrices small enough to check by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from eval.metrics import accuracy, average_precision, mean_average_precision
from eval.tasks.udhr import into_english, pool_map


def test_average_precision_by_hand():
    # Query 0 ranks candidates 2, 0, 3, 1; right are 0 and 1: (1/2 + 2/4) / 2. Query 1 ranks
    # 0, 1, 2, 3; right is 0: 1.
    similarity = np.array([[0.8, 0.1, 0.9, 0.5], [0.9, 0.8, 0.7, 0.6]])
    relevant = np.array([[True, True, False, False], [True, False, False, False]])
    assert mean_average_precision(similarity, relevant) == pytest.approx(100 * (0.5 + 1) / 2)
    # Without candidate 2 query 0 ranks 0, 3, 1: (1/1 + 2/3) / 2.
    excluded = np.zeros_like(relevant)
    excluded[0, 2] = True
    assert mean_average_precision(similarity, relevant, excluded) == pytest.approx(100 * (5 / 6 + 1) / 2)


def test_average_precision_equals_scikit_learn(rng):
    similarity = rng.standard_normal((20, 50))
    relevant = rng.random((20, 50)) < 0.2
    relevant[:, 0] = True
    excluded = rng.random((20, 50)) < 0.1
    excluded[:, 0] = False
    expected = np.mean(
        [
            average_precision_score(right[~out], scores[~out])
            for right, scores, out in zip(relevant, similarity, excluded, strict=True)
        ]
    )
    assert mean_average_precision(similarity, relevant, excluded) == pytest.approx(100 * expected)


def test_an_excluded_right_answer_does_not_count():
    relevant = np.array([[True, True, False]])
    excluded = np.array([[True, False, False]])
    assert mean_average_precision(np.array([[0.9, 0.1, 0.5]]), relevant, excluded) == pytest.approx(50)


def test_ties_are_ranked_by_index():
    assert mean_average_precision(np.zeros((1, 4)), np.array([[False, False, True, False]])) == pytest.approx(100 / 3)


def test_metrics_refuse():
    with pytest.raises(ValueError, match="query 1 has no relevant candidate"):
        mean_average_precision(np.eye(2), np.array([[True, False], [False, False]]))
    with pytest.raises(ValueError, match="shapes differ"):
        mean_average_precision(np.eye(2), np.ones((2, 3), bool))
    with pytest.raises(ValueError, match="answers for"):
        accuracy(np.array([1]), np.array([1, 2]))


def test_accuracy_by_hand():
    assert accuracy(np.array([0, 1, 3, 3]), np.array([0, 1, 2, 3])) == 75


def test_pool_map_by_hand():
    x = {
        "de": np.array([[1.0, 0.0], [-1.0, 0.0]]),
        "en": np.array([[0.6, 0.8], [0.0, 1.0]]),
    }
    # de-0 ranks en-0 (.6), en-1 (0), de-1 (-1): 1. de-1 ranks en-1 (0), en-0 (-.6), de-0: 1.
    # en-0 ranks en-1 (.8), de-0 (.6), de-1: 1/2. en-1 ranks en-0 (.8), de-0 and de-1 (0, 0): tie
    # to de-0, the lower index, then de-1: 1/3.
    value, queries = pool_map(x)
    assert value == pytest.approx(100 * (1 + 1 + 1 / 2 + 1 / 3) / 4)
    assert queries == 4


def test_into_english_by_hand():
    english = np.eye(3, dtype=np.float32)
    # German searches English: its second is nearer to the first. The other way all three are found.
    german = np.array([[1, 0, 0], [1, 0.9, 0], [0, 0.2, 1]], np.float32)
    x = {"en": english, "de": german, "fr": english}
    scored = into_english(x)
    assert scored.mean == pytest.approx(100 * (2 / 3 + 1) / 2)
    np.testing.assert_array_equal(scored.clusters, [0, 1, 2, 0, 1, 2])


def test_float32_is_ranked_as_float64(rng):
    # Whole numbers of many ties, negative ones and zeros of both signs among them.
    similarity = np.round(rng.standard_normal((40, 300)), 1)
    similarity[similarity == 0] *= -1.0
    relevant = rng.random((40, 300)) < 0.05
    relevant[:, 7] = True
    excluded = rng.random((40, 300)) < 0.1
    excluded[:, 7] = False
    single = similarity.astype(np.float32)
    expected = average_precision(single.astype(np.float64), relevant, excluded)
    np.testing.assert_array_equal(average_precision(single, relevant, excluded), expected)
