"""Batches of sentence pairs as chunks of packed rows, in a few shapes.

The sentences of both sides share rows, all of one width, so that few positions are padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.tokens.packing import Sentence, batch, pack
from train.align.examples import Examples

__all__ = ["Chunk", "ChunkSizes", "PairBatch", "batch_of", "order_of"]

# The numbers of embeddings and of links that the loss takes are multiples of these; on each of several devices, the
# number of embeddings is one of the first divided by the devices and rounded up.
_EMBEDDINGS, _LINKS = 1024, 256


class Chunk(NamedTuple):
    """Rows that hold sentences of both sides, one behind the other.

    Attributes:
      ids: token ids.
      lengths: number of tokens of each sentence in a row; 0 for an empty place.
      picks: for objectives on words, the linked positions among the rows of each device, counted from its first; else
        empty.
    """

    ids: Int[np.ndarray, "batch length"]
    lengths: Int[np.ndarray, "batch segment"]
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
      tokens: number of tokens of all sentences.
      language: for pairs of sentences, the language of each embedding, 0 for English and else from 1 in the order of
        the codes, and -1 for filler; else empty.
    """

    chunks: tuple[Chunk, ...]
    filler: Float[np.ndarray, " filler"]
    source: Int[np.ndarray, " link"]
    target: Int[np.ndarray, " link"]
    valid: Bool[np.ndarray, " link"]
    tokens: int
    language: Int[np.ndarray, " embedding"]


@dataclass(frozen=True)
class ChunkSizes:
    """The shapes of chunks.

    Attributes:
      tokens: token positions of a chunk; 0 for one chunk a batch.
      max_length: most tokens of a sentence.
      devices: number of devices that the rows of a chunk are split over.
    """

    tokens: int
    max_length: int
    devices: int = 1

    @property
    def width(self) -> int:
        """The token positions of a row, as few as the longest sentence needs: attention takes longer in wider rows."""
        return -(-self.max_length // 8) * 8

    def rows(self, left: int) -> int:
        """Returns the number of rows of a chunk, including filler, when ``left`` rows are waiting."""
        on_each = -(-left // self.devices)
        if not self.tokens:
            # Batches of about as many tokens share one of a few programs: rows are rounded up by less than a quarter.
            step = 1 << max(0, on_each.bit_length() - 3)
            return -(-on_each // step) * step * self.devices
        full = max(1, self.tokens // (self.width * self.devices))
        # A last chunk is a quarter, half or three quarters of a full one, if that is enough.
        step = max(1, full // 4)
        return min(full, -(-on_each // step) * step) * self.devices


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
    # The positions of each sentence's linked words.
    linked = None if examples.links is None else [examples.links[row][:, side] for side in (0, 1) for row in rows]
    packed = [members for _, members in pack(list(map(len, ids)), (sizes.width,))]
    # The sentence of each embedding of a link or a pair, its device, and its place there.
    parts: list[Int[np.ndarray, "3 _"]] = []
    chunks: list[Chunk] = []
    on_each = start = 0
    while start < len(packed):
        count = sizes.rows(len(packed) - start)
        members = [[Sentence(number, ids[number]) for number in row] for row in packed[start : start + count]]
        start += count
        chunk = batch(members, (count, sizes.width), sizes.devices)
        lengths, there = chunk.lengths, chunk.numbers >= 0
        room = lengths.size // sizes.devices
        numbers, segments = chunk.numbers[there], (np.arange(lengths.size) // room * room + chunk.places)[there]
        if linked is None:
            picks, (device, place) = np.zeros((sizes.devices, 0), np.int32), np.divmod(segments, room)
        else:
            firsts = (np.arange(count)[:, None] * sizes.width + np.cumsum(lengths, axis=1) - lengths).reshape(-1)
            words = [linked[number] + first for number, first in zip(numbers, firsts[segments], strict=True)]
            picks, device, place = _picks(np.concatenate(words), count * sizes.width // sizes.devices, sizes.devices)
            numbers, room = np.repeat(numbers, list(map(len, words))), picks.shape[1]
        parts.append(np.stack([numbers, device, on_each + place]))
        on_each += room
        chunks.append(Chunk(chunk.ids(pad_id), lengths, picks))
    filler = np.zeros(-on_each % -(-_EMBEDDINGS // sizes.devices), np.float32)
    sentence, device, place = np.concatenate(parts, axis=1)
    index = (device * (on_each + len(filler)) + place)[np.argsort(sentence, kind="stable")].astype(np.int32)
    source, target = np.split(index, [np.count_nonzero(sentence < len(rows))])
    padding = (0, 0 if linked is None else -len(source) % _LINKS)
    valid = np.pad(np.ones(len(source), bool), padding)
    language = np.full(0 if linked else sizes.devices * (on_each + len(filler)), -1, np.int32)
    if linked is None:
        language[target] = 1 + examples.language[list(rows)]
        language[source] = 0 if examples.english else language[target]
    source, target, tokens = np.pad(source, padding), np.pad(target, padding), sum(map(len, ids))
    return PairBatch(tuple(chunks), filler, source, target, valid, tokens, language)


def _picks(
    positions: Int[np.ndarray, "_"], size: int, devices: int
) -> tuple[Int[np.ndarray, "device pick"], Int[np.ndarray, "_"], Int[np.ndarray, "_"]]:
    """Returns the picks of a chunk by device, and each pick's device and place; a device has ``size`` positions."""
    device, pick = np.divmod(positions, size)
    place = np.arange(len(positions)) - np.searchsorted(device, np.arange(devices))[device]
    # Words have about two tokens: half the positions are enough for nearly all chunks.
    room = -(-size // 2)
    while room <= place.max(initial=0):
        room *= 2
    picks = np.zeros((devices, room), np.int32)
    picks[device, place] = pick
    return picks, device, place
