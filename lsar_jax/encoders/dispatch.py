"""Runs batches in their order, and compiles several programs at a time.

A program takes a third of a second to compile on a CPU and several seconds on a GPU, and a few sentences of mixed
length need ten programs. XLA releases Python's lock while it compiles, so each is compiled in a thread. They run in the
caller's thread. On a GPU, none of them is compiled while another runs for the first time: cuDNN's attention then
records a CUDA graph, which failed on an H100 and an H200 while XLA timed kernels in other threads.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from threading import Condition
from typing import TypeVar

import jax

from lsar_jax.tokens.buckets import Slot

__all__ = ["Shape", "run_slots"]

R = TypeVar("R")
# Rows and width of a batch.
Shape = tuple[int, int]

# Batches that may be read while the program of the first of them is compiled.
_WAITING = 16


class _Turns:
    """Either several threads compile, or one runs a program for the first time."""

    def __init__(self) -> None:
        self._idle = Condition()
        self._compiling = 0

    @contextmanager
    def compiling(self) -> Iterator[None]:
        with self._idle:
            self._compiling += 1
        try:
            yield
        finally:
            with self._idle:
                self._compiling -= 1
                self._idle.notify_all()

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._idle:
            self._idle.wait_for(lambda: not self._compiling)
            yield


_TURNS = _Turns()


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
    gpu = _on_gpu()

    def compiled(shape: Shape) -> object:
        with _TURNS.compiling() if gpu else nullcontext():
            return compile(shape)

    def result(slot: Slot, future: Future[object] | None) -> tuple[Slot, R]:
        if future is None:
            return slot, call(slot)
        future.result()
        with _TURNS.running() if gpu else nullcontext():
            value = jax.block_until_ready(call(slot))
        known.add(slot.shape)
        return slot, value

    workers = min(8 if gpu else 4, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, thread_name_prefix="compile") as threads:
        try:
            for slot in slots:
                new = slot.shape not in known | begun
                begun.add(slot.shape)
                queue.append((slot, threads.submit(compiled, slot.shape) if new else None))
                # The program of a batch without a thread is compiled once those before it are done.
                while queue and (len(queue) > _WAITING or queue[0][1] is None or queue[0][1].done()):
                    yield result(*queue.popleft())
            while queue:
                yield result(*queue.popleft())
        finally:
            threads.shutdown(cancel_futures=True)


def _on_gpu() -> bool:
    return jax.default_backend() == "gpu"
