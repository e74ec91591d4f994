"""Cycles of a TPU program, and its vector operations, in the schedule that the compiler makes of each kernel.

libtpu writes down the instructions of every kernel in bundles, which begin one a cycle, and how many of them each unit
of the core takes. A loop inside a kernel counts as often as its exit test says, and once if that depends on the data;
its steps that fill or drain a pipeline count as whole ones. How long a kernel waits, such as for memory or for a
product, is not seen. A vector operation is that of one of the core's four arithmetic units, on 1,024 numbers.
"""

import os
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

__all__ = ["Schedule", "schedule_of", "write_schedules"]


class Schedule(NamedTuple):
    """Cycles of the kernels that have matrix products, those of the others, and vector operations of all."""

    products: int
    others: int
    vector_operations: int


def write_schedules(folder: Path) -> None:
    """Has libtpu write the schedules of programs into a folder; call it before anything is compiled."""
    options = f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
    os.environ["LIBTPU_INIT_ARGS"] = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {options}".strip()


def schedule_of(folder: Path, runs: Counter[str]) -> Schedule:
    """Adds up the kernels of the program in a folder, ``runs`` being how often each runs, by name."""
    total = Counter({name: 0 for name in Schedule._fields})
    for path in folder.glob("*[0-9]-final_bundles.txt"):
        found = re.fullmatch(r"(\d+-(.+))-\d+-final_bundles\.txt", path.name)
        if found is None or found[2] not in runs:
            continue
        (used,) = folder.glob(f"{found[1]}-*-final_hlo-static-per-bundle-utilization.txt")
        units, _, bundles = used.read_text().partition("== UTILIZATION:")
        names = [name.strip() for name in units.splitlines()[1].split(",")]
        table = [dict(zip(names, map(int, line.split()), strict=True)) for line in bundles.strip().splitlines()]
        times = [runs[found[2]] * count for count in _times(path.read_text())]
        products = any(bundle["MXU"] for bundle in table)
        total["products" if products else "others"] += sum(times)
        pairs = zip(table, times, strict=True)
        total["vector_operations"] += sum(bundle["VALU"] * count for bundle, count in pairs)
    return Schedule(**total)


def _times(text: str) -> list[int]:
    """How often each bundle of a kernel begins."""
    bundles = re.findall(r"^ *(?:0x[0-9a-f]+|0) .*?:.*?\{.*$", text, re.MULTILINE)
    starts = {
        name: place
        for place, line in enumerate(bundles)
        for name in re.findall(r"Start(?:/End empty)? region (\d+)", line)
    }
    times = [1] * len(bundles)
    for end, line in enumerate(bundles):
        for test, region in re.findall(r"sbr\.rel \(!?(%\w+)\) target = \$region(\d+)", line):
            start = starts.get(region, len(bundles))
            body = "\n".join(bundles[start : end + 1])
            if limit := re.search(rf"{test} = scmp\.ge\.\S+ %\w+, (\d+) /\* loop exit test \*/", body):
                times[start : end + 1] = [int(limit[1]) * count for count in times[start : end + 1]]
    return times
