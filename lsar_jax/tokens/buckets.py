"""Token ids to batches of a few fixed shapes.

XLA compiles one program a shape, so sentences are gathered by token length into a few widths,
and each width is run with two row counts: a full one for throughput and a small one for
short calls and for what is left over. The width depends on the sentence alone, never on its
neighbours, and so does its vector.

Sentences wait in the bucket of their width until it is full, so that a stream of any length is
sorted by length while no more than one batch a width is held.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

__all__ = ["WIDTHS", "BatchSizes", "Buckets", "Sentence", "Slot", "TokenBatch", "token_batch"]

# Steps of about a fifth: 10% of the positions of real paragraphs are padding; steps of a third make it 17%.
# Long documents are few, and their steps wider.
_SENTENCES = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512)
_DOCUMENTS = (768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
WIDTHS = (*_SENTENCES, *_DOCUMENTS)

Ids = Int[np.ndarray, "_"]


class TokenBatch(NamedTuple):
    """Token ids ``[batch, length]`` and the tokens in each row ``[batch]``, int32."""

    ids: Int[np.ndarray, "batch length"]
    lengths: Int[np.ndarray, " batch"]


def token_batch(ids: Sequence[Ids], rows: int, width: int, pad_id: int) -> TokenBatch:
    """Pads ``ids`` to ``[rows, width]``; rows without a sentence have length 0."""
    padded = np.full((rows, width), pad_id, np.int32)
    lengths = np.zeros(rows, np.int32)
    for row, sentence in enumerate(ids):
        padded[row, : len(sentence)] = sentence
        lengths[row] = len(sentence)
    return TokenBatch(padded, lengths)


@dataclass(frozen=True)
class BatchSizes:
    """How many rows a width is run with.

    Attributes:
      full_tokens: tokens a device in a full batch. Too few starve an accelerator; on a CPU
        more than fits its cache is slower.
      small_tokens: tokens a device in a small batch; a row at the least.
      devices: rows are a multiple of this.
    """

    full_tokens: int
    small_tokens: int
    devices: int = 1

    def full(self, width: int) -> int:
        """Returns the rows of a full batch."""
        return max(1, self.full_tokens // width) * self.devices

    def small(self, width: int) -> int:
        """Returns the rows of a small batch."""
        return min(max(1, self.small_tokens // width) * self.devices, self.full(width))

    def shapes(self, max_length: int) -> list[tuple[int, int]]:
        """Returns every (rows, width) that ``Buckets`` may make."""
        return sorted(
            {(rows, width) for width in _widths(max_length) for rows in (self.full(width), self.small(width))}
        )


class Sentence(NamedTuple):
    """A tokenized sentence on its way to the device.

    Attributes:
      number: its place in the input.
      ids: its token ids.
      languages: its row in each table that depends on the language, of the model and of the transform's steps.
    """

    number: int
    ids: Ids
    languages: tuple[int, ...] = ()


class Slot(NamedTuple):
    """One device call.

    Attributes:
      sentences: at most ``rows`` of them.
      rows: number of rows of the call, filler rows included.
      width: token positions of a row.
    """

    sentences: list[Sentence]
    rows: int
    width: int

    @property
    def numbers(self) -> Int[np.ndarray, " n"]:
        """The sentences' places in the input."""
        return np.array([sentence.number for sentence in self.sentences], np.int64)

    def tokens(self, pad_id: int) -> TokenBatch:
        """Returns the token ids of every row; filler rows have length 0."""
        return token_batch([sentence.ids for sentence in self.sentences], self.rows, self.width, pad_id)

    def languages(self, tables: int) -> tuple[Int[np.ndarray, " row"], ...]:
        """Returns, for each of ``tables`` language tables, the row that every sentence takes; 0 for filler rows."""
        result = np.zeros((tables, self.rows), np.int32)
        if tables and self.sentences:
            result[:, : len(self.sentences)] = np.array([sentence.languages for sentence in self.sentences]).T
        return tuple(result)


class Buckets:
    """Holds sentences until there is a batch of their width; at most ``2 x widths`` shapes come out.

    Args:
      max_length: the widest batch.
      sizes: rows per width.
    """

    def __init__(self, max_length: int, sizes: BatchSizes) -> None:
        self._widths = np.array(_widths(max_length))
        self._sizes = sizes
        self._waiting: list[list[Sentence]] = [[] for _ in self._widths]

    def add(self, sentences: Sequence[Sentence]) -> Iterator[Slot]:
        """Takes sentences and yields the batches that are full.

        Raises:
          ValueError: a sentence is longer than ``max_length``.
        """
        buckets = np.searchsorted(self._widths, [len(sentence.ids) for sentence in sentences])
        for bucket, sentence in zip(buckets.tolist(), sentences, strict=True):
            if bucket == len(self._widths):
                raise ValueError(f"a sentence has {len(sentence.ids)} tokens, batches take {self._widths[-1]}")
            waiting = self._waiting[bucket]
            waiting.append(sentence)
            width = int(self._widths[bucket])
            if len(waiting) == (rows := self._sizes.full(width)):
                self._waiting[bucket] = []
                yield Slot(waiting, rows, width)

    def flush(self) -> Iterator[Slot]:
        """Yields the sentences that are left, widest first."""
        for bucket in reversed(range(len(self._widths))):
            width = int(self._widths[bucket])
            full, small = self._sizes.full(width), self._sizes.small(width)
            waiting, self._waiting[bucket] = self._waiting[bucket], []
            # What is left goes through small calls while they compute at most half of a full one.
            rows = small if -(-len(waiting) // small) * small <= full // 2 else full
            for start in range(0, len(waiting), rows):
                yield Slot(waiting[start : start + rows], rows, width)


def _widths(max_length: int) -> list[int]:
    return [*(width for width in WIDTHS if width < max_length), max_length]
