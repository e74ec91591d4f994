"""The page of all programs, ``docs/reference/programs.md``."""

from collections.abc import Iterable

from eval.aot.row import Row
from eval.aot.targets import TARGETS

__all__ = ["programs_page"]


def programs_page(page: str, rows: Iterable[Row]) -> str:
    """Replaces the sections of the page, one a target; the text before the first stays."""
    by_target: dict[str, list[Row]] = {name: [] for name in TARGETS}
    for row in rows:
        by_target[row.target].append(row)
    sections = [_section(name, some) for name, some in by_target.items() if some]
    return "\n".join([page.partition("\n## ")[0], *sections])


def _section(name: str, rows: list[Row]) -> str:
    target, peaks = TARGETS[name], TARGETS[name].peaks
    devices = "one device" if target.devices == 1 else f"each of {target.devices} devices"
    lines = [
        f"## {name}: {devices}", "",
        f"{peaks.memory / 1e9:.1f} GB of memory, {peaks.bandwidth / 1e12:.2f} TB/s, "
        f"{peaks.bfloat16 / 1e12:.0f} TFLOP/s in bfloat16 and {peaks.float32 / 1e12:.0f} in "
        f"float32. Compiled by {'; '.join(sorted({row.versions for row in rows}))}.", "",
    ]  # fmt: skip
    several = target.devices > 1
    columns = ["program", "kernels", "TFLOP", "GB moved", "GB", "ms by FLOPs", "ms by traffic"]
    columns += ["collectives"] * several
    lines += [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (6 + several)}"]
    lines += [f"| {' | '.join([f'`{row.program}`', *row.cells()][: 7 + several])} |" for row in rows]
    return "\n".join([*lines, ""])
