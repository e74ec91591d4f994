"""Measures of held-out sentences, by hand and by construction."""

from dataclasses import replace

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.ranking import pool_precision, probe_folds
from lsar_jax.options.user_text import UserText
from lsar_jax.report.embedded_text import Embedded, search_reference
from lsar_jax.report.held_out import Folds, _joined, measure_search, measure_space, without
from lsar_jax.report.measured import Measured, Pool
from lsar_jax.report.method_comparison import Comparison, _far_below
from tests.report.planted_text import CODES, aligned, planted
from tests.report.test_report_page import SPEC


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


def test_the_space_by_construction(rng):
    x = planted(rng, lines=200, apart=30.0)
    fit, test = ({code: rows[part] for code, rows in x.items()} for part in (slice(100), slice(100, None)))
    pool, codes = Pool(np.repeat([0, 1, 2], 100)), [code for code in CODES for _ in range(100)]
    probed = probe_folds(codes, [*range(100)] * 3)
    before = np.concatenate(list(test.values()))
    center = lj.transforms.fit_center(fit)
    after = np.concatenate([np.asarray(center(rows, code)) for code, rows in test.items()])
    assert pool.search(before).own.mean() == 1
    assert pool.search(before).fair == pytest.approx(99 / 299)
    # Two of the ten neighbours are translations in the other languages; of the rest, a third is expected.
    assert 0.2 < pool.search(after).own.mean() < 0.35
    before, after = (measure_space(y, codes, probed) for y in (before, after))
    assert before.identified == 100
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


def test_lines_of_another_kind_stand_in_twice(rng):
    """As they are, and with the means of the text; the fit on the text is right for the second alone."""
    x = planted(rng, 400, noise=0.01)
    lines = planted(rng, 40, noise=0.01)  # the languages have other means
    center = Method.of("center", lj.transforms.fit_center(x))
    meanings = {code: rows - rows.mean(axis=0) for code, rows in lines.items()}
    assert pool_precision(meanings).values.mean() == 100
    as_they_are = pool_precision({code: rows - x[code].mean(axis=0) for code, rows in lines.items()}).values
    assert as_they_are.mean() < 60
    found, means = search_reference(lines, x, center)
    np.testing.assert_allclose(found.values, (as_they_are + 100) / 2, atol=1e-4)
    np.testing.assert_allclose(means, [as_they_are.mean(), 100], atol=1e-4)
    np.testing.assert_array_equal(found.clusters, np.tile(np.arange(40), 3))
    np.testing.assert_allclose(search_reference(lines, None, center)[0].values, as_they_are, atol=1e-4)


def test_each_stand_in_has_a_best_of_its_own():
    text, scores = UserText({}, {}, {}, False), ((90.0, 70.0), (80.0, 95.0), (85.0, 82.0))
    measured = [Measured(SPEC, Method("x", {}), (), stand_ins=of) for of in scores]
    embedded = Embedded(text, [SPEC], {})
    assert Comparison(Folds(text, 5, 0), embedded, measured).stand_ins == measured[:2]
    assert Comparison(Folds(text, 5, 0), embedded, [replace(measured[0], stand_ins=())]).stand_ins == []


def test_layers_beyond_one_far_below_are_left_out():
    scores = {5: 90.0, 4: 88.0, 3: 80.0, 2: 82.0}
    found = {k: [Measured(SPEC, Method("x", {}), (), search=QueryScores(np.full(2, of)))] for k, of in scores.items()}
    assert [_far_below(layer, 5, found) for layer in (4, 3, 2, 1, 0, 6)] == [False, False, False, True, True, False]
    # An estimate at layer 1 or 2, or beyond, stands in for the second layer.
    for gaps, left_out in (({1: 9.0}, True), ({2: 9.0, 1: 0.0}, True), ({1: 2.0, 0: 9.0}, False), ({4: 9.0}, False)):
        assert _far_below(2, 5, found, gaps) is left_out
