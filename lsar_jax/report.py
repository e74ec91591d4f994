"""What one call of an encoder did."""

from dataclasses import dataclass

__all__ = ["Counts", "EncodeReport"]


@dataclass(frozen=True)
class EncodeReport:
    """What one ``encode`` did.

    Attributes:
      sentences: how many.
      tokens: tokens that were encoded, special tokens included.
      padded_tokens: token positions that were computed.
      truncated: sentences that were cut.
      max_length: the tokens that they were cut to.
      seconds: wall time, tokenizer and compilation included.
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
    """An ``EncodeReport`` in the making."""

    sentences: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    truncated: int = 0

    def report(self, max_length: int, seconds: float) -> EncodeReport:
        """Returns what was counted."""
        return EncodeReport(self.sentences, self.tokens, self.padded_tokens, self.truncated, max_length, seconds)
