"""A sample of the embeddings that a transform was fitted on, from which its bank is made.

Local scaling (``lsar_jax.retrieval.local_scale``) compares each vector with a bank of others. A transform keeps raw
rows of the text of its fit, evenly spaced in each language, so that steps or their strength may change afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from lsar_jax.languages import canonical_keys
from lsar_jax.moments.moments import Moments

__all__ = ["SAMPLE", "StreamSample", "evenly_spaced", "sample_rows"]

T = TypeVar("T")

# Rows of all languages together: 3 MB of width 384.
SAMPLE = 2048


def evenly_spaced(rows: int, most: int) -> np.ndarray:
    """Returns the numbers of at most ``most`` of so many rows, evenly spaced, ``[m]``."""
    count = min(rows, most)
    return np.arange(count) * rows // max(count, 1)


def sample_rows(x: Mapping[str, Any]) -> dict[str, Float[np.ndarray, "row dim"]]:
    """Returns evenly spaced rows of the embeddings of each language, in float32; moments have none."""
    given = {code: rows for code, rows in canonical_keys(x).items() if not isinstance(rows, Moments)}
    each = max(1, SAMPLE // max(1, len(given)))
    return {code: np.asarray(rows[evenly_spaced(len(rows), each)], np.float32) for code, rows in given.items()}


class StreamSample(Generic[T]):
    """Evenly spaced items of a stream of unknown length: at most ``most``, at least half of it if there are more."""

    def __init__(self, most: int) -> None:
        self.items: list[T] = []
        self._most, self._step, self._count = most, 1, 0

    def watch(self, stream: Iterable[T]) -> Iterator[T]:
        """Yields the items of the stream, every ``step``-th of which is in the sample."""
        for item in stream:
            if self._count % self._step == 0:
                if len(self.items) == self._most:
                    self.items, self._step = self.items[::2], 2 * self._step
                if self._count % self._step == 0:
                    self.items.append(item)
            self._count += 1
            yield item
