"""Runs every evaluation whose data is available, and writes a page of the results.

    python -m eval all --profile small

Each task writes to its own folder, and is skipped if that folder already has results from the same options and version.
Tasks without data are listed at the end, together with where to get their data.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from eval.methods import ALL_METHODS, MethodName
from eval.report.page import Report
from eval.studies.curve import Curve
from eval.task import Task
from eval.tasks.amazon import Amazon
from eval.tasks.bitext import Bitext
from eval.tasks.bucc import Bucc
from eval.tasks.code_switch import CodeSwitch
from eval.tasks.geometry import Geometry
from eval.tasks.lareqa import Lareqa
from eval.tasks.pool import Pool
from eval.tasks.sts17 import Sts17
from eval.tasks.tatoeba import Tatoeba
from eval.tasks.udhr import Udhr
from lsar_jax import __version__, load_encoder
from lsar_jax.files import write_text
from train.console import console

__all__ = ["Suite", "already_run"]

_SMALL: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")


@dataclass(frozen=True)
class Suite:
    """Runs every task whose data is available, and writes the report.

    Attributes:
      profile: small compares four methods; full compares ten, and adds geometry and curve with their figures.
      encoder: bundled, a preset, a folder, or a Hub id.
      layers: hidden-state layers to test.
      data: folder that contains tatoeba, xquad-r, mlqa-r, sts17, bucc2018, bucc-made, bitext, dictionaries and amazon.
      out: folder for the results, with a subfolder for each encoder and task.
      max_length: maximum number of tokens per sentence.
    """

    profile: Literal["small", "full"] = "small"
    encoder: str = "bundled"
    layers: tuple[int, ...] = (8, 12)
    data: Path = Path("data")
    out: Path = Path("results/all")
    max_length: int = 128

    def run(self) -> None:
        """Runs the tasks, lists those without data, and writes ``report.md`` and ``report.html``.

        Raises:
          ValueError: a task failed; raised after all other tasks have run.
        """
        missing: list[str] = []
        failed: list[str] = []
        # Load the encoder first, so that a failure here is not reported as missing data.
        load_encoder(self.encoder, layer=max(self.layers))
        for name, task in self.tasks():
            if already_run(task):
                console.print(f"{name}: skipped, the results are already in {task.out}")
                continue
            console.print(f"{name}:")
            (task.out / "run.json").unlink(missing_ok=True)
            try:
                task.run()
            except FileNotFoundError as error:
                missing.append(f"{name}: {error}")
            except (ValueError, ImportError, OSError) as error:
                # The other tasks still run.
                failed.append(f"{name}: {error}")
            else:
                _record(task)
        if any(self.out.rglob("results.jsonl")):
            Report(self.out).run()
        for why in missing:
            console.print(f"not run: {why}")
        if failed:
            raise ValueError("; ".join(failed))

    def tasks(self) -> Sequence[tuple[str, Task]]:
        """Returns the name of every task, and the task with its options."""
        shared: dict[str, Any] = {
            "encoder": self.encoder,
            "layers": self.layers,
            "max_length": self.max_length,
            "transforms": _SMALL if self.profile == "small" else ALL_METHODS,
        }
        place = {name: {"data": self.data / name} for name in
                 ("tatoeba", "xquad-r", "mlqa-r", "sts17", "bucc2018", "bucc-made", "bitext", "amazon")}  # fmt: skip
        words = {"dictionaries": self.data / "dictionaries"}
        tasks: list[tuple[str, type[Task], dict[str, Any]]] = [
            ("udhr", Udhr, {"ranks": ()}),
            ("pool", Pool, {}),
            ("tatoeba", Tatoeba, place["tatoeba"]),
            ("tatoeba-evaluated", Tatoeba, place["tatoeba"] | {"fit_on": "evaluated"}),
            ("xquad-r", Lareqa, place["xquad-r"]),
            ("mlqa-r", Lareqa, place["mlqa-r"]),
            ("sts17", Sts17, place["sts17"]),
            ("bucc2018", Bucc, place["bucc2018"]),
            ("bucc-made", Bucc, place["bucc-made"]),
            ("bitext", Bitext, place["bitext"]),
            ("code-switch", CodeSwitch, place["tatoeba"] | words),
            ("amazon", Amazon, place["amazon"]),
        ]
        if self.profile == "full":
            xquad = self.data / "xquad-r"
            tasks.append(("geometry", Geometry, {"xquad": xquad if xquad.is_dir() else None}))
            tasks.append(("curve", Curve, place["tatoeba"] | {"bitext": self.data / "bitext"}))
        out = self.out / Path(self.encoder.replace("/", "-") if not Path(self.encoder).is_dir() else self.encoder).name
        return [(name, task(**shared, **own, out=out / name)) for name, task, own in tasks]


def already_run(task: Task) -> bool:
    """Returns whether complete results from the same options and version exist."""
    record = task.out / "run.json"
    if not (task.out / "results.jsonl").is_file() or not record.is_file():
        return False
    return record.read_text(encoding="utf-8") == _options(task)


def _record(task: Task) -> None:
    write_text(task.out / "run.json", _options(task))


def _options(task: Task) -> str:
    """Returns the options and the version, with names, sizes and modification times of the input files."""
    options = {field.name: getattr(task, field.name) for field in fields(task) if field.init}
    files = {
        name: [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in _files(Path(place))]
        for name, place in options.items()
        # Skip the current folder: it contains the results too.
        if name not in ("out", "revision")
        and isinstance(place, Path | str)
        and Path(place) != Path()
        and Path(place).exists()
    }
    texts = {name: str(value) for name, value in options.items()}
    return json.dumps({"task": task.name, "version": __version__, **texts, "files": files}, indent=1)


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
