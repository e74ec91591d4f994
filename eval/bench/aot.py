r"""Memory and operations of every program, as XLA compiles it for a TPU or GPU that need not be there.

    pip install -e '.[aot]'              # in an environment of its own: these are the packages for TPU and GPU
    python -m eval aot --targets v5e h200 --programs encode/base nearest

The compilers say how much memory a program needs, and which collectives it runs; only a device can tell the time. The
time in the table is what the matrix products would take at the peaks that the makers publish.

With ``--check``, the rows are compared with a file, and the command fails if a program does not compile, does
not fit, has another kind of collective, or needs a tenth more memory.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eval.bench.accelerators import TARGETS, check_installed, mesh_of, prepare
from eval.bench.compiled import ProgramCost, measured, read_rows, worse
from eval.bench.programs import encoding, fitting, searching, training
from eval.bench.programs.shapes import Sizes, Trace
from lsar_jax.checks import check_option
from lsar_jax.console.output import console, print_table

__all__ = ["Aot", "programs"]

TargetName = Literal["v5e", "v5e-2x2", "v5e-16x16", "v6e", "h200"]

# Two blocks, and decompositions that compile fast.
_SMALL = Sizes(blocks=2, dim=128, languages=8)
_COLUMNS = ["", "TFLOP", "GB", "ms by FLOPs", "collectives"]


def programs(sizes: Sizes, devices: int) -> dict[str, Trace]:
    """The trace of each program, by name; on several devices, fits and transforms of arrays run on one of them."""
    traces = encoding.programs(sizes) | fitting.on_meshes(sizes) | searching.programs(sizes) | training.programs(sizes)
    return traces | (fitting.programs(sizes) if devices == 1 else {})


@dataclass(frozen=True)
class Aot:
    """Compiles programs for devices that need not be there, and prints their cost on each device.

    Attributes:
      targets: devices to compile for, one or several of a kind.
      programs: beginnings of the names of programs; by default, all.
      small: two blocks and narrow embeddings instead of the published sizes, which compile in seconds.
      out: file to add the rows to, as JSON lines; programs that are in it are not compiled again.
      check: file of rows to compare with; without --programs, only programs in it are compiled.
    """

    targets: tuple[TargetName, ...] = ("v5e", "v5e-2x2", "v5e-16x16", "v6e", "h200")
    programs: tuple[str, ...] = ()
    small: bool = False
    out: Path | None = None
    check: Path | None = None

    def run(self) -> None:
        """Compiles, and prints the table; raises ValueError if a program is worse than before."""
        before = {} if self.check is None else read_rows(self.check)
        rows = {} if self.out is None or not self.out.exists() else read_rows(self.out)
        if other := {row.sizes for row in (*before.values(), *rows.values())} - {self._sizes}:
            raise ValueError(f"the file has programs of {other.pop()} sizes; these are {self._sizes}, by --small")
        chosen = {(name, target): trace for name, target, trace in self._chosen(before)}
        wrong = [
            f"{self.check} lists {name} on {target}, a program that no longer exists"
            for name, target in before
            if target in self.targets and not self.programs and (name, target) not in chosen
        ]
        for target in self.targets:
            check_installed(target)
        prepare()
        for (name, target), trace in chosen.items():
            if (name, target) not in rows:
                try:
                    rows[name, target] = self._compiled(name, target, trace)
                except RuntimeError as error:
                    why = (str(error).splitlines() or ["no message"])[0]
                    wrong.append(f"{name} on {target} does not compile: {why}")
                    continue
            wrong += worse(rows[name, target], before.get((name, target)), TARGETS[target])
        for target in self.targets:
            keys = [key for key in chosen if key[1] == target and key in rows]
            print_table(f"Each device of {target}", _COLUMNS, [[key[0], *rows[key].cells()] for key in keys])
        if self.check is not None:
            console.print(f"compared {len(chosen.keys() & rows.keys())} programs with {self.check}")
        for line in wrong:
            console.print(line)
        if wrong:
            raise ValueError(f"{len(wrong)} programs failed, as listed above")

    @property
    def _sizes(self) -> str:
        return "small" if self.small else "published"

    def _chosen(self, before: Mapping[tuple[str, str], ProgramCost]) -> Iterator[tuple[str, TargetName, Trace]]:
        sizes = _SMALL if self.small else Sizes()
        known = {target: programs(sizes, TARGETS[target].devices) for target in self.targets}
        names = dict.fromkeys(name for group in known.values() for name in group)
        for beginning in self.programs:
            known_one = any(name.startswith(beginning) for name in names)
            check_option(known_one, f"the beginning of one of {', '.join(names)}", programs=beginning)
        for target, traces in known.items():
            for name, trace in traces.items():
                if name.startswith(self.programs) if self.programs else not before or (name, target) in before:
                    yield name, target, trace

    def _compiled(self, name: str, target: TargetName, trace: Trace) -> ProgramCost:
        start = time.perf_counter()
        row = measured(name, target, TARGETS[target], trace(mesh_of(TARGETS[target])), self._sizes)
        console.print(f"{target}: {name}, compiled in {time.perf_counter() - start:.1f} s")
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with self.out.open("a", encoding="utf-8") as file:
                file.write(row.line() + "\n")
        return row
