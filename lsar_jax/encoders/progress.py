"""A progress bar with the sentences encoded per second."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(show: bool, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of sentences that were just encoded; it draws a bar if ``show``."""
    if not show:
        yield lambda sentences: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    count = "{task.completed:.0f} sentences" if total is None else "{task.completed:.0f}/{task.total:.0f} sentences"
    columns = [TextColumn("encode"), BarColumn(), TextColumn(count), TextColumn("{task.fields[rate]}")]
    started = time.perf_counter()
    with Progress(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task("encode", total=total, rate="")
        done = 0

        def advance(sentences: int) -> None:
            nonlocal done
            done += sentences
            rate = done / (time.perf_counter() - started)
            bar.update(task, advance=sentences, rate=f"{rate:.0f} sentences/s")

        yield advance
