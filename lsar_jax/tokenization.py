"""Text to batches of a few fixed shapes.

XLA compiles one program a shape, so sentences are grouped by token length into a few widths,
and each width is run with two row counts: a full one for throughput and a small one for
short calls and for what is left over. The width depends on the sentence alone, never on its
neighbours, and so does its vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

__all__ = ["WIDTHS", "BatchSizes", "Slot", "TokenBatch", "Tokenizer", "check_sentences", "plan"]

# Steps of about a fifth: 10% of the positions of real paragraphs are padding; steps of a third make it 17%.
WIDTHS = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512)


_BLOCK = 4096


class TokenBatch(NamedTuple):
    """Token ids ``[batch, length]`` and the tokens in each row ``[batch]``, int32."""

    ids: Int[np.ndarray, "batch length"]
    lengths: Int[np.ndarray, " batch"]


@dataclass(frozen=True)
class Tokenizer:
    """A fast tokenizer of the ``tokenizers`` library.

    Attributes:
      backend: ``tokenizers.Tokenizer`` with the model's special tokens in its post-processor.
      pad_id: the id that fills rows.
      max_length: the most tokens that the model takes, special tokens included.
      lock: held while the backend works.
    """

    backend: Any
    pad_id: int
    max_length: int
    lock: Any = field(default_factory=Lock, repr=False, compare=False)

    def __call__(self, sentences: Sequence[str], max_length: int) -> tuple[list[Int[np.ndarray, "_"]], int]:
        """Returns the ids of each sentence, and how many sentences were cut to ``max_length``."""
        ids: list[np.ndarray] = []
        cut = 0
        # By blocks: an encoding of the library is many times the size of its ids.
        for start in range(0, len(sentences), _BLOCK):
            # The limit is a state of the backend, which encoders and threads share.
            with self.lock:
                self.backend.no_padding()
                self.backend.enable_truncation(max_length)
                encodings = self.backend.encode_batch_fast(list(sentences[start : start + _BLOCK]))
            ids += [np.array(encoding.ids, np.int32) for encoding in encodings]
            cut += sum(bool(encoding.overflowing) for encoding in encodings)
        return ids, cut

    def batch(self, ids: Sequence[Int[np.ndarray, "_"]], rows: int, width: int) -> TokenBatch:
        """Pads ``ids`` to ``[rows, width]``; rows without a sentence have length 0."""
        padded = np.full((rows, width), self.pad_id, np.int32)
        lengths = np.zeros(rows, np.int32)
        for row, sentence in enumerate(ids):
            padded[row, : len(sentence)] = sentence
            lengths[row] = len(sentence)
        return TokenBatch(padded, lengths)


def check_sentences(sentences: Sequence[str]) -> None:
    """Raises ValueError for what is not text: another type, or a lone surrogate.

    Any other string is text: an empty one is its special tokens, control characters are
    what the tokenizer makes of them, and a long one is cut and counted.
    """
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ValueError(f"sentence {index} is a {type(sentence).__name__}, not a str: {sentence!r:.80}")
        try:
            sentence.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"sentence {index} has the lone surrogate U+{ord(sentence[error.start]):04X} at character "
                f"{error.start}; read its file as UTF-8, with errors='replace' if it is damaged"
            ) from None


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
        """Returns every (rows, width) that ``plan`` may use."""
        return sorted(
            {(rows, width) for width in _widths(max_length) for rows in (self.full(width), self.small(width))}
        )


class Slot(NamedTuple):
    """One device call: which sentences, in how wide and how many rows."""

    sentences: Int[np.ndarray, " sentence"]
    rows: int
    width: int


def plan(lengths: Int[np.ndarray, " sentence"], max_length: int, sizes: BatchSizes) -> list[Slot]:
    """Groups sentences into device calls of at most ``2 x widths`` shapes, longest first.

    Args:
      lengths: tokens in each sentence, at most ``max_length``.
      max_length: the widest batch.
      sizes: rows per width.

    Raises:
      ValueError: a sentence is longer than ``max_length``.
    """
    if len(lengths) and lengths.max() > max_length:
        raise ValueError(f"a sentence has {lengths.max()} tokens, batches take {max_length}")
    widths = np.array(_widths(max_length))
    width_of = np.searchsorted(widths, lengths)
    order = np.argsort(-lengths, kind="stable")
    slots = []
    for index in range(len(widths) - 1, -1, -1):
        width = int(widths[index])
        members = order[width_of[order] == index]
        full, small = sizes.full(width), sizes.small(width)
        while len(members):
            # A tail goes through small calls while they compute at most half of a full one.
            rows = small if -(-len(members) // small) * small <= full // 2 else full
            slots.append(Slot(members[:rows], rows, width))
            members = members[rows:]
    return slots


def _widths(max_length: int) -> list[int]:
    return [*(width for width in WIDTHS if width < max_length), max_length]
