"""Published limits of accelerators."""

from typing import NamedTuple

__all__ = ["PEAKS", "Peaks"]


class Peaks(NamedTuple):
    """The limits of one device.

    Attributes:
      memory: bytes.
      bandwidth: bytes per second to and from the memory.
      bfloat16: operations per second of matrix products in bfloat16.
      float32: operations per second in full float32.
      fast_float32: operations per second in float32 as the device computes it by default, with fewer digits.
    """

    memory: float
    bandwidth: float
    bfloat16: float
    float32: float
    fast_float32: float


def _tpu(memory: float, bandwidth: float, peak: float) -> Peaks:
    # A product in full float32 is six passes of the matrix unit, which multiplies bfloat16.
    return Peaks(memory, bandwidth, peak, peak / 6, peak)


PEAKS = {
    # https://docs.cloud.google.com/tpu/docs/v5e and v6e.
    "v5e": _tpu(16.0 * 2**30, 819e9, 197e12),
    "v6e": _tpu(32.0 * 2**30, 1638e9, 918e12),
    # NVIDIA's data sheet of the H200 SXM, without sparsity.
    "h200": Peaks(151_397_597_184.0, 4.8e12, 989e12, 67e12, 494e12),
}
