"""Every program of the library, by name, for the targets that it runs on."""

from eval.aot import encoding, fitting, searching, training
from eval.aot.shapes import Sizes, Trace

__all__ = ["programs"]


def programs(sizes: Sizes, devices: int) -> dict[str, Trace]:
    """The trace of each program, by name; on several devices, fits and transforms of arrays run on one of them."""
    traces = encoding.programs(sizes) | fitting.on_meshes(sizes) | searching.programs(sizes) | training.programs(sizes)
    return traces | (fitting.programs(sizes) if devices == 1 else {})
