"""The page of all programs, ``docs/reference/programs.md``."""

from collections.abc import Iterable

from eval.aot.row import Row
from eval.aot.targets import TARGETS

__all__ = ["programs_page"]

_TOP = """# What every program needs

XLA's own compilers for TPU and GPU ran without a device, on a CPU; this is what they made of the programs of the
library. Nothing on this page was run on a TPU or GPU; what was is in [Speed](../explanation/speed.md). Each row is a
program at its published sizes: encoders are XLM-R's shapes (base and large) and LASER's, a call has 32,768 token
positions on each device, embeddings have width 768 and come from 37 languages, a search has 20,480 queries and 131,072
candidates.

The columns are what one device does. *Kernels* are what runs by itself; *+* marks a loop that runs as often as its data
ask, and is counted once. *TFLOP* are the operations of the matrix products, without those inside a decomposition. *GB
moved* is what kernels read and write in the main memory of the device, as if it had no cache; *GB* is the memory that
the program needs. The two times are those of the operations and of the traffic at the peaks that the makers publish.
A call of NVIDIA's libraries is one kernel, and XLA chooses tiles only on a device.

One program is not listed: at `align/strong/large/16` for `v6e`, the compiler (libtpu 0.0.42.1) overflows its stack.
Some steps of alignment are older than the training code by a few changes: `l2` and `weak` on `v5e-2x2`, all but
`strong` on `v5e-16x16`, `base/64` and `large` on `v5e`, and three with `base/16` on `v6e` (`weak`, `strong` and
`sentence`). On one device, those that were compiled again move and need the same. `.ci/run` compiles 50 programs with
two blocks for all of the devices; none of them is a step of alignment, as the smallest takes two minutes to compile.

Encoding on several devices needs no collectives, and a device does there what it does alone. Fits and transforms of
arrays run on one device.

```sh
python -m eval aot --out results/programs.jsonl   # with the aot extra, in an environment of its own
python -m eval aot --page docs/reference/programs.md
```

The rows are in `eval/aot/published.jsonl`, which the second command reads; those of `.ci/run` are in
`eval/aot/small.jsonl`.
"""


def programs_page(rows: Iterable[Row]) -> str:
    """Returns the page as Markdown."""
    rows = list(rows)
    by_target = {name: [row for row in rows if row.target == name] for name in TARGETS}
    return "\n".join([_TOP, *(_section(name, some) for name, some in by_target.items() if some)])


def _section(name: str, rows: list[Row]) -> str:
    target = TARGETS[name]
    devices = "one device" if target.devices == 1 else f"each of {target.devices} devices"
    lines = [
        f"## {name}: {devices}",
        "",
        f"{target.memory / 1e9:.1f} GB of memory, {target.bandwidth / 1e12:.2f} TB/s, "
        f"{target.peaks['bfloat16'] / 1e12:.0f} TFLOP/s in bfloat16 and {target.peaks['float32'] / 1e12:.0f} in "
        f"float32. Compiled by {'; '.join(sorted({row.versions for row in rows}))}.",
        "",
    ]
    several = target.devices > 1
    columns = ["program", "kernels", "TFLOP", "GB moved", "GB", "ms by FLOPs", "ms by traffic"]
    columns += ["collectives"] * several
    lines += [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (6 + several)}"]
    lines += [f"| {' | '.join([f'`{row.program}`', *row.cells()][: 7 + several])} |" for row in rows]
    return "\n".join([*lines, ""])
