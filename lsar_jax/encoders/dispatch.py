"""Runs batches in their order, and compiles several programs at a time.

A program takes a third of a second to compile on a CPU and several seconds on a GPU, and a few sentences of mixed
length need ten programs. XLA releases Python's lock while it compiles, so each is compiled in a thread. They run in the
caller's thread, and for the first time one after another: on an H100, the first runs of programs with cuDNN's attention
in several threads failed.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

import jax

from lsar_jax.tokens.buckets import Slot

__all__ = ["Shape", "compile_shapes", "run_slots"]

R = TypeVar("R")
# Rows and width of a batch.
Shape = tuple[int, int]

# Held while a program runs for the first time.
_FIRST_RUNS = Lock()
# Batches that may be read while the program of the first of them is compiled.
_WAITING = 16


def run_slots(
    call: Callable[[Slot], R], compile: Callable[[Shape], object], slots: Iterable[Slot], known: set[Shape]
) -> Generator[tuple[Slot, R], None, None]:
    """Yields each batch with its result, in the order of the batches, so that a sum does not depend on the time taken.

    Args:
      call: runs a batch.
      compile: compiles the program of a shape, in a thread.
      slots: the batches.
      known: shapes whose programs are compiled, to which new ones are added.
    """
    queue: deque[tuple[Slot, Future[object] | None]] = deque()
    begun: set[Shape] = set()

    def result(slot: Slot, future: Future[object] | None) -> tuple[Slot, R]:
        if future is None:
            return slot, call(slot)
        future.result()
        value = _first_run(call, slot)
        known.add((slot.rows, slot.width))
        return slot, value

    with _threads() as threads:
        try:
            for slot in slots:
                shape = slot.rows, slot.width
                new = shape not in known and shape not in begun
                begun.add(shape)
                queue.append((slot, threads.submit(compile, shape) if new else None))
                # The program of a batch without a thread is compiled once those before it are done.
                while queue and (len(queue) > _WAITING or queue[0][1] is None or queue[0][1].done()):
                    yield result(*queue.popleft())
            while queue:
                yield result(*queue.popleft())
        finally:
            threads.shutdown(cancel_futures=True)


def compile_shapes(
    call: Callable[[Slot], object], compile: Callable[[Shape], object], shapes: Iterable[Shape], known: set[Shape]
) -> None:
    """Compiles the programs of the shapes that are not known, and runs each once, with a batch without sentences."""
    new = [shape for shape in shapes if shape not in known]
    with _threads() as threads:
        for shape, _ in zip(new, threads.map(compile, new), strict=True):
            _first_run(call, Slot([], *shape))
            known.add(shape)


def _first_run(call: Callable[[Slot], R], slot: Slot) -> R:
    with _FIRST_RUNS:
        return jax.block_until_ready(call(slot))


def _threads() -> ThreadPoolExecutor:
    most = 8 if jax.default_backend() == "gpu" else 4
    return ThreadPoolExecutor(min(most, os.cpu_count() or 1), thread_name_prefix="compile")
