"""The report of one call of an encoder: its counts and its time."""

from collections import deque
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Bool

from lsar_jax.arrays import log
from lsar_jax.encoders.collectors import IN_FLIGHT
from lsar_jax.tokens.packing import PackedBatch

__all__ = ["EncodeReport", "log_report"]


@dataclass
class EncodeReport:
    """The counts and the time of one call of ``encode``.

    Attributes:
      max_length: the number of tokens that sentences were truncated to.
      sentences: number of sentences.
      tokens: number of tokens encoded, special tokens included.
      padded_tokens: token positions computed, padding included.
      truncated: number of sentences that were truncated.
      unknown: with ``language="auto"``, number of sentences in none of the languages that the identifier knows.
      decomposed: number of sentences that are not in Unicode's composed form, NFC; many tokenizers split such text
        otherwise than the same text in NFC.
      seconds: wall time in seconds, tokenization and compilation included.
    """

    max_length: int
    sentences: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    truncated: int = 0
    unknown: int = 0
    decomposed: int = 0
    seconds: float = 0.0
    _waiting: deque[tuple[PackedBatch, Bool[jax.Array, " vector"]]] = field(default_factory=deque, repr=False)

    def add(self, batch: PackedBatch, unknown: Bool[jax.Array, " vector"] | None) -> None:
        """Counts a batch and, if ``unknown`` is given, its sentences in no known language, a few batches late."""
        self.sentences += len(batch.sentences)
        self.tokens += int(batch.lengths.sum())
        self.padded_tokens += batch.shape[0] * batch.shape[1]
        if unknown is not None:
            self._waiting.append((batch, unknown))
        self.count_unknown(IN_FLIGHT)

    def count_unknown(self, waiting: int = 0) -> None:
        """Counts the sentences in no known language of all batches but the last ones."""
        while len(self._waiting) > waiting:
            batch, unknown = self._waiting.popleft()
            self.unknown += int(np.asarray(unknown)[batch.numbers >= 0].sum())


def log_report(report: EncodeReport) -> None:
    """Logs warnings of sentences that were truncated, or are in a language that the identifier does not know."""
    n = report.sentences
    if report.truncated:
        log.warning("%d of %d sentences were truncated to %d tokens", report.truncated, n, report.max_length)
    if report.unknown:
        known = "in none of the languages that the identifier knows; they are taken for the nearest one"
        log.warning("%d of %d sentences are %s", report.unknown, n, known)
