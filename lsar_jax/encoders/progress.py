"""How far a long job is: one bar on a terminal or in a notebook, and in a log a line now and then.

    with Meter() as meter:
        for number, layer in enumerate(layers, 1):
            measure(layer)
            meter(f"measured layer {number} of {len(layers)}", number, len(layers))

A log then has lines such as ``measured layer 3 of 13 (23%), about 4 minutes left``. Of several processes, only process
0 writes.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from lsar_jax.checks import check_flags
from lsar_jax.processes import is_first

__all__ = ["Meter", "ShowProgress", "count_meter", "in_words"]

# Whether to show the progress of an encoder, or a function that takes the number of sentences of each batch.
ShowProgress: TypeAlias = bool | Callable[[int], object]

# Seconds until the first line of a log with the time left, for which the rate must be known, and between lines.
_FIRST = 5.0
_EVERY = 30.0
# The rate is that of the last so many lines, because the first steps of a job may compile programs.
_LINES = 4
# What is on the terminal, with a bar for each meter that is open: those of a job stand below each other.
_shown: Any = None


class Meter:
    """Shows how far a job is, with the time left, whenever it is called; a context, during which there is a bar.

    The rate is taken from the last two minutes, from the first call on: what is done by then, such as the part of a job
    that was resumed, does not count for it.

    Args:
      show: whether to show anything.
      clock: returns the time in seconds.
    """

    def __init__(self, show: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._show, self._clock = show and is_first(), clock
        self._bar: Any = None
        self._task: Any = None
        # When lines were due, and what was done then.
        self._marks: deque[tuple[float, int | float]] = deque(maxlen=_LINES)
        self._next = clock() + _FIRST

    def __enter__(self) -> "Meter":
        global _shown
        if self._show:
            from rich import get_console
            from rich.progress import BarColumn, Progress, TextColumn

            console = get_console()
            if console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal):
                if _shown is None:
                    _shown = Progress(BarColumn(), TextColumn("{task.description}", markup=False), transient=True)
                    _shown.start()
                self._bar, self._task = _shown, _shown.add_task("", total=None, visible=False)
        return self

    def __exit__(self, *_: object) -> None:
        global _shown
        if self._bar is not None:
            if len(self._bar.tasks) == 1:
                self._bar.stop()
                _shown = None
            else:
                self._bar.remove_task(self._task)

    def __call__(
        self, text: str, done: int | float, total: int | float | None = None, note: str = "", *, most: bool = False
    ) -> float | None:
        """Shows a text, the share that is done, and the time left; or the rate, if the total is not known.

        Args:
          text: what is done, such as ``encoded 1,200 sentences``.
          done: the amount of work that is done, in any unit.
          total: the amount of all work, in the same unit; None if it is not known.
          note: what to say after the time left.
          most: whether the job may end earlier.

        Returns:
          The seconds left, or None if that is not known.
        """
        now = self._clock()
        begun, due = bool(self._marks), now >= self._next
        before, done_before = self._marks[0] if begun else (now, done)
        seconds, new = now - before, done - done_before
        left = None
        if total is not None:
            left = seconds * max(0.0, total - done) / new if new > 0 else None
            text += f" ({int(100 * min(1, done / total)) if total else 100}%)"
            text += f", {in_words(left, most)} left" if left else ""
        elif seconds and new > 0:
            text += f", {new / seconds:,.0f} a second"
        text += note and f"; {note}"
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=done, total=total, visible=True)
        elif self._show and due:
            print(text, flush=True)
        if due or not begun:
            self._marks.append((now, done))
            self._next = now + (_EVERY if begun else _FIRST)
        return left


@contextmanager
def count_meter(
    show: ShowProgress, total: int | None, verb: str = "encoded", noun: str = "sentences"
) -> Iterator[Callable[[int], object]]:
    """Yields a function to call with the number of sentences that were just encoded, of ``total`` in all if known."""
    if callable(show):
        yield show
        return
    check_flags(show_progress=show)
    done, of_total = 0, "" if total is None else f" of {total:,}"
    with Meter(bool(show)) as meter:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            meter(f"{verb} {done:,}{of_total} {noun}", done, total)

        yield advance if show else lambda count: None


def in_words(seconds: float, most: bool = False) -> str:
    """A duration as a reader of a log would say it."""
    about = "at most" if most else "about"
    if seconds < 60:
        return "less than a minute"
    if (minutes := round(seconds / 60)) < 120:
        return f"{about} {minutes} minute{'s' * (minutes != 1)}"
    return f"{about} {seconds / 3600:.1f} hours" if seconds < 48 * 3600 else f"{about} {seconds / 86400:.1f} days"
