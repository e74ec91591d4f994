"""Batches of sentence pairs as chunks of rows of similar length, in a few shapes.

Both sides of a batch are rows of one table. With one chunk a batch all rows are as wide as the longest; with several,
short rows are not padded to the length of the longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.tokens.buckets import token_batch, training_width
from train.align.examples import Examples

__all__ = ["Chunk", "ChunkSizes", "PairBatch", "batch_of", "order_of"]

# The numbers of embeddings and of links that the loss takes are multiples of these; on each of several devices, the
# number of embeddings is one of the first divided by the devices and rounded up.
_EMBEDDINGS, _LINKS = 1024, 256


class Chunk(NamedTuple):
    """Rows of both sides, padded to one width.

    Attributes:
      ids: token ids.
      lengths: number of tokens in each row; 0 for filler rows.
      english: 1 for English rows, and 0 for others.
      picks: for objectives on words, the linked positions among the rows of each device, counted from its first; else
        empty.
    """

    ids: Int[np.ndarray, "batch length"]
    lengths: Int[np.ndarray, " batch"]
    english: Int[np.ndarray, " batch"]
    picks: Int[np.ndarray, "device pick"]

    def picked(self, hidden: Float[Array, "batch length dim"]) -> Float[Array, "embedding dim"]:
        """Returns the states of the picks, device after device."""
        # Device by device: XLA would send all positions to all devices to look for rows of the flattened chunk.
        dim = hidden.shape[-1]
        by_device = hidden.reshape(len(self.picks), -1, dim)
        return jax.vmap(lambda states, picks: states[picks])(by_device, jnp.asarray(self.picks)).reshape(-1, dim)


class PairBatch(NamedTuple):
    """The chunks of a batch, and which of the embeddings that they give belong together.

    Attributes:
      chunks: the chunks, whose embeddings are joined in this order (``train.align.exchange.joined``).
      filler: a zero for each row to append to the embeddings of a device, which keeps the number of shapes small.
      source: index of the English embedding of each link, or sentence pair, in the joined embeddings.
      target: index of the other embedding.
      valid: False for filler links.
      tokens: number of tokens in all rows.
      english_tokens: number of tokens in English rows.
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
        devices = self.devices
        if not self.tokens:
            return -(-left // devices) * devices
        full = max(1, self.tokens // (width * devices)) * devices
        # A last chunk is a quarter, half or three quarters of a full one, if that is enough.
        step = max(1, full // (4 * devices)) * devices
        return min(full, -(-left // step) * step)


def order_of(seed: int, pairs: int, size: int, first: int, steps: int) -> Int[np.ndarray, "step row"]:
    """Returns the pairs of each batch from number ``first`` on.

    The pairs are shuffled, and shuffled anew when all have been taken; a batch may hold pairs of two passes.
    """
    places = range(first * size, (first + steps) * size)
    numbers = range(places.start // pairs, (places.stop - 1) // pairs + 1)
    passes = np.concatenate([np.random.default_rng((seed, number)).permutation(pairs) for number in numbers])
    start = places.start - numbers.start * pairs
    return passes[start : start + len(places)].astype(np.int32).reshape(steps, size)


def batch_of(examples: Examples, rows: Sequence[int], sizes: ChunkSizes, pad_id: int) -> PairBatch:
    """Returns the chunks of some pairs."""
    ids = [side[row] for side in (examples.source, examples.target) for row in rows]
    lengths = np.array(list(map(len, ids)))
    # The positions of each row's linked words.
    linked = None if examples.links is None else [examples.links[row][:, side] for side in (0, 1) for row in rows]
    order = np.argsort(-lengths, kind="stable")
    # The row of each embedding of a link or a pair, its device, and its place there.
    row_parts: list[Int[np.ndarray, "_"]] = []
    device_parts: list[Int[np.ndarray, "_"]] = []
    place_parts: list[Int[np.ndarray, "_"]] = []
    chunks: list[Chunk] = []
    on_each = start = 0
    while start < len(order):
        # The longest rows that are left.
        width = sizes.width(int(lengths[order[start]]))
        count = sizes.rows(width, len(order) - start)
        members = order[start : start + count]
        start += count
        tokens = token_batch([ids[row] for row in members], count, width, pad_id)
        rows_each = count // sizes.devices
        if linked is None:
            picks, room = np.zeros((sizes.devices, 0), np.int32), rows_each
            numbers = np.arange(len(members))
            device, place = np.divmod(numbers, rows_each)
        else:
            picks, numbers, device, place = _picks([linked[row] for row in members], width, rows_each, sizes.devices)
            room = picks.shape[1]
        row_parts.append(members[numbers])
        device_parts.append(device)
        place_parts.append(on_each + place)
        on_each += room
        english = np.zeros(count, np.int32)
        english[: len(members)] = members < len(rows)
        chunks.append(Chunk(tokens.ids, tokens.lengths, english, picks))
    filler = np.zeros(-on_each % -(-_EMBEDDINGS // sizes.devices), np.float32)
    on_each += len(filler)
    row_of = np.concatenate(row_parts)
    index = np.concatenate(device_parts) * on_each + np.concatenate(place_parts)
    index = index[np.argsort(row_of, kind="stable")].astype(np.int32)
    source, target = np.split(index, [np.count_nonzero(row_of < len(rows))])
    padding = (0, 0 if linked is None else -len(source) % _LINKS)
    valid = np.pad(np.ones(len(source), bool), padding)
    counts = int(lengths.sum()), int(lengths[: len(rows)].sum())
    return PairBatch(tuple(chunks), filler, np.pad(source, padding), np.pad(target, padding), valid, *counts)


def _picks(
    linked: Sequence[Int[np.ndarray, "_"]], width: int, rows: int, devices: int
) -> tuple[Int[np.ndarray, "device pick"], Int[np.ndarray, "_"], Int[np.ndarray, "_"], Int[np.ndarray, "_"]]:
    """Returns the picks of a chunk, and of each: its row, its device, and its number there."""
    numbers = np.repeat(np.arange(len(linked)), [len(positions) for positions in linked])
    device, row = np.divmod(numbers, rows)
    place = np.arange(len(numbers)) - np.searchsorted(device, np.arange(devices))[device]
    # Words have about two tokens: half the positions are enough for nearly all chunks.
    half = -(-rows * width // 2)
    room = half if len(numbers) == 0 or place.max() < half else rows * width
    picks = np.zeros((devices, room), np.int32)
    picks[device, place] = row * width + np.concatenate(linked)
    return picks, numbers, device, place
