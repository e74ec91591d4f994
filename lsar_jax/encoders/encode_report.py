"""What one call of an encoder did."""

from dataclasses import dataclass

__all__ = ["Counts", "EncodeReport"]


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
    """

    sentences: int
    tokens: int
    padded_tokens: int
    truncated: int
    max_length: int
    seconds: float

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

    def report(self, max_length: int, seconds: float) -> EncodeReport:
        """Returns the finished report."""
        return EncodeReport(self.sentences, self.tokens, self.padded_tokens, self.truncated, max_length, seconds)
