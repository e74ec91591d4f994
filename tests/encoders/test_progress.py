"""How far a job is, in the words of a log: when a line comes, what it counts, and the time left."""

import io
import re

import pytest
import rich

from lsar_jax.console.output import console
from lsar_jax.encoders import progress
from lsar_jax.encoders.progress import Meter


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_line_after_five_seconds_and_then_every_thirty(clock, capsys):
    with Meter(clock=clock) as meter:
        for second in range(101):
            clock.now = 100.0 + second
            meter(f"encoded {second * 10:,} of 2,000 sentences", second * 10, 2000)
    assert capsys.readouterr().out.splitlines() == [
        "encoded 50 of 2,000 sentences (2%), about 3 minutes left",
        "encoded 350 of 2,000 sentences (17%), about 3 minutes left",
        "encoded 650 of 2,000 sentences (32%), about 2 minutes left",
        "encoded 950 of 2,000 sentences (47%), about 2 minutes left",
    ]


def test_the_rate_is_that_of_the_last_lines(clock, capsys):
    meter = Meter(clock=clock)
    clock.now += 60
    meter("compiled", 1, 1000)
    for done in range(2, 10):  # a minute each
        clock.now += 60
        meter("step", done, 1000)
    for done in range(10, 500, 100):  # a hundred a minute
        clock.now += 60
        left = meter("step", done, 1000)
    assert left == pytest.approx(60 * (1000 - 410) / 100)
    assert capsys.readouterr().out.startswith("compiled (0%)\nstep (0%), about 16.6 hours left\n")


def test_what_was_there_counts_as_done_but_not_for_the_rate(clock, capsys):
    with Meter(clock=clock) as meter:
        assert meter("", 900, 1000) is None
        clock.now += 60
        assert meter("step 910 of at most 1,000", 910, 1000, "loss 0.5", most=True) == pytest.approx(9 * 60)
    assert capsys.readouterr().out == "step 910 of at most 1,000 (91%), at most 9 minutes left; loss 0.5\n"


def test_without_a_total_there_is_a_rate(clock, capsys):
    with Meter(clock=clock) as meter:
        for rows in (0, 1200):
            assert meter(f"encoded {rows:,} sentences", rows) is None
            clock.now += 10
    assert capsys.readouterr().out == "encoded 1,200 sentences, 120 a second\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(9, "less than a minute"), (61, "about 1 minute"), (7000, "about 117 minutes"), (9000, "about 2.5 hours"),
     (3e5, "about 3.5 days")],
)  # fmt: skip
def test_time_left_in_words(seconds, words, clock, capsys):
    meter = Meter(clock=clock)
    meter("", 0, 2)
    clock.now += seconds
    assert meter("half", 1, 2) == seconds
    assert capsys.readouterr().out == f"half (50%), {words} left\n"


def test_what_is_printed_and_the_bars_of_a_job_stand_below_each_other(clock, monkeypatch, capsys):
    screen = io.StringIO()
    monkeypatch.setattr(rich, "_console", rich.console.Console(file=screen, force_terminal=True, width=100))
    with Meter(clock=clock) as job:
        for part in range(2):
            job(f"part {part}", part, 2)
            with Meter(clock=clock) as meter:
                meter("encoded", 1, 2)
                progress._shown.refresh()
                console.print(f"printed {part}")
    shown = re.sub(r"[━╺╸]+|\x1b\[[\d;]*m| +(?=\n)", "", screen.getvalue())
    for part, percent in enumerate((0, 50)):
        bars = f" part {part} ({percent}%)\n encoded (50%)"
        erased = "\r\x1b[2K\x1b[1A\x1b[2K"  # both, from the line of the second
        assert f"{bars}{erased}printed {part}\n{bars}{erased}" in shown
    assert capsys.readouterr().out == ""


def test_only_process_0_speaks(clock, monkeypatch, capsys):
    for show, number in ((False, 0), (True, 1)):
        monkeypatch.setattr("jax.process_index", lambda number=number: number)
        with Meter(show, clock) as meter:
            for done in range(2):
                meter("", done, 2)
                clock.now += 40
    assert capsys.readouterr().out == ""
