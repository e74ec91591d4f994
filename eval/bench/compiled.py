"""The cost of a program on a target, as a line of a table."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import jax

from eval.bench.accelerators import Target
from eval.bench.operations import operations_of
from lsar_jax.corpora.row_files import file_rows

__all__ = ["ProgramCost", "measured", "read_rows", "worse"]

# A program may need a tenth more memory than before; the bytes of a few scalars are never too many.
_MORE, _FEW = 1.1, 1e4
_COLLECTIVE = re.compile(r" (all-[a-z-]+?|reduce-scatter|collective-[a-z-]+?|ragged-all-to-all)(?:-start)?\(")


@dataclass(frozen=True)
class ProgramCost:
    """A program on a device of a target; bytes in GB of 10^9."""

    program: str
    target: str
    tflop: float  # operations of its matrix products, in units of 10^12
    memory: float  # of arguments, results and temporary arrays
    collectives: str  # kinds of them, between commas
    ms_by_flops: float  # time at the published peak of the products, in milliseconds
    sizes: str  # published or small
    versions: str  # of jax and of the compiler

    def line(self) -> str:
        """The row as JSON, with four significant digits."""
        values = asdict(self).items()
        return json.dumps({name: float(f"{x:.4g}") if isinstance(x, float) else x for name, x in values})

    def cells(self) -> list[str]:
        """Operations, memory, time and collectives, as the text of a table."""
        return [*(f"{number:.3g}" for number in (self.tflop, self.memory, self.ms_by_flops)), self.collectives]


def measured(name: str, target_name: str, target: Target, traced: jax.stages.Traced, sizes: str) -> ProgramCost:
    """Compiles and measures a program; raises RuntimeError if it does not compile, or exceeds the memory of a TPU."""
    compiled = traced.lower().compile()
    memory = compiled.memory_analysis()
    assert memory is not None
    bytes_needed = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    bytes_needed += memory.output_size_in_bytes - memory.alias_size_in_bytes
    counts = operations_of(traced.jaxpr, target.platform).items()
    operations = {kind: count / target.devices for kind, count in counts}
    seconds = sum(count / target.peaks[kind] for kind, count in operations.items())
    kinds = {kind for kind in _COLLECTIVE.findall(compiled.as_text() or "") if not kind.endswith("-done")}
    return ProgramCost(
        name, target_name, sum(operations.values()) / 1e12, bytes_needed / 1e9, ", ".join(sorted(kinds)),
        1e3 * seconds, sizes, target.versions(),
    )  # fmt: skip


def read_rows(path: Path) -> dict[tuple[str, str], ProgramCost]:
    """Reads the rows of a file of JSON lines, by program and target; raises ValueError for a line that is not one."""
    rows = [ProgramCost(**row) for _, row in file_rows(path, [field.name for field in fields(ProgramCost)])]
    return {(row.program, row.target): row for row in rows}


def worse(row: ProgramCost, before: ProgramCost | None, target: Target) -> Iterable[str]:
    """Yields the faults of a row: too much memory, or more than before."""
    where, memory = f"{row.program} on {row.target}", target.peaks["memory"]
    if row.memory * 1e9 > memory:
        yield f"{where} needs {row.memory:.1f} GB of memory; the device has {memory / 1e9:.1f} GB"
    if before is None:
        return
    if more := sorted({*row.collectives.split(", ")} - {*before.collectives.split(", "), ""}):
        yield f"{where} has {', '.join(more)}; it had none with {before.versions}"
    if row.memory > max(_MORE * before.memory, before.memory + _FEW / 1e9):
        yield f"{where} needs {row.memory:.4g} GB; it needed {before.memory:.4g} GB with {before.versions}"
