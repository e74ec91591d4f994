"""A few cases of ``python -m tests.attack``, of each area but jobs."""

import logging

import pytest

from tests.attack.__main__ import AREAS, attack, main

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize("area", [area for area in AREAS if area != "jobs"])
def test_cases(area):
    assert {attack(area, number) for number in (2, 3)} <= {"held", "refused"}


def test_a_case_that_breaks_is_printed(monkeypatch, capsys):
    monkeypatch.setitem(AREAS, "labels", lambda folder, rng, note: 1 / 0)
    level = logging.getLogger("lsar_jax").level
    assert main(["--area", "labels", "--cases", "2"]) == 1
    logging.getLogger("lsar_jax").setLevel(level)
    assert "--area labels --seed 0 --first 1: : ZeroDivisionError division by zero" in capsys.readouterr().out
