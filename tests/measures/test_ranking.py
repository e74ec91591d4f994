"""Metrics on similarities small enough to check by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from lsar_jax.measures.ranking import into_english, pool_precision, precision_of_ranks, top1_hits
from lsar_jax.retrieval import candidate_ranks


def ranks_of(similarity, relevant, left_out=None):
    """The ranks by given similarities: the product of a row and the unit vectors is the row."""
    similarity = np.asarray(similarity, np.float32)
    units = np.eye(similarity.shape[1], dtype=np.float32)
    return candidate_ranks(similarity, units, relevant, metric="dot", left_out=left_out)


def table_of(relevant):
    """The indices of the true candidates of each row, with -1 to the right of them."""
    table = np.full((len(relevant), relevant.sum(axis=1).max()), -1)
    for row, right in zip(table, relevant, strict=True):
        row[: right.sum()] = np.flatnonzero(right)
    return table


def test_average_precision_equals_scikit_learn(rng):
    similarity = rng.standard_normal((20, 50)).astype(np.float32)
    relevant = rng.random((20, 50)) < 0.2
    relevant[:, 0] = True
    left_out = rng.integers(1, 50, size=20)
    expected = [
        average_precision_score(np.delete(right, out), np.delete(scores, out))
        for right, out, scores in zip(relevant, left_out, similarity, strict=True)
    ]
    # Of some queries what is left out is relevant, and of some it is not.
    assert set(relevant[np.arange(20), left_out]) == {False, True}
    found = precision_of_ranks(ranks_of(similarity, table_of(relevant), left_out))
    assert found == pytest.approx(np.array(expected))


def test_a_query_needs_a_relevant_candidate():
    with pytest.raises(ValueError, match="query 1 has no relevant candidate"):
        precision_of_ranks(ranks_of(np.eye(2), np.array([[0], [-1]])))


def test_pool_precision_by_hand():
    x = {"de": np.array([[1.0, 0.0], [-1.0, 0.0]]), "en": np.array([[0.6, 0.8], [0.0, 1.0]])}
    # de-0 ranks en-0 (.6), en-1 (0), de-1 (-1): 1. de-1 ranks en-1 (0), en-0 (-.6), de-0: 1.
    # en-0 ranks en-1 (.8), de-0 (.6), de-1: 1/2. en-1 ranks en-0 (.8), de-0 and de-1 (0, 0): tie
    # to de-0, the lower index, then de-1: 1/3.
    scored = pool_precision(x)
    assert scored.values == pytest.approx(np.array([100, 100, 100 / 2, 100 / 3]))
    assert scored.mean == pytest.approx(100 * (1 + 1 + 1 / 2 + 1 / 3) / 4)
    np.testing.assert_array_equal(scored.clusters, [0, 1, 0, 1])


def test_a_hub_draws_no_queries_with_a_bank(rng):
    """The last translation is the direction that all sentences share, and nearer to most of them than their own."""
    meaning, noise = rng.standard_normal((2, 40, 100))
    x = {"en": meaning + 2, "de": 0.4 * meaning + 0.2 * noise + 2}
    x["en"][-1] = 2
    bank = rng.standard_normal((400, 100)) + 2
    assert top1_hits(x["de"], x["en"])[:-1].mean() < 0.6
    assert top1_hits(x["de"], x["en"], bank)[:-1].all()
    assert into_english(x, bank).mean > into_english(x).mean + 35
    assert pool_precision(x, bank).mean > pool_precision(x).mean + 10


def test_into_english_by_hand():
    english = np.eye(3, dtype=np.float32)
    # German searches English: its second is nearer to the first. The other way all three are found.
    german = np.array([[1, 0, 0], [1, 0.9, 0], [0, 0.2, 1]], np.float32)
    x = {"en": english, "de": german, "fr": english}
    scored = into_english(x)
    assert scored.mean == pytest.approx(100 * (2 / 3 + 1) / 2)
    np.testing.assert_array_equal(scored.clusters, [0, 1, 2, 0, 1, 2])
