r"""Memory, traffic and operations of every program, as XLA compiles it for a TPU or GPU that need not be there.

    pip install -e '.[aot]'              # in an environment of its own: these are the packages for TPU and GPU
    python -m eval aot --targets v5e h200 --programs encode/base nearest

The compilers say how much memory a program needs, what it moves between this memory and the cores, and what devices
send each other; only a device can tell the time. The times in the table are what the operations of the matrix products
and the traffic take at the peaks that the makers publish. Caches are not reckoned with: what one kernel leaves in that
of a GPU, the next need not read from memory. What NVIDIA's libraries do inside, and the tiles of XLA's own products,
which it tunes on a device, are not seen.

With ``--check``, the rows are compared with those of a file, and the command fails if a program does not compile, does
not fit, has more collectives, or moves a tenth more.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eval.aot.arguments import Sizes, Trace
from eval.aot.page import programs_page
from eval.aot.programs import programs
from eval.aot.row import Row, measured, read_rows, worse
from eval.aot.targets import TARGETS, check_installed, mesh_of, prepare
from lsar_jax.cli.console import console, print_table
from lsar_jax.files import write_text

__all__ = ["SMALL", "Aot"]

TargetName = Literal["v5e", "v5e-2x2", "v5e-16x16", "v6e", "h200"]

# Two blocks, and decompositions that compile fast.
SMALL = Sizes(blocks=2, dim=128, languages=8)

# The rows at published sizes.
_PUBLISHED = Path(__file__).with_name("published.jsonl")


@dataclass(frozen=True)
class Aot:
    """Compiles programs for devices that need not be there, and prints what they take on each device.

    Attributes:
      targets: devices to compile for, one or several of a kind.
      programs: beginnings of the names of programs; by default, all.
      small: two blocks and narrow embeddings instead of the published sizes, which compile in seconds.
      out: file to add the rows to, as JSON lines; programs that are in it are not compiled again.
      check: file of rows to compare with; without --programs, only programs in it are compiled.
      page: file to write the page of the published sizes to, from the rows that come with the code, instead.
    """

    targets: tuple[TargetName, ...] = ("v5e", "v5e-2x2", "v5e-16x16", "v6e", "h200")
    programs: tuple[str, ...] = ()
    small: bool = False
    out: Path | None = None
    check: Path | None = None
    page: Path | None = None

    def run(self) -> list[Row]:
        """Compiles, prints the table and returns its rows.

        Raises:
          ImportError: a compiler is not installed.
          FileNotFoundError: there is no file ``--check``.
          ValueError: no program has such a name, a file is damaged, or a program is worse than before.
        """
        if self.page is not None:
            write_text(self.page, programs_page(read_rows(_PUBLISHED).values()))
            return []
        if self.check is not None and self.out is not None:
            raise ValueError("--check compiles anew, and --out keeps what is compiled; give one of them")
        before, done = self._rows(self.check), {}
        if self.out is not None and self.out.exists():
            done = self._rows(self.out)
        chosen = list(self._chosen(before))
        names = {(name, target) for target, name, _ in chosen}
        wrong = [
            f"{name} on {target} is in {self.check}, but is no program any more"
            for name, target in before
            if target in self.targets and not self.programs and (name, target) not in names
        ]
        for target in self.targets:
            check_installed(target)
        prepare()
        rows = []
        for target, name, trace in chosen:
            row = done.get((name, target))
            if row is None:
                try:
                    row = self._compiled(target, name, trace)
                except RuntimeError as error:
                    why = (str(error).splitlines() or ["no message"])[0]
                    wrong.append(f"{name} on {target} does not compile: {why}")
                    continue
            rows.append(row)
            wrong += worse(row, before.get((name, target)), TARGETS[target])
        _print(rows)
        if self.check is not None:
            console.print(f"compared {len(rows)} programs with {self.check}")
        for line in wrong:
            console.print(line)
        if wrong:
            raise ValueError(f"{len(wrong)} programs failed, as listed above")
        return rows

    @property
    def _sizes(self) -> str:
        return "small" if self.small else "published"

    def _rows(self, path: Path | None) -> dict[tuple[str, str], Row]:
        rows = {} if path is None else read_rows(path)
        if other := next((row.sizes for row in rows.values() if row.sizes != self._sizes), None):
            raise ValueError(f"{path} has programs of {other} sizes; these are {self._sizes}, by --small")
        return rows

    def _chosen(self, before: Mapping[tuple[str, str], Row]) -> Iterator[tuple[TargetName, str, Trace]]:
        sizes = SMALL if self.small else Sizes()
        known = {target: programs(sizes, TARGETS[target].devices) for target in self.targets}
        every = dict.fromkeys(name for names in known.values() for name in names)
        for beginning in self.programs:
            if not any(name.startswith(beginning) for name in every):
                raise ValueError(f"--programs has {beginning}; choose from {', '.join(every)}")
        for target, names in known.items():
            if before and not any(where == target for _, where in before):
                raise ValueError(f"{self.check} has no programs on {target}; leave it out of --targets")
            for name, trace in names.items():
                asked = name.startswith(self.programs) if self.programs else (name, target) in before or not before
                if asked:
                    yield target, name, trace

    def _compiled(self, target: TargetName, name: str, trace: Trace) -> Row:
        started = time.perf_counter()
        row = measured(name, target, TARGETS[target], trace(mesh_of(TARGETS[target])), self._sizes)
        console.print(f"{target}: {name}, compiled in {time.perf_counter() - started:.1f} s")
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with self.out.open("a", encoding="utf-8") as file:
                file.write(row.line() + "\n")
        return row


def _print(rows: list[Row]) -> None:
    columns = ["", "kernels", "TFLOP", "GB moved", "GB", "ms by FLOPs", "ms by traffic", "collectives"]
    for target in dict.fromkeys(row.target for row in rows):
        lines = [[row.program, *row.cells()] for row in rows if row.target == target]
        print_table(f"Each device of {target}", columns, lines)
