"""The report of one call of an encoder: its counts and its time."""

import logging
from collections import deque
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Bool

from lsar_jax.encoders.collectors import IN_FLIGHT
from lsar_jax.tokens.packing import PackedBatch

__all__ = ["Counts", "EncodeReport", "log_report"]

_log = logging.getLogger("lsar_jax")


@dataclass(frozen=True)
class EncodeReport:
    """The counts and the time of one call of ``encode``.

    Attributes:
      sentences: number of sentences.
      tokens: number of tokens encoded, special tokens included.
      padded_tokens: token positions computed, padding included.
      truncated: number of sentences that were truncated.
      max_length: the number of tokens that they were truncated to.
      seconds: wall time in seconds, tokenization and compilation included.
      unknown: with ``language="auto"``, number of sentences in none of the languages that the identifier knows.
      decomposed: number of sentences that are not in Unicode's composed form, NFC; many tokenizers split such text
        otherwise than the same text in NFC.
    """

    sentences: int
    tokens: int
    padded_tokens: int
    truncated: int
    max_length: int
    seconds: float
    unknown: int = 0
    decomposed: int = 0

    @property
    def padding_waste(self) -> float:
        """The share of computed positions, from 0 to 1, that held no token."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0


@dataclass
class Counts:
    """The counts of an ``EncodeReport`` while the call runs."""

    sentences: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    truncated: int = 0
    unknown: int = 0
    decomposed: int = 0
    _waiting: deque[tuple[PackedBatch, Bool[jax.Array, " vector"]]] = field(default_factory=deque)

    def add(self, batch: PackedBatch, unknown: Bool[jax.Array, " vector"] | None) -> None:
        """Counts a batch and, if ``unknown`` is given, its sentences in no known language."""
        self.sentences += len(batch.sentences)
        self.tokens += int(batch.lengths.sum())
        self.padded_tokens += batch.shape[0] * batch.shape[1]
        if unknown is not None:
            self._waiting.append((batch, unknown))
        self._count(IN_FLIGHT)

    def report(self, max_length: int, seconds: float) -> EncodeReport:
        """Returns the finished report."""
        self._count(0)
        counts = self.sentences, self.tokens, self.padded_tokens, self.truncated
        return EncodeReport(*counts, max_length, seconds, self.unknown, self.decomposed)

    def _count(self, most: int) -> None:
        while len(self._waiting) > most:
            batch, unknown = self._waiting.popleft()
            self.unknown += int(np.asarray(unknown)[batch.numbers >= 0].sum())


def log_report(report: EncodeReport) -> None:
    """Logs warnings of sentences that were truncated, or are in a language that the identifier does not know."""
    n = report.sentences
    if report.truncated:
        _log.warning("%d of %d sentences were truncated to %d tokens", report.truncated, n, report.max_length)
    if report.unknown:
        known = "in none of the languages that the identifier knows; they are taken for the nearest one"
        _log.warning("%d of %d sentences are %s", report.unknown, n, known)
