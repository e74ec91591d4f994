"""``lsar-jax plan``: how long a large job takes at least, and what it needs."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from lsar_jax.checks import positive_number, whole_number
from lsar_jax.cli.device_peaks import PEAKS

__all__ = ["SIZES", "Plan", "Size"]

# Rows of a shard, and vectors of a block of mining.
_ROWS = 65_536
# Neighbours that mining keeps of a sentence.
_NEIGHBOURS = 4


class Size(NamedTuple):
    """The sizes of an encoder: blocks, width, and width between the two products of the feed-forward layer."""

    blocks: int
    hidden: int
    intermediate: int

    def operations(self, length: float) -> float:
        """Returns the operations of the matrix products for a token of a sentence of this length."""
        return 2.0 * self.blocks * self.hidden * (4 * self.hidden + 2 * self.intermediate + 2 * length)


SIZES = {"small": Size(12, 384, 1536), "base": Size(12, 768, 3072), "large": Size(24, 1024, 4096)}


@dataclass(frozen=True)
class Plan:
    """Prints how long encoding, or mining with --mine, takes at least, and what it needs on disk and in memory.

    The time is that of the matrix products at the peak that the maker of the device publishes, in bfloat16 for encoding
    and float32 for mining, and at the share of it that is taken to be reached; or that of a rate that was measured.
    Reading, tokenizing and writing are not counted.

    Attributes:
      sentences: number of sentences to encode, such as 1e9.
      mine: numbers of sentences of both sides to mine, such as 1e7 1e7, instead.
      tokens: mean number of tokens of a sentence.
      encoder: sizes of the encoder: those of multilingual-e5-small, which is bundled, or of XLM-R base or large.
      device: kind of the devices.
      count: number of devices.
      reached: share of the peak that is reached; only a run on the device can tell.
      rate: sentences that one device encodes per second, if that was measured.
    """

    sentences: float | None = None
    mine: tuple[float, float] | None = None
    tokens: float = 30.0
    encoder: Literal["small", "base", "large"] = "base"
    device: Literal["v5e", "v6e", "h200"] = "h200"
    count: int = 1
    reached: float = 0.4
    rate: float | None = None

    def run(self) -> None:
        """Prints the plan."""
        if (self.sentences is None) == (self.mine is None):
            raise ValueError("give --sentences to plan encoding, or --mine to plan mining")
        if self.mine is not None and self.rate is not None:
            raise ValueError("--rate is that of encoding; omit it with --mine")
        for name in ("sentences", "tokens", "reached", "rate"):
            if (value := getattr(self, name)) is not None:
                positive_number(name, value)
        if self.reached > 1:
            raise ValueError(f"reached is {self.reached}; it is a share of the peak, from 0 to 1")
        whole_number("count", self.count, 1, 1 << 20, "devices")
        size, devices, peaks = SIZES[self.encoder], f"{self.count} x {self.device}", PEAKS[self.device]
        if self.sentences is not None:
            print(
                f"encode {self.sentences:,.0f} sentences of {self.tokens:g} tokens: {self.encoder}, {size.blocks} "
                f"blocks, bfloat16, {devices}"
            )
            self._print_time(self.sentences * self.tokens * size.operations(self.tokens), peaks.bfloat16)
            if self.rate is not None:
                hours = self.sentences / self.rate / self.count / 3600
                print(f"time at {self.rate:,.0f} sentences/s on each device: {_time(hours)}")
            print(
                f"vectors on disk: {_bytes(self.sentences * size.hidden * 4)} in float32, in "
                f"{-(-self.sentences // _ROWS):,.0f} shards of {_bytes(_ROWS * size.hidden * 4.0)}"
            )
        if self.mine is not None:
            sources, targets = (positive_number("mine", side) for side in self.mine)
            print(f"mine {sources:,.0f} x {targets:,.0f} vectors of width {size.hidden}: float32, {devices}")
            self._print_time(2 * sources * targets * size.hidden, peaks.float32)
            read = -(-sources // _ROWS) * targets * size.hidden * 4
            print(f"vectors read from disk, a block of {_ROWS:,} sources after another: {_bytes(read)}")
            memory = 12 * _NEIGHBOURS * (sources + targets)
            print(f"neighbours in memory, k = {_NEIGHBOURS}: {_bytes(memory)}")
            if max(sources, targets) > 1e7:
                print("more than 10^7 on a side: search an approximate index first; docs/how-to/plan-a-large-job.md")

    def _print_time(self, operations: float, peak: float) -> None:
        peak *= self.count
        hours = operations / peak / 3600
        print(f"operations: {operations:.3g}, at most {peak:.3g}/s")
        print(f"time at the peak: {_time(hours)}; at {100 * self.reached:g}% of it: {_time(hours / self.reached)}")


def _time(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:,.1f} minutes"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count / 1e3:,.2f} kB"
