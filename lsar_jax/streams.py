"""Work that runs beside other work: a thread ahead of its consumer, a bar that shows how far."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["ahead", "progress"]

T = TypeVar("T")
R = TypeVar("R")

# Items that are worked on before the consumer asks for them.
_AHEAD = 3


def ahead(call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yields ``call(item)`` of each item in order; a thread works some items ahead."""
    with ThreadPoolExecutor(1, thread_name_prefix="tokenize") as thread:
        waiting: deque[Any] = deque()
        try:
            for item in items:
                waiting.append(thread.submit(call, item))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for left in waiting:
                left.cancel()


@contextmanager
def progress(show: bool, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yields what is to be called with the number of sentences that were encoded."""
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
