"""Batching of token ids into a few fixed shapes.

XLA compiles one program per shape, so sentences are grouped by token length into a few widths, and each width is run
with two row counts: a full one for throughput and a small one for short inputs and remainders. The width depends only
on the sentence itself, never on its neighbours, and so does its vector.

Sentences wait in the bucket of their width until it is full, so that a stream of any length is sorted by length while
holding at most one batch per width.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from lsar_jax.checks import whole_number

__all__ = ["WIDTHS", "BatchSizes", "Sentence", "Slot", "TokenBatch", "batches", "token_batch", "training_width"]

# With steps of about a fifth, 10% of the positions of real paragraphs are padding; with steps of a third, 17%.
# Long documents are rare, so their steps are wider.
_SENTENCES = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512)
_DOCUMENTS = (768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
WIDTHS = (*_SENTENCES, *_DOCUMENTS)
# For training, whose programs take several times as long to compile.
_TRAINING_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

Ids = Int[np.ndarray, "_"]


def training_width(length: int, longest: int) -> int:
    """Returns the width of a training batch whose longest row has ``length`` tokens."""
    return min([width for width in _TRAINING_WIDTHS if width >= length] + [longest])


class TokenBatch(NamedTuple):
    """Token ids ``[batch, length]`` and the number of tokens in each row ``[batch]``, both int32."""

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
    """The number of rows with which each width is run: a multiple of ``devices``, from tokens per device."""

    full_tokens: int
    small_tokens: int
    devices: int = 1

    @classmethod
    def for_devices(cls, devices: Sequence[jax.Device], token_budget: int | None = None) -> "BatchSizes":
        """Returns the sizes that suit ``devices``; ``token_budget`` is the tokens of a full batch on one of them."""
        # On a CPU, 1,024 tokens per call stay in cache (measured: 8.9k tokens/s with 384-wide blocks on two cores,
        # 6.4k at 4,096), and a call with one row is efficient; an accelerator needs many tokens, and a small call
        # costs it little more than the launch.
        full, small = (1024, 0) if devices[0].platform == "cpu" else (32768, 4096)
        if token_budget is not None:
            full = whole_number("token_budget", token_budget, 1, 1 << 30, "tokens per batch on one device")
        return cls(full, min(small, full), len(devices))

    def full(self, width: int) -> int:
        """Returns the number of rows in a full batch."""
        return max(1, self.full_tokens // width) * self.devices

    def small(self, width: int) -> int:
        """Returns the number of rows in a small batch."""
        return min(max(1, self.small_tokens // width) * self.devices, self.full(width))

    def shapes(self, max_length: int) -> list[tuple[int, int]]:
        """Returns every (rows, width) of a batch of sentences with at most ``max_length`` tokens."""
        return sorted(
            {(rows, width) for width in _widths(max_length) for rows in (self.full(width), self.small(width))}
        )


class Sentence(NamedTuple):
    """A sentence, from its tokens to its embedding."""

    number: int  # position in the input
    ids: Ids
    rows: tuple[int, ...] = ()  # row of its language in each language table: of the model, and of the transform's steps


class Slot(NamedTuple):
    """The batch of one device call; rows without a sentence are filler."""

    sentences: list[Sentence]
    shape: tuple[int, int]  # rows, and token positions in a row

    @property
    def numbers(self) -> Int[np.ndarray, " n"]:
        """The positions of the sentences in the input."""
        return np.array([sentence.number for sentence in self.sentences], np.int64)

    def arrays(
        self, pad_id: int, tables: int
    ) -> tuple[Int[np.ndarray, "row length"], Int[np.ndarray, " row"], tuple[Int[np.ndarray, " row"], ...]]:
        """Returns the token ids and the length of each row, and its row in each language table; filler has zeros."""
        languages = np.zeros((tables, self.shape[0]), np.int32)
        if tables and self.sentences:
            languages[:, : len(self.sentences)] = np.array([sentence.rows for sentence in self.sentences]).T
        return *token_batch([sentence.ids for sentence in self.sentences], *self.shape, pad_id), tuple(languages)


def batches(chunks: Iterable[Sequence[Sentence]], max_length: int, sizes: BatchSizes) -> Iterator[Slot]:
    """Yields each batch of a stream of sentences when it is full, and at the end those that remain, widest first."""
    widths = _widths(max_length)
    waiting: list[list[Sentence]] = [[] for _ in widths]
    for chunk in chunks:
        buckets = np.searchsorted(widths, [len(sentence.ids) for sentence in chunk])
        for bucket, sentence in zip(buckets.tolist(), chunk, strict=True):
            waiting[bucket].append(sentence)
            if len(waiting[bucket]) == (rows := sizes.full(widths[bucket])):
                sentences, waiting[bucket] = waiting[bucket], []
                yield Slot(sentences, (rows, widths[bucket]))
    for width, sentences in zip(reversed(widths), reversed(waiting), strict=True):
        full, small = sizes.full(width), sizes.small(width)
        # Small batches are used if together they compute at most half as much as a full one.
        rows = small if -(-len(sentences) // small) * small <= full // 2 else full
        for start in range(0, len(sentences), rows):
            yield Slot(sentences[start : start + rows], (rows, width))


def _widths(max_length: int) -> list[int]:
    return [*(width for width in WIDTHS if width < max_length), max_length]
