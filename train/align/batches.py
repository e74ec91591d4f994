"""Batches of sentence pairs as chunks of rows of similar length, in a few shapes.

Both sides of a batch are rows of one table. A chunk is the unit of computation: with one chunk a batch all rows are as
wide as the longest; with several, short rows are not padded to the length of the longest, and memory can be bounded by
one chunk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.tokens.buckets import token_batch, training_width
from train.align.examples import Examples

__all__ = ["Chunk", "ChunkSizes", "PairBatch", "batch_of", "order_of"]

# The numbers of embeddings and of links that the loss takes are multiples of these.
_EMBEDDINGS, _LINKS = 1024, 256


class Chunk(NamedTuple):
    """Rows of similar length, of both sides; every row is padded to the same width, and so are rows without tokens.

    Attributes:
      ids: token ids.
      lengths: number of tokens in each row; 0 for filler rows.
      english: 1 for English rows, and 0 for others.
      picks: for objectives on words, the positions whose hidden states are wanted of the rows of each device, counted
        from the first of these; else empty.
    """

    ids: Int[np.ndarray, "batch length"]
    lengths: Int[np.ndarray, " batch"]
    english: Int[np.ndarray, " batch"]
    picks: Int[np.ndarray, "device pick"]

    def picked(self, hidden: Float[Array, "batch length dim"]) -> Float[Array, "pick dim"]:
        """Returns the states that are wanted, those of each device after those of the device before.

        XLA would send all positions to all devices to look for rows of the flattened chunk.
        """
        dim = hidden.shape[-1]
        own = hidden.reshape(len(self.picks), -1, dim)
        return jax.vmap(lambda states, picks: states[picks])(own, jnp.asarray(self.picks)).reshape(-1, dim)


class PairBatch(NamedTuple):
    """The chunks of a batch, and which of the embeddings that they give belong together.

    Attributes:
      chunks: the chunks, whose embeddings are joined in this order (``train.align.exchange.joined``).
      filler: zeros, one for each zero row to append to the embeddings of a device, which keeps the number of shapes
        small.
      source: index of the English embedding of each link, or sentence pair, in the joined embeddings.
      target: index of the other embedding.
      valid: False for filler links.
      tokens: number of tokens in all rows.
      english_tokens: of these, tokens of English rows.
    """

    chunks: tuple[Chunk, ...]
    filler: Float[np.ndarray, " filler"]
    source: Int[np.ndarray, " link"]
    target: Int[np.ndarray, " link"]
    valid: Bool[np.ndarray, " link"]
    tokens: int
    english_tokens: int


@dataclass(frozen=True)
class ChunkSizes:
    """The shapes of chunks.

    Attributes:
      tokens: token positions of a chunk; 0 for one chunk a batch.
      max_length: most tokens of a row.
      devices: number of devices that the rows of a chunk are split over.
    """

    tokens: int
    max_length: int
    devices: int = 1

    def width(self, length: int) -> int:
        """Returns the width of a chunk whose longest row has ``length`` tokens."""
        return training_width(length, self.max_length)

    def rows(self, width: int, left: int) -> int:
        """Returns the number of rows of a chunk, including filler, when ``left`` rows are waiting."""
        several = self.devices
        if not self.tokens:
            return -(-left // several) * several
        full = max(1, self.tokens // (width * several)) * several
        # A last chunk is a quarter, half or three quarters of a full one, if that is enough.
        step = max(1, full // (4 * several)) * several
        return min(full, -(-left // step) * step)


def order_of(seed: int, pairs: int, size: int, first: int, steps: int) -> Int[np.ndarray, "step row"]:
    """Returns the pairs of each batch from number ``first`` on.

    The pairs are shuffled, and shuffled anew when all have been taken; a batch may hold pairs of two passes.
    """
    wanted = range(first * size, (first + steps) * size)
    numbers = range(wanted.start // pairs, (wanted.stop - 1) // pairs + 1)
    passes = np.concatenate([np.random.default_rng((seed, number)).permutation(pairs) for number in numbers])
    start = wanted.start - numbers.start * pairs
    return passes[start : start + len(wanted)].astype(np.int32).reshape(steps, size)


def batch_of(examples: Examples, rows: Sequence[int], sizes: ChunkSizes, pad_id: int) -> PairBatch:
    """Returns the chunks of some pairs.

    Args:
      examples: all pairs.
      rows: the pairs of the batch.
      sizes: shapes of the chunks.
      pad_id: id used for padding.
    """
    ids = [examples.source[row] for row in rows] + [examples.target[row] for row in rows]
    lengths = np.array([len(one) for one in ids])
    # Where each row's embeddings are: on which device, and after how many of the embeddings there.
    order = np.argsort(-lengths, kind="stable")
    wanted = _wanted(examples, rows)
    where: dict[int, tuple[int, Int[np.ndarray, "_"]]] = {}
    chunks: list[Chunk] = []
    offset = 0
    for members, count, width in _groups(order, lengths, sizes):
        own = token_batch([ids[row] for row in members], count, width, pad_id)
        share = count // sizes.devices
        if wanted is None:
            picks = np.zeros((sizes.devices, 0), np.int32)
            places = [np.array([number % share]) for number in range(len(members))]
        else:
            picks, places = _picks([wanted[row] for row in members], width, share, sizes.devices)
        for number, (row, place) in enumerate(zip(members.tolist(), places, strict=True)):
            where[row] = number // share, offset + place
        offset += share if wanted is None else picks.shape[1]
        english = np.zeros(count, np.int32)
        english[: len(members)] = members < len(rows)
        chunks.append(Chunk(own.ids, own.lengths, english, picks))
    filler = np.zeros(-offset % -(-_EMBEDDINGS // sizes.devices), np.float32)
    pairs, on_each = len(rows), offset + len(filler)
    every = [device * on_each + place for _, (device, place) in sorted(where.items())]
    source, target = (np.concatenate(side).astype(np.int32) for side in (every[:pairs], every[pairs:]))
    more = (-len(source) % _LINKS) if wanted is not None else 0
    valid = np.arange(len(source) + more) < len(source)
    source, target = (np.concatenate([side, np.zeros(more, np.int32)]) for side in (source, target))
    counts = (int(lengths.sum()), int(lengths[:pairs].sum()))
    return PairBatch(tuple(chunks), filler, source, target, valid, *counts)


def _wanted(examples: Examples, rows: Sequence[int]) -> list[Int[np.ndarray, "_"]] | None:
    """Returns the positions of each row's linked words, English rows first; None for objectives on sentences."""
    if examples.links is None:
        return None
    return [examples.links[row][:, side] for side in (0, 1) for row in rows]


def _picks(
    wanted: Sequence[Int[np.ndarray, "_"]], width: int, rows: int, devices: int
) -> tuple[Int[np.ndarray, "device pick"], list[Int[np.ndarray, "_"]]]:
    """Returns the picks of a chunk, and where those of each row are among the picks of its device.

    Args:
      wanted: the positions that are wanted of each row.
      width: width of the chunk.
      rows: number of rows of a device, including filler.
      devices: number of devices.
    """
    every: list[list[int]] = [[] for _ in range(devices)]
    places = []
    for number, positions in enumerate(wanted):
        own = every[number // rows]
        places.append(len(own) + np.arange(len(positions)))
        own += (number % rows * width + positions).tolist()
    # Words have about two tokens: half the positions are enough for nearly all chunks.
    half = -(-rows * width // 2)
    room = half if max(map(len, every)) <= half else rows * width
    picks = np.zeros((devices, room), np.int32)
    for row, own in zip(picks, every, strict=True):
        row[: len(own)] = own
    return picks, places


def _groups(
    order: Int[np.ndarray, " row"], lengths: Int[np.ndarray, " row"], sizes: ChunkSizes
) -> Iterator[tuple[Int[np.ndarray, "_"], int, int]]:
    """Yields the rows of each chunk, the longest first, its number of rows and its width."""
    start = 0
    while start < len(order):
        width = sizes.width(int(lengths[order[start]]))
        count = sizes.rows(width, len(order) - start)
        yield order[start : start + count], count, width
        start += count
