"""What one call of an encoder did."""

import logging
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from lsar_jax.shapes import AnyArray

__all__ = ["Counts", "EncodeReport", "log_report"]

_log = logging.getLogger("lsar_jax")


@dataclass(frozen=True)
class EncodeReport:
    """What one call of ``encode`` did.

    Attributes:
      sentences: number of sentences.
      tokens: number of tokens encoded, special tokens included.
      padded_tokens: token positions computed, padding included.
      truncated: number of sentences that were truncated.
      max_length: the number of tokens that they were truncated to.
      seconds: wall time, tokenization and compilation included.
      unknown: with ``language="auto"``, number of sentences in none of the languages that the identifier knows.
    """

    sentences: int
    tokens: int
    padded_tokens: int
    truncated: int
    max_length: int
    seconds: float
    unknown: int = 0

    @property
    def padding_waste(self) -> float:
        """The share of computed positions that held no token."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0


@dataclass
class Counts:
    """The counts of an ``EncodeReport`` while the call runs."""

    sentences: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    truncated: int = 0
    unknown: int = 0

    def add_unknown(self, real: int, unknown: Bool[AnyArray, " batch"]) -> None:
        """Adds the sentences of a batch that are in no known language; rows after ``real`` are filler."""
        self.unknown += int(np.asarray(unknown)[:real].sum())

    def report(self, max_length: int, seconds: float) -> EncodeReport:
        """Returns the finished report."""
        return EncodeReport(
            self.sentences, self.tokens, self.padded_tokens, self.truncated, max_length, seconds, self.unknown
        )


def log_report(report: EncodeReport) -> None:
    """Logs warnings of sentences that were truncated, or are in a language that the identifier does not know."""
    if report.truncated:
        _log.warning(
            "%d of %d sentences were truncated to %d tokens", report.truncated, report.sentences, report.max_length
        )
    if report.unknown:
        _log.warning(
            "%d of %d sentences are in none of the languages that the identifier knows; they are taken for the nearest "
            "one",
            report.unknown,
            report.sentences,
        )
