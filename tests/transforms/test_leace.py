"""LEACE: the published formula, and what a probe finds after it."""

import numpy as np
import pytest

from lsar_jax.transforms import fit_leace
from tests import reference


def together(x):
    return np.concatenate(list(x.values())), [code for code, rows in x.items() for _ in rows]


@pytest.mark.parametrize("precise", [False, True])
def test_equals_its_twin(x, precise):
    leace = fit_leace(x, precise=precise)
    for part in x.values():
        np.testing.assert_allclose(leace(part), reference.leace(part, *together(x)), atol=2e-4)
    means = np.stack([np.asarray(leace(part), np.float64).mean(axis=0) for part in x.values()])
    np.testing.assert_allclose(means, np.tile(means[0], (len(means), 1)), atol=1e-4)


def test_a_converged_probe_learns_nothing(x):
    from sklearn.linear_model import LogisticRegression

    small = {code: rows / 30 for code, rows in x.items()}
    rows, labels = together(small)

    def weights(embeddings):
        embeddings = np.asarray(embeddings, np.float64)
        probe = LogisticRegression(C=1e3, tol=1e-10, max_iter=2000).fit(embeddings - embeddings.mean(axis=0), labels)
        return np.abs(probe.coef_).max(), probe.score(embeddings - embeddings.mean(axis=0), labels)

    before, accuracy = weights(rows)
    after, _ = weights(fit_leace(small)(rows))
    assert before > 1
    assert accuracy == 1
    assert after < 1e-3
