"""Sentences packed into rows of a few widths.

XLA compiles one program per shape, so sentences share rows: several short ones fill a row of 128 positions, and longer
ones go into wider rows, with short ones in what they leave. The narrow rows, of which there are many, are run with two
row counts, a full one for throughput and a small one for short inputs and remainders. So a stream of any mixture of
lengths needs at most six programs, and little is padding.

The sentences of a chunk of the stream are packed together, so that rows depend on the input alone, and a bounded number
of sentences waits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from lsar_jax.checks import whole_number
from lsar_jax.shapes import Ids

__all__ = ["BatchSizes", "PackedBatch", "Sentence", "batch", "batches", "pack", "segments"]

# Attention takes more of the time on a CPU, where 512 tokens in one row took 1.5 times as long as in four.
_WIDTHS = (128, 512, 2048, 8192, 32768, 131072, 524288, 2097152)
_CPU_WIDTHS = (128, 256, *_WIDTHS[1:])
# The widths of a row that holds all sentences of a call, such as a query, whose latency grows with its width.
_ALONE = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144)


def segments(width: int) -> int:
    """Returns the maximum number of sentences in a row; words of 4 tokens, special ones included, fill a narrow row."""
    return min(width // 4, 64)


def pack(lengths: Sequence[int], widths: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Packs sentences into rows: the longest first, each into the narrowest room that is left for it.

    Args:
      lengths: number of tokens of each sentence, none of which is longer than the widest row.
      widths: widths of rows, ascending; a sentence opens the narrowest row that holds it.

    Returns:
      The width of each row, and the indices of its sentences.
    """
    rows: list[tuple[int, list[int]]] = []
    # Rows by the positions that are left in them, and a number whose bits say for which there is a row.
    rooms: defaultdict[int, list[tuple[int, list[int]]]] = defaultdict(list)
    present = 0
    for index in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        length = lengths[index]
        if fits := present >> length:
            room = length + (fits & -fits).bit_length() - 1
            row = rooms[room].pop()
            if not rooms[room]:
                present ^= 1 << room
        else:
            room = next(width for width in widths if width >= length)
            row = room, []
            rows.append(row)
        width, members = row
        members.append(index)
        if room > length and len(members) < segments(width):
            rooms[room - length].append(row)
            present |= 1 << (room - length)
    return rows


@dataclass(frozen=True)
class BatchSizes:
    """The number of rows with which each width is run: a multiple of ``devices``, from tokens per device.

    Attributes:
      full_tokens: tokens of a full batch.
      small_tokens: tokens of a small batch.
      devices: number of devices.
      widths: widths of rows, ascending.
      narrow: the widest rows with two counts; wider ones have one, for a quarter of ``full_tokens``.
      long: a stream of fewer full batches than this is run in small ones, whose program it needs in any case.
    """

    full_tokens: int
    small_tokens: int
    devices: int = 1
    widths: tuple[int, ...] = _WIDTHS
    narrow: int = 512
    long: int = 1

    @classmethod
    def for_devices(cls, devices: Sequence[jax.Device], token_budget: int | None = None) -> "BatchSizes":
        """Returns the sizes that suit ``devices``; ``token_budget`` is the tokens of a full batch on one of them."""
        # On a CPU, 512 tokens per call stay in cache, and half of them takes up to a tenth more time a token; an
        # accelerator needs many tokens, and a small call costs it little more than the launch.
        cpu = devices[0].platform == "cpu"
        full, small = (512, 256) if cpu else (32768, 4096)
        if token_budget is not None:
            full = whole_number("token_budget", token_budget, 1, 1 << 30, "tokens per batch on one device")
        rest = (_CPU_WIDTHS, 128, 8) if cpu else (_WIDTHS, 512, 1)
        return cls(full, min(small, full), len(devices), *rest)

    def full(self, width: int) -> int:
        """Returns the number of rows in a full batch."""
        return self._rows(self.full_tokens if width <= self.narrow else self.full_tokens // 4, width)

    def small(self, width: int) -> int:
        """Returns the number of rows in a small batch."""
        return self._rows(self.small_tokens, width) if width <= self.narrow else self.full(width)

    def shapes(self, max_length: int) -> list[tuple[int, int]]:
        """Returns every (rows, width) of a batch of sentences with at most ``max_length`` tokens."""
        # Also short sentences may be packed into the second of the widths.
        widest = next(width for width in self.widths[1:] if width >= max_length)
        widths = [width for width in self.widths if width <= widest]
        alone = {(self.devices, width) for width in (*_ALONE, *widths) if width <= widest}
        return sorted(alone | {(rows(width), width) for width in widths for rows in (self.full, self.small)})

    def _rows(self, tokens: int, width: int) -> int:
        return max(1, tokens // width) * self.devices


class Sentence(NamedTuple):
    """A sentence, from its tokens to its embedding.

    Attributes:
      number: position in the input.
      ids: token ids.
      language_rows: row of its language in each language table: of the model, and of the steps of the transform.
    """

    number: int
    ids: Ids
    language_rows: tuple[int, ...] = ()


class PackedBatch(NamedTuple):
    """The sentences of one device call, and where they are.

    Attributes:
      sentences: the sentences, row by row.
      shape: number of rows, and of the token positions in each.
      lengths: number of tokens of each sentence in a row, ``[batch, segment]``.
      places: the place of each embedding among the segments of its device, sentences first, ``[vector]``.
      numbers: position in the input of the sentence of each embedding; -1 for none, ``[vector]``.
    """

    sentences: list[Sentence]
    shape: tuple[int, int]
    lengths: Int[np.ndarray, "batch segment"]
    places: Int[np.ndarray, " vector"]
    numbers: Int[np.ndarray, " vector"]

    def ids(self, pad_id: int) -> Int[np.ndarray, "batch length"]:
        """Returns the token ids."""
        ids = np.full(self.shape, pad_id, np.int32)
        there = np.arange(self.shape[1]) < self.lengths.sum(axis=1)[:, None]
        if self.sentences:
            ids[there] = np.concatenate([sentence.ids for sentence in self.sentences])
        return ids

    def languages(self, tables: int) -> Int[np.ndarray, "table vector"]:
        """Returns the row of each embedding's language in each of several language tables; 0 for none."""
        languages = np.zeros((tables, len(self.numbers)), np.int32)
        if tables and self.sentences:
            languages[:, self.numbers >= 0] = np.array([sentence.language_rows for sentence in self.sentences]).T
        return languages


def batch(rows: Sequence[Sequence[Sentence]], shape: tuple[int, int], devices: int = 1) -> PackedBatch:
    """Returns a batch of no more than ``shape[0]`` rows of sentences; the other rows are empty."""
    most = segments(shape[1])
    sentences = [sentence for row in rows for sentence in row]
    counts = np.array([*map(len, rows), *[0] * (shape[0] - len(rows))])
    there = np.arange(most) < counts[:, None]
    lengths = np.zeros((shape[0], most), np.int32)
    lengths[there] = [len(sentence.ids) for sentence in sentences]
    # Within each device, sentences come first.
    by_device = there.reshape(devices, -1)
    places = np.argsort(~by_device, axis=1, kind="stable").astype(np.int32)
    numbers = np.full(by_device.shape, -1, np.int64)
    numbers[np.take_along_axis(by_device, places, axis=1)] = [sentence.number for sentence in sentences]
    return PackedBatch(sentences, shape, lengths, places.reshape(-1), numbers.reshape(-1))


def batches(chunks: Iterable[Sequence[Sentence]], sizes: BatchSizes) -> Iterator[PackedBatch]:
    """Yields the batches of a stream, whose sentences are packed chunk by chunk, widest rows last."""
    waiting: defaultdict[int, list[list[Sentence]]] = defaultdict(list)
    begun: set[int] = set()
    for chunk in chunks:
        for width, members in _densest([len(sentence.ids) for sentence in chunk], sizes.widths):
            waiting[width].append([chunk[index] for index in members])
        for width, rows in sorted(waiting.items()):
            full = sizes.full(width)
            while len(rows) >= (full if width in begun else sizes.long * full):
                begun.add(width)
                yield batch(rows[:full], (full, width), sizes.devices)
                del rows[:full]
    short = not begun and sum(map(len, waiting.values())) < 4 * sizes.small(sizes.widths[0])
    for width, rows in sorted(waiting.items()):
        small = sizes.small(width)
        for start in range(0, len(rows), small):
            part, shape = rows[start : start + small], (small, width)
            # A last row is computed by itself in a call of few rows, where that saves time; an accelerator that runs
            # another batch of this width is spared the program.
            if short and len(part) == 1 and (len(rows) == 1 or small == 2 * sizes.devices):
                shape = sizes.devices, _alone(part[0], width) if len(rows) == len(waiting) == 1 else width
            yield batch(part, shape, sizes.devices)


def _densest(lengths: Sequence[int], widths: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Packs sentences, without the narrowest rows if that saves a quarter of the positions.

    It does if most of the sentences are a little longer than half of such a row.
    """
    rows, wider = pack(lengths, widths), pack(lengths, widths[1:])
    positions, fewer = (sum(width for width, _ in packed) for packed in (rows, wider))
    return wider if 4 * fewer <= 3 * positions else rows


def _alone(row: Sequence[Sentence], width: int) -> int:
    """Returns the width of a row that is the whole input, no more than ``width``."""
    tokens = sum(len(sentence.ids) for sentence in row)
    return min([alone for alone in _ALONE if alone >= tokens and segments(alone) >= len(row)] + [width])
