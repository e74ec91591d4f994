"""The cost of a program on a target, as a line of a table."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import jax

from eval.bench.accelerators import Target
from eval.bench.hlo_text import cost_of_text
from eval.bench.operations import operations_of
from lsar_jax.corpora.row_files import file_rows

__all__ = ["ProgramCost", "measured", "read_rows", "worse"]

# A program may move a tenth more than before; the bytes of a few scalars are never too many.
_MORE, _FEW = 1.1, 1e4


@dataclass(frozen=True)
class ProgramCost:
    """A program on a device of a target; bytes in GB of 10^9."""

    program: str
    target: str
    kernels: int  # instructions that run by themselves
    tflop: float  # operations of its matrix products, in units of 10^12
    traffic: float  # read and written in the main memory of the device
    memory: float  # of arguments, results and temporary arrays
    collectives: dict[str, int]  # number by kind
    ms_by_flops: float  # time at the published peak of the products, in milliseconds
    ms_by_traffic: float  # at the published bandwidth
    open_loops: int  # loops that run as often as their data ask, and are counted once
    sizes: str  # published or small
    versions: str  # of jax and of the compiler

    def line(self) -> str:
        """The row as JSON, with four significant digits."""
        values = asdict(self).items()
        return json.dumps({name: float(f"{x:.4g}") if isinstance(x, float) else x for name, x in values})

    def cells(self) -> list[str]:
        """Kernels, operations, traffic, memory, both times and collectives, as the text of a table."""
        kernels = f"{self.kernels}{'+' * bool(self.open_loops)}"
        numbers = (self.tflop, self.traffic, self.memory, self.ms_by_flops, self.ms_by_traffic)
        collectives = ", ".join(f"{count} {kind}" for kind, count in sorted(self.collectives.items()))
        return [kernels, *(f"{number:.3g}" for number in numbers), collectives]


def measured(name: str, target_name: str, target: Target, traced: jax.stages.Traced, sizes: str) -> ProgramCost:
    """Compiles and measures a program; raises RuntimeError if it does not compile, or exceeds the memory of a TPU."""
    compiled = traced.lower().compile()
    memory = compiled.memory_analysis()
    assert memory is not None
    bytes_needed = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    bytes_needed += memory.output_size_in_bytes - memory.alias_size_in_bytes
    cost = cost_of_text(compiled.as_text() or "")
    counts = operations_of(traced.jaxpr, target.platform).items()
    operations = {kind: count / target.devices for kind, count in counts}
    seconds = sum(count / getattr(target.peaks, kind) for kind, count in operations.items())
    return ProgramCost(
        name, target_name, cost.kernels, sum(operations.values()) / 1e12, cost.traffic / 1e9, bytes_needed / 1e9,
        dict(cost.collectives), 1e3 * seconds, 1e3 * cost.traffic / target.peaks.bandwidth, cost.open_loops, sizes,
        target.versions(),
    )  # fmt: skip


def read_rows(path: Path) -> dict[tuple[str, str], ProgramCost]:
    """Reads the rows of a file of JSON lines, by program and target; raises ValueError for a line that is not one."""
    rows = [ProgramCost(**row) for _, row in file_rows(path, [field.name for field in fields(ProgramCost)])]
    return {(row.program, row.target): row for row in rows}


def worse(row: ProgramCost, before: ProgramCost | None, target: Target) -> Iterable[str]:
    """Yields the faults of a row: too much memory, or more than before."""
    where, memory = f"{row.program} on {row.target}", target.peaks.memory
    if row.memory * 1e9 > memory:
        yield f"{where} needs {row.memory:.1f} GB of memory; the device has {memory / 1e9:.1f} GB"
    if before is None:
        return
    counts = {kind: (count, before.collectives.get(kind, 0)) for kind, count in row.collectives.items()}
    counts["loops of unknown length"] = row.open_loops, before.open_loops
    for kind, (count, least) in counts.items():
        if count > least:
            yield f"{where} has {count} {kind}; it had {least} with {before.versions}"
    if row.traffic > max(_MORE * before.traffic, before.traffic + _FEW / 1e9):
        yield f"{where} moves {row.traffic:.4g} GB; it moved {before.traffic:.4g} GB with {before.versions}"
