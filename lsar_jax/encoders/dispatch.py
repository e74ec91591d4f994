"""Runs batches in their order, and compiles several programs at a time.

A program takes a third of a second to compile, and a few sentences of mixed length need ten. XLA releases Python's lock
while it compiles, so the first batch of each shape runs in a thread. The programs have no collectives, which several
threads could launch in a different order on each device.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lsar_jax.tokens.buckets import Slot

__all__ = ["Shape", "compile_shapes", "run_slots"]

R = TypeVar("R")
# Rows and width of a batch.
Shape = tuple[int, int]

# Batches that may be read while the program of the first of them is compiled.
_WAITING = 16


def run_slots(
    call: Callable[[Slot], R], slots: Iterable[Slot], known: set[Shape]
) -> Generator[tuple[Slot, R], None, None]:
    """Yields each batch with its result, in the order of the batches, so that a sum does not depend on the time taken.

    Args:
      call: runs a batch.
      slots: the batches.
      known: shapes whose programs are compiled, to which new ones are added.
    """
    queue: deque[tuple[Slot, Future[R] | None]] = deque()
    begun: set[Shape] = set()

    def result(slot: Slot, future: Future[R] | None) -> tuple[Slot, R]:
        if future is None:
            return slot, call(slot)
        value = future.result()
        known.add((slot.rows, slot.width))
        return slot, value

    with _threads() as threads:
        try:
            for slot in slots:
                shape = slot.rows, slot.width
                new = shape not in known and shape not in begun
                begun.add(shape)
                queue.append((slot, threads.submit(call, slot) if new else None))
                # The program of a batch without a thread is compiled once those before it are done.
                while queue and (len(queue) > _WAITING or queue[0][1] is None or queue[0][1].done()):
                    yield result(*queue.popleft())
            while queue:
                yield result(*queue.popleft())
        finally:
            threads.shutdown(cancel_futures=True)


def compile_shapes(call: Callable[[Slot], Any], shapes: Iterable[Shape], known: set[Shape]) -> None:
    """Compiles the programs of the shapes that are not known, by running a batch without sentences."""

    def compile(shape: Shape) -> None:
        call(Slot([], *shape))[0].block_until_ready()
        known.add(shape)

    with _threads() as threads:
        list(threads.map(compile, [shape for shape in shapes if shape not in known]))


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="compile")
