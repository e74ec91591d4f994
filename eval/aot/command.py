r"""Memory, traffic and operations of every program, as XLA compiles it for a TPU or GPU that need not be there.

    pip install 'lsar_jax[aot]'          # in an environment of its own: these are the packages for TPU and GPU
    python -m eval aot --targets v5e h200 --programs encode/base nearest

The compilers say how much memory a program needs, what it moves between this memory and the cores, and what devices
send each other; only a device can tell the time. The times in the table are what the operations of the matrix products
and the traffic take at the peaks that the makers publish: no run can be faster. What NVIDIA's libraries do inside, and
the tiles of XLA's own products, which it tunes on a device, are not seen.

With ``--check``, the rows are compared with those of a file, and the command fails if a program does not compile, does
not fit, has more collectives, or moves a tenth more.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax

from eval.aot.arguments import Sizes, Trace
from eval.aot.programs import programs
from eval.aot.row import Row, measured, read_rows, worse
from eval.aot.targets import TARGETS, mesh_of, prepare
from train.console import console, print_table

__all__ = ["SMALL", "Aot"]

TargetName = Literal["v5e", "v5e-2x2", "v5e-16x16", "v6e", "h200"]

# Two blocks, and decompositions that compile fast.
SMALL = Sizes(blocks=2, dim=128, languages=8)


@dataclass(frozen=True)
class Aot:
    """Compiles programs for devices that need not be there, and prints what they take on each device.

    Attributes:
      targets: devices to compile for, one or several of a kind.
      programs: beginnings of the names of programs; by default, all.
      small: two blocks and narrow embeddings instead of the published sizes, which compile in seconds.
      out: file to add the rows to, as JSON lines; programs that are in it are not compiled again.
      check: file of rows to compare with.
    """

    targets: tuple[TargetName, ...] = ("v5e", "v5e-2x2", "v5e-16x16", "v6e", "h200")
    programs: tuple[str, ...] = ()
    small: bool = False
    out: Path | None = None
    check: Path | None = None

    def run(self) -> list[Row]:
        """Compiles, prints the table and returns its rows.

        Raises:
          ImportError: a compiler is not installed.
          FileNotFoundError: there is no file ``--check``.
          ValueError: no program has such a name, a file is damaged, or a program is worse than before.
        """
        before = {} if self.check is None else read_rows(self.check)
        done = read_rows(self.out) if self.out is not None and self.out.exists() else {}
        prepare()
        rows, wrong = [], []
        for target, name, trace in self._chosen():
            row = done.get((name, target))
            if row is None:
                try:
                    row = self._compiled(target, name, trace)
                except jax.errors.JaxRuntimeError as error:
                    wrong.append(f"{name} on {target} does not compile: {str(error).splitlines()[0]}")
                    continue
            rows.append(row)
            wrong += worse(row, before.get((name, target)), TARGETS[target])
        _print(rows)
        if wrong:
            raise ValueError("; ".join(wrong))
        return rows

    def _chosen(self) -> Iterator[tuple[TargetName, str, Trace]]:
        for target in self.targets:
            known = programs(SMALL if self.small else Sizes(), TARGETS[target].devices)
            names = [name for name in known if not self.programs or name.startswith(self.programs)]
            if not names:
                raise ValueError(f"--programs is {' '.join(self.programs)}; choose from {', '.join(known)}")
            for name in names:
                yield target, name, known[name]

    def _compiled(self, target: TargetName, name: str, trace: Trace) -> Row:
        started = time.perf_counter()
        row = measured(name, target, TARGETS[target], trace(mesh_of(TARGETS[target])))
        console.print(f"{target}: {name}, compiled in {time.perf_counter() - started:.1f} s")
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with self.out.open("a", encoding="utf-8") as file:
                file.write(row.line() + "\n")
        return row


def _print(rows: list[Row]) -> None:
    columns = ["", "kernels", "TFLOP", "GB moved", "GB of memory", "collectives", "ms by FLOPs", "ms by traffic"]
    for target in dict.fromkeys(row.target for row in rows):
        lines = [
            [row.program, f"{row.kernels}{'+' * bool(row.open_loops)}", f"{row.tflop:.3g}", f"{row.traffic:.3g}",
             f"{row.memory:.3g}", _text(row.collectives), f"{row.ms_by_flops:.3g}", f"{row.ms_by_traffic:.3g}"]
            for row in rows if row.target == target
        ]  # fmt: skip
        print_table(f"Each device of {target}", columns, lines)


def _text(collectives: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(collectives.items()))
