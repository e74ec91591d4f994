"""``lsar-jax plan``: how long a large job takes at least, and what it needs."""

from dataclasses import dataclass
from typing import Literal

from lsar_jax.checks import positive_number, whole_number
from lsar_jax.cli.device_peaks import PEAKS

__all__ = ["Plan"]


@dataclass(frozen=True)
class _Shape:
    """Sizes of an encoder: blocks, width, and width between the two products of the feed-forward layer."""

    blocks: int
    hidden: int
    intermediate: int

    def operations(self, length: float) -> float:
        """Returns the operations of the matrix products for a token of a sentence of this length."""
        products = 4 * self.hidden**2 + 2 * self.hidden * self.intermediate + 2 * length * self.hidden
        return 2.0 * self.blocks * products


_SHAPES = {"small": _Shape(12, 384, 1536), "base": _Shape(12, 768, 3072), "large": _Shape(24, 1024, 4096)}


@dataclass(frozen=True)
class Plan:
    """Prints how long encoding, or mining with --mine, takes at least, and what it needs on disk and in memory.

    The time is that of the matrix products at the peak that the maker of the device publishes, and at the share of it
    that is taken to be reached; or that of a rate that was measured. Reading, tokenizing and writing are not counted.

    Attributes:
      sentences: number of sentences to encode, such as 1e9.
      mine: numbers of sentences of both sides to mine, such as 1e7 1e7, instead.
      tokens: mean number of tokens of a sentence.
      encoder: sizes of the encoder: those of multilingual-e5-small, which is bundled, or of XLM-R base or large.
      layer: hidden-state layer; by default, the last.
      device: kind of the devices.
      count: number of devices.
      dtype: compute dtype, or precision of mining; by default, bfloat16, and float32 for mining.
      reached: share of the peak that is reached; only a run on the device can tell.
      rate: sentences that one device encodes per second, if that was measured.
      store: dtype of the stored vectors.
      k: number of nearest neighbours of mining.
    """

    sentences: float | None = None
    mine: tuple[float, float] | None = None
    tokens: float = 30.0
    encoder: Literal["small", "base", "large"] = "base"
    layer: int | None = None
    device: Literal["v5e", "v6e", "h200"] = "h200"
    count: int = 1
    dtype: Literal["bfloat16", "float32"] | None = None
    reached: float = 0.4
    rate: float | None = None
    store: Literal["float32", "float16"] = "float32"
    k: int = 4

    def run(self) -> None:
        """Prints the plan.

        Raises:
          ValueError: not one of sentences and mine is given, or a number is out of range.
        """
        if (self.sentences is None) == (self.mine is None):
            raise ValueError("give --sentences to plan encoding, or --mine to plan mining")
        if self.mine is not None and self.rate is not None:
            raise ValueError("--rate is that of encoding; omit it with --mine")
        for name in ("sentences", "tokens", "reached", "rate"):
            if (value := getattr(self, name)) is not None:
                positive_number(name, value)
        if self.reached > 1:
            raise ValueError(f"reached is {self.reached}; it is a share of the peak, from 0 to 1")
        shape = _SHAPES[self.encoder]
        blocks = whole_number(
            "layer", shape.blocks if self.layer is None else self.layer, 1, shape.blocks, "its blocks"
        )
        shape = _Shape(blocks, shape.hidden, shape.intermediate)
        whole_number("count", self.count, 1, 1 << 20, "devices")
        whole_number("k", self.k, 1, 1024, "neighbours")
        print("\n".join(self._encoding(shape) if self.mine is None else self._mining(shape)))

    @property
    def _dtype(self) -> str:
        return self.dtype or ("bfloat16" if self.mine is None else "float32")

    def _encoding(self, shape: _Shape) -> list[str]:
        assert self.sentences is not None
        operations = self.sentences * self.tokens * shape.operations(self.tokens)
        width = 4 if self.store == "float32" else 2
        lines = [
            f"encode {self.sentences:,.0f} sentences of {self.tokens:g} tokens: {self.encoder}, {shape.blocks} blocks, "
            f"{self._dtype}, {self.count} x {self.device}",
            *self._hours(operations),
        ]
        if self.rate is not None:
            hours = self.sentences / self.rate / self.count / 3600
            lines.append(f"time at {self.rate:,.0f} sentences/s on each device: {_time(hours)}")
        return [
            *lines,
            f"vectors on disk: {_bytes(self.sentences * shape.hidden * width)} in {self.store}, in "
            f"{-(-self.sentences // 65_536):,.0f} shards of {_bytes(65_536.0 * shape.hidden * width)}",
        ]

    def _mining(self, shape: _Shape) -> list[str]:
        assert self.mine is not None
        sources, targets = (positive_number("mine", side) for side in self.mine)
        block = 65_536
        read = -(-sources // block) * targets * shape.hidden * 4
        lines = [
            f"mine {sources:,.0f} x {targets:,.0f} vectors of width {shape.hidden}: {self._dtype}, {self.count} x "
            f"{self.device}",
            *self._hours(2 * sources * targets * shape.hidden),
            f"vectors read from disk, a block of {block:,} sources after another: {_bytes(read)}",
            f"neighbours in memory, k = {self.k}: {_bytes(12 * self.k * (sources + targets))}",
        ]
        if max(sources, targets) > 1e7:
            lines.append("more than 10^7 on a side: search an approximate index first; docs/how-to/plan-a-large-job.md")
        return lines

    def _hours(self, operations: float) -> list[str]:
        peaks = PEAKS[self.device]
        peak = self.count * (peaks.bfloat16 if self._dtype == "bfloat16" else peaks.float32)
        hours = operations / peak / 3600
        return [
            f"operations: {operations:.3g}, at most {peak:.3g}/s",
            f"time at the peak: {_time(hours)}; at {100 * self.reached:g}% of it: {_time(hours / self.reached)}",
        ]


def _time(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:,.1f} minutes"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count / 1e3:,.2f} kB"
