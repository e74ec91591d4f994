"""A thread that works ahead of its consumer."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["ahead"]

T = TypeVar("T")
R = TypeVar("R")

# Items that are processed before the consumer asks for them.
_AHEAD = 3


def ahead(call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yields ``call(item)`` for each item in order; a thread works a few items ahead."""
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
