"""Runs batches, and compiles several programs at a time.

A program takes a third of a second to compile, and a few sentences of mixed length need ten. XLA releases Python's lock
while it compiles, so the first batch of each shape runs in a thread, and other batches go on meanwhile. The programs
have no collectives, which several threads could launch in a different order on each device.
"""

import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lsar_jax.tokens.buckets import Slot

__all__ = ["Shape", "compile_shapes", "run_slots"]

R = TypeVar("R")
# Rows and width of a batch.
Shape = tuple[int, int]

# Batches that may wait for their program before all others wait too.
_WAITING = 16


def run_slots(
    call: Callable[[Slot], R], slots: Iterable[Slot], known: set[Shape]
) -> Generator[tuple[Slot, R], None, None]:
    """Yields each batch with its result; those whose program is still compiled come later.

    Args:
      call: runs a batch.
      slots: the batches.
      known: shapes whose programs are compiled, to which new ones are added.
    """
    compiling: dict[Shape, tuple[Slot, Future[R]]] = {}
    waiting: list[Slot] = []
    with _threads() as threads:
        try:
            for slot in slots:
                shape = slot.rows, slot.width
                if shape in known:
                    yield slot, call(slot)
                elif shape in compiling:
                    waiting.append(slot)
                else:
                    compiling[shape] = slot, threads.submit(call, slot)
                while compiling and (len(waiting) > _WAITING or next(iter(compiling.values()))[1].done()):
                    yield from _compiled(call, compiling, waiting, known)
            while compiling:
                yield from _compiled(call, compiling, waiting, known)
        finally:
            threads.shutdown(cancel_futures=True)


def compile_shapes(call: Callable[[Slot], Any], shapes: Iterable[Shape], known: set[Shape]) -> None:
    """Compiles the programs of the shapes that are not known, by running a batch without sentences."""

    def compile(shape: Shape) -> None:
        call(Slot([], *shape))[0].block_until_ready()
        known.add(shape)

    with _threads() as threads:
        list(threads.map(compile, [shape for shape in shapes if shape not in known]))


def _compiled(
    call: Callable[[Slot], R], compiling: dict[Shape, tuple[Slot, Future[R]]], waiting: list[Slot], known: set[Shape]
) -> Generator[tuple[Slot, R], None, None]:
    """Waits for the program that was begun first, and yields the batches of its shape."""
    shape = next(iter(compiling))
    slot, future = compiling.pop(shape)
    yield slot, future.result()
    known.add(shape)
    ready = [one for one in waiting if (one.rows, one.width) == shape]
    waiting[:] = [one for one in waiting if (one.rows, one.width) != shape]
    for one in ready:
        yield one, call(one)


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="compile")
