"""Tokenized examples of a task, and their batches: hidden states are taken at some positions, the slots of an example.

A slot is the token that stands for a word, or for the sentence and the root of its tree: the first, or the last in a
causal encoder, as the others do not see all of it. Where no special token comes first, the last one stands for a
sentence as well.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from lsar_jax.shapes import AnyArray, Ids
from lsar_jax.tokens.tokenizer import Specials
from lsar_jax.tokens.word_tokens import WordTokens

__all__ = ["TaskBatch", "TaskExample", "of_sentence", "task_batch", "training_width", "windows"]

_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


class TaskExample(NamedTuple):
    """Tokens, and the labels to predict at some positions.

    Attributes:
      ids: token ids.
      second: position where the second sentence of a pair begins; the number of tokens if there is none.
      positions: position of each slot.
      labels: label of each slot; -1 if it has no known label.
      heads: slot of the head of each slot; zeros for other tasks than parsing.
      counted: whether a slot counts in the loss.
      sentence: number of the sentence.
      words: word of the sentence that each slot stands for; -1 for none.
    """

    ids: Ids
    second: int
    positions: Ids
    labels: Ids
    heads: Ids
    counted: Bool[np.ndarray, "_"]
    sentence: int
    words: Ids


class TaskBatch(NamedTuple):
    """Examples as arrays, padded.

    Attributes:
      ids, lengths: token ids, and the number of tokens of the only segment of each row.
      types: 1 from the second sentence of a pair on, else 0.
      positions, labels, heads: as in ``TaskExample``; 0 where there is no slot.
      there: whether there is a slot.
      counted: whether a slot counts in the loss.
    """

    ids: Int[AnyArray, "batch length"]
    lengths: Int[AnyArray, "batch 1"]
    types: Int[AnyArray, "batch length"]
    positions: Int[AnyArray, "batch slot"]
    labels: Int[AnyArray, "batch slot"]
    heads: Int[AnyArray, "batch slot"]
    there: Bool[AnyArray, "batch slot"]
    counted: Bool[AnyArray, "batch slot"]


def of_sentence(ids: Ids, specials: Specials, last: bool) -> int:
    """Returns the position of the token that stands for a sentence; ``last`` says that it is the last."""
    return len(ids) - 1 if last or not specials.before else 0


def training_width(length: int, longest: int) -> int:
    """Returns the width of a batch whose longest row has ``length`` tokens."""
    return min([width for width in _WIDTHS if width >= length] + [longest])


def task_batch(examples: Sequence[TaskExample], rows: int, pad_id: int, longest: int) -> TaskBatch:
    """Returns examples as arrays of one of a few widths; rows without an example have length 0."""
    width = training_width(max(len(example.ids) for example in examples), longest)
    most = max(len(example.positions) for example in examples)
    # One number of slots for each width, because each is a program. Words without tokens can make more of them.
    slots = 1 if most == 1 else width if most <= width else training_width(most, most)
    ids, types = np.full((rows, width), pad_id, np.int32), np.zeros((rows, width), np.int32)
    lengths = np.zeros((rows, 1), np.int32)
    positions, labels, heads = (np.zeros((rows, slots), np.int32) for _ in range(3))
    there, counted = (np.zeros((rows, slots), bool) for _ in range(2))
    for row, example in enumerate(examples):
        count = len(example.positions)
        ids[row, : len(example.ids)] = example.ids
        lengths[row] = len(example.ids)
        types[row, example.second : len(example.ids)] = 1
        positions[row, :count] = example.positions
        labels[row, :count] = np.maximum(example.labels, 0)
        heads[row, :count] = example.heads
        there[row, :count] = True
        counted[row, :count] = example.counted & (example.labels >= 0)
    return TaskBatch(ids, lengths, types, positions, labels, heads, there, counted)


def windows(tokens: WordTokens, specials: Specials, room: int, overlap: int = 64) -> Iterable[tuple[Ids, Ids, Ids]]:
    """Cuts a sentence into windows of ``room`` tokens and special ones, each with the end of the one before as context.

    Yields the tokens of each, the positions of the words that are new in it, and their numbers.
    """
    overlap = min(overlap, room // 2)
    end = len(tokens.ids) - specials.after
    first, body, last = np.split(tokens.ids, [specials.before, end])
    words = np.flatnonzero(tokens.starts >= 0)
    starts, stands = tokens.starts[words] - specials.before, tokens.stands[words] - specials.before
    ends = np.append(starts[1:], len(body))
    begin = taken = 0
    while taken < len(words):
        fits = int(np.searchsorted(ends, begin + room, side="right"))
        # A word that is longer than a window is cut.
        upto = max(fits, taken + 1)
        stop = min(int(ends[upto - 1]), begin + room)
        new = np.arange(taken, upto)
        yield (
            np.concatenate([first, body[begin:stop], last]),
            # The last token of a word may be cut off.
            np.minimum(stands[new] - begin, stop - begin - 1).astype(np.int32) + specials.before,
            words[new].astype(np.int32),
        )
        taken = upto
        if upto < len(words):
            # Less context if the next word would not fit.
            start = int(starts[upto])
            begin = max(int(ends[upto - 1]) - overlap, min(int(ends[upto]) - room, start), 0)
