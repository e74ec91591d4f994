"""The report's calibrations: of a fit without the lines, for the transform of all folds."""

from dataclasses import replace

import numpy as np
import pytest

from lsar_jax.report.one_threshold import calibrations_of, rows_of
from lsar_jax.report.sliders import BETWEEN, front_of
from lsar_jax.retrieval.calibration import calibrate
from lsar_jax.transforms import fit_lsar
from tests.report.test_report_page import compared, planted


@pytest.fixture(scope="module")
def x():
    return planted(np.random.default_rng(0), 200)


def test_two_folds_calibrate_a_fit_on_the_others(x):
    found = compared(x, "aligned", ("original", "lsar"))
    entry = front_of(found).chosen
    calibrations = calibrations_of(found, entry)
    assert [name.partition(", ")[2] for name in calibrations] == 2 * ["cosine", "CSLS"]
    first, second, _ = found.folds
    held_out = {code: first.held_out[code] | second.held_out[code] for code in x}
    lsar = fit_lsar({code: rows[~held_out[code]] for code, rows in x.items()})
    expected = calibrate({code: rows[held_out[code]] for code, rows in x.items()}, lsar)
    last = [*calibrations.values()][-1]
    np.testing.assert_allclose(last.matches.score, expected.matches.score, atol=1e-5)
    last.check(entry.method.transform)  # it is saved beside this one
    rows = {row[0]: row[1:] for row in rows_of(calibrations)}
    assert rows[f"{entry.method.label}, CSLS"][0] > rows["original, cosine"][0]
    # A part of the transform is calibrated as that part.
    half = replace(entry, method=entry.method.at_strengths(BETWEEN)[1])
    of_half = [*calibrations_of(found, half).values()][-1]
    of_half.check(half.method.transform)
    assert not np.allclose(of_half.matches.score, last.matches.score)


@pytest.mark.parametrize(("form", "lines"), [("pairs", 60), ("loose", 60), ("aligned", 54)])
def test_text_without_calibration_says_why(x, form, lines, capsys):
    found = compared({code: rows[:lines] for code, rows in x.items()}, form, ("original", "lsar"))
    # The declaration, which is searched in place of text that is not aligned, calibrates nothing.
    embedded = replace(found.embedded, reference=found.text.sentences, reference_x=found.embedded.x)
    assert calibrations_of(replace(found, embedded=embedded), found.shown) == {}
    why = "has 36 held-out lines, and 5% false accepts need 38" if form == "aligned" else "is not aligned in all"
    assert capsys.readouterr().out.startswith(f"no calibration of the text: it {why}")
