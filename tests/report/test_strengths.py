"""The recommended transform at strengths: measured as by hand in each fold, and chosen by a wanted share."""

import numpy as np
import pytest

from lsar_jax.report.sliders import front_of, strength_of
from lsar_jax.transforms import fit_lsar
from tests.report import planted_text
from tests.report.test_report_page import compared, planted


@pytest.fixture(scope="module")
def found():
    return compared(planted(np.random.default_rng(0)), "aligned", ("original", "lsar"))


def test_each_strength_is_measured_in_each_fold_by_a_fit_on_the_others(found):
    front, x = front_of(found), planted(np.random.default_rng(0))
    assert [strength_of(entry) for entry in front.entries] == [0, 0.25, 0.5, 0.75, 1]
    assert front.chosen is front.entries[-1] is found.best
    for entry in front.entries:
        own = []
        for fold in found.folds:
            lsar = fit_lsar({code: rows[~fold.held_out[code]] for code, rows in x.items()})
            test = np.concatenate([x[code][few] for code, few in fold.few.items()]).astype(np.float64)
            moved = test + strength_of(entry) * (np.asarray(lsar(test), np.float64) - test)
            own.append(100 * fold.pool.search(moved).own.mean())
        assert entry.own == pytest.approx(np.mean(own), abs=0.2)
    # With less of the language removed, more stays, and fewer translations are found.
    assert all(np.diff([entry.own for entry in front.entries]) < 0)
    assert front.entries[0].score < front.entries[2].score < front.entries[-1].score + 1


def test_the_best_search_that_keeps_a_share_is_chosen(found):
    entries = front_of(found).entries
    for entry in entries:
        chosen = front_of(found, entry.own).chosen
        assert chosen.own >= entry.own
        assert chosen.score == max(other.score for other in entries if other.own >= entry.own)
    with pytest.raises(ValueError, match=rf"own 101: layer 2, lsar rank=2 keeps .* give at most {entries[0].own:.1f}"):
        front_of(found, 101.0)


def test_without_a_transform_or_search_there_is_little_to_choose(found):
    x = planted_text.planted(np.random.default_rng(1), 60, codes=("ar", "de", "en"), apart=0.0)
    original = compared(x, "aligned", worse=5.0)
    assert [strength_of(entry) for entry in front_of(original).entries] == [0]
    loose = front_of(compared(planted(np.random.default_rng(0)), "loose"))
    assert [row[1] for row in loose.rows] == 5 * ["-"]
    assert loose.chosen is loose.entries[-1]
