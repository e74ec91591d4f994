"""What a program takes on a target, as a line of a table."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import jax

from eval.aot.operations import operations_of
from eval.aot.program_text import cost_of_text
from eval.aot.targets import Target

__all__ = ["Row", "measured", "read_rows", "worse"]

# How much more than before a program may move.
_MORE = 1.1
# So many bytes more are never too many: those of a few scalars.
_LITTLE = 1e4


@dataclass(frozen=True)
class Row:
    """A program on a device of a target; bytes in GB of 10^9.

    Attributes:
      program: its name.
      target: name of the target.
      kernels: number of instructions that run by themselves.
      tflop: operations of its matrix products, in units of 10^12.
      traffic: bytes read and written in the main memory of the device.
      memory: bytes of arguments, results and what is between them.
      collectives: number of collectives by kind.
      between_devices: bytes that they write.
      ms_by_flops: time at the published peak of the products, in milliseconds.
      ms_by_traffic: time at the published bandwidth.
      open_loops: number of loops that run as often as their data ask, and are counted once.
      sizes: published or small.
      versions: of jax and of the compiler.
    """

    program: str
    target: str
    kernels: int
    tflop: float
    traffic: float
    memory: float
    collectives: dict[str, int]
    between_devices: float
    ms_by_flops: float
    ms_by_traffic: float
    open_loops: int
    sizes: str
    versions: str

    def line(self) -> str:
        """Returns it as JSON, with four significant digits."""
        parts = {name: _short(value) for name, value in asdict(self).items()}
        return json.dumps(parts)

    def cells(self) -> list[str]:
        """Returns kernels, operations, traffic, memory, both times and collectives, as the text of a table."""
        kernels = f"{self.kernels}{'+' * bool(self.open_loops)}"
        numbers = (self.tflop, self.traffic, self.memory, self.ms_by_flops, self.ms_by_traffic)
        collectives = ", ".join(f"{count} {kind}" for kind, count in sorted(self.collectives.items()))
        return [kernels, *(f"{number:.3g}" for number in numbers), collectives]


def measured(name: str, target_name: str, target: Target, traced: jax.stages.Traced, sizes: str) -> Row:
    """Compiles a program and returns its row.

    Args:
      name: name of the program.
      target_name: name of the target.
      target: the target.
      traced: the program.
      sizes: published or small.

    Raises:
      RuntimeError: it does not compile, or exceeds the memory of a TPU.
    """
    compiled = traced.lower().compile()
    memory = compiled.memory_analysis()
    assert memory is not None
    taken = (
        memory.argument_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
    )
    cost = cost_of_text(compiled.as_text() or "")
    operations: Counter[str] = Counter(
        {kind: count / target.devices for kind, count in operations_of(traced.jaxpr, target.platform).items()}
    )
    return Row(
        name, target_name, cost.kernels, operations.total() / 1e12, cost.traffic / 1e9, taken / 1e9,
        dict(cost.collectives), cost.between_devices / 1e9,
        1e3 * sum(count / target.peaks[kind] for kind, count in operations.items()),
        1e3 * cost.traffic / target.bandwidth, cost.open_loops, sizes, target.versions(),
    )  # fmt: skip


def read_rows(path: Path) -> dict[tuple[str, str], Row]:
    """Returns the rows of a file of JSON lines, by program and target.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not a row.
    """
    rows = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = Row(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a row of python -m eval aot: {error}") from error
        rows[row.program, row.target] = row
    return rows


def worse(row: Row, before: Row | None, target: Target) -> Iterable[str]:
    """Yields what is wrong with a row: too much memory, or more than before."""
    where = f"{row.program} on {row.target}"
    if row.memory * 1e9 > target.memory:
        yield f"{where} needs {row.memory:.1f} GB of memory; the device has {target.memory / 1e9:.1f} GB"
    if before is None:
        return
    for kind, count in row.collectives.items():
        if count > before.collectives.get(kind, 0):
            yield f"{where} has {count} {kind}; it had {before.collectives.get(kind, 0)} with {before.versions}"
    if row.open_loops > before.open_loops:
        yield (
            f"{where} has {row.open_loops} loops of unknown length; it had {before.open_loops} with {before.versions}"
        )
    if row.traffic > max(_MORE * before.traffic, before.traffic + _LITTLE / 1e9):
        yield f"{where} moves {row.traffic:.4g} GB; it moved {before.traffic:.4g} GB with {before.versions}"


def _short(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value
