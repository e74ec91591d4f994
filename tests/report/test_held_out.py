"""Measures of held-out sentences, by hand and by construction."""

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.measures.ranking import pool_precision, probe_folds
from lsar_jax.options.user_text import UserText
from lsar_jax.report.held_out import _joined, measure_neutrality, measure_search, without
from tests.report.planted_text import CODES, aligned, planted


def test_search_of_held_out_lines_and_pairs(rng):
    x = planted(rng, apart=1.0)
    text = aligned(x)
    folds = text.folds(3, 0)
    parts = []
    for fold in range(3):
        held_out = {code: of == fold for code, of in folds.items()}
        part = {code: rows[held_out[code]] for code, rows in x.items()}
        parts.append(measure_search(part, text, held_out))
        np.testing.assert_array_equal(parts[-1].values, pool_precision(part).values)
        assert set(parts[-1].clusters) == set(np.flatnonzero(held_out["de"]))
    assert len(_joined(parts).values) == 180
    # As pairs, of which French has only the first half; English row i translates row i.
    pairs = {"de": (np.arange(60), np.arange(60)), "fr": (np.arange(30), np.arange(30))}
    text = UserText(text.sentences, text.units, pairs, True)
    held_out = {code: np.arange(60) % 2 == 0 for code in CODES}
    found = measure_search({code: rows[::2] for code, rows in x.items()}, text, held_out)
    assert np.bincount(found.strata).tolist() == [60, 30]
    by_hand = [
        100.0 * np.mean([np.argmax(lj.retrieval.similarity(a[::2], b[::2]), axis=1) == np.arange(len(a[::2]))])
        for a, b in ((x["en"], x["de"]), (x["de"], x["en"]), (x["en"][:30], x["fr"][:30]), (x["fr"][:30], x["en"][:30]))
    ]
    assert found.mean == pytest.approx(np.mean(by_hand))


def test_neutrality_by_construction(rng):
    x = planted(rng, lines=200, apart=30.0)
    fit, test = ({code: rows[part] for code, rows in x.items()} for part in (slice(100), slice(100, None)))
    probed = probe_folds([code for code in CODES for _ in range(100)], [*range(100)] * 3)
    before = measure_neutrality(test, probed)
    assert (before.own, before.identified) == (100, 100)
    assert before.expected == pytest.approx(100 * 99 / 299)
    center = lj.transforms.fit_center(fit)
    after = measure_neutrality({c: np.asarray(center(r, c)) for c, r in test.items()}, probed)
    # Two of the ten neighbours are translations in the other languages; of the rest, a third is expected.
    assert 20 < after.own < 35
    assert abs(after.cosine) < 5 < before.cosine
    assert after.isoscore > 10 * before.isoscore


def test_moments_of_a_part_are_subtracted(rng):
    x = (rng.normal(size=(200, 24)) @ rng.normal(size=(24, 24)) + 50).astype(np.float32)
    whole, part, others = (
        lj.Moments.from_embeddings(rows, second_moment=True, precise=True) for rows in (x, x[:40], x[40:])
    )
    left = without(whole, part)
    assert left.count == 160
    np.testing.assert_allclose(left.mean, others.mean, rtol=1e-13)
    np.testing.assert_allclose(left.scatter, others.scatter, rtol=1e-11, atol=1e-11 * np.abs(others.scatter).max())
