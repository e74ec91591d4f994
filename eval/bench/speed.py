r"""All benchmarks of speed in one run: encoding, fits, search and heads, beside their peers.

    pip install torch sentence-transformers scikit-learn faiss-cpu
    python -m eval speed --out results/speed

On a GPU machine without network, which has no checkpoint and no text, ``--encoder random-base`` encodes random text
with random weights of the shapes of XLM-R base, and the like for other encoders. OpenVINO and ONNX Runtime ask for an
older transformers than this library, so they need an environment of their own:

    python -m venv peers
    peers/bin/pip install 'sentence-transformers[openvino,onnx]'
    python -m eval speed --benchmarks encode --peers torch openvino onnx --python peers/bin/python

A benchmark is left out if its peer or its data is missing, and the reason is printed. Every line of ``speed.jsonl`` has
the date, the device and the versions; a run of some benchmarks keeps the lines of the others.
"""

import importlib
import inspect
import json
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Literal

import jax

from eval.bench.peers.timing import HERE, Timing
from lsar_jax import __version__
from lsar_jax.checks import at_least
from lsar_jax.console.output import console, print_table
from lsar_jax.files import write_text
from lsar_jax.mesh import cpu_info

__all__ = ["Speed"]

_PACKAGES = ("jax", "jaxlib", "flax", "numpy", "torch", "transformers", "sentence-transformers", "scikit-learn",
             "faiss-cpu")  # fmt: skip


@dataclass(frozen=True)
class Speed:
    """Runs the benchmarks of speed, and prints one table.

    Attributes:
      benchmarks: which of them; growth, of mining, takes five minutes.
      encoder: bundled, or random weights, with random text, of the shapes of XLM-R base or large, Qwen3-Embedding-0.6B,
        EmbeddingGemma, mmBERT base (and ModernBERT base) or gte-multilingual-base.
      blocks: number of blocks of an encoder with random weights; by default, as many as published.
      peers: backends of sentence-transformers; openvino runs in float32, and once more in the precision that it
        chooses by itself.
      python: interpreter of the environment with sentence-transformers; by default, this one.
      sentences: number of sentences to encode.
      queries: number of queries of search; with as many as by default, a slow machine takes a quarter of an hour.
      out: folder for the JSON lines.
    """

    benchmarks: tuple[Literal["encode", "fits", "search", "heads", "growth"], ...] = (
        "encode", "fits", "search", "heads",
    )  # fmt: skip
    encoder: Literal[
        "bundled", "random-base", "random-large", "random-qwen3-0.6b", "random-embeddinggemma", "random-mmbert-base",
        "random-gte",
    ] = "bundled"  # fmt: skip
    blocks: int | None = None
    peers: tuple[Literal["torch", "openvino", "onnx"], ...] = ("torch",)
    python: Path = Path(sys.executable)
    sentences: int = 2000
    queries: int = 20_480
    out: Path = Path("results/speed")

    def run(self) -> None:
        """Runs the benchmarks, writes their rows and prints them as a table."""
        at_least(1, sentences=self.sentences, queries=self.queries, blocks=self.blocks)
        table: list[list[str]] = []
        about = _about()
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / "speed.jsonl"
        for name in self.benchmarks:
            # The function of its file takes some of the options.
            benchmark = getattr(importlib.import_module(f"eval.bench.peers.{name}"), name)
            options = vars(self).keys() & inspect.signature(benchmark).parameters
            try:
                rows = list(benchmark(**{option: getattr(self, option) for option in options}))
            except (ImportError, FileNotFoundError, ValueError) as error:
                console.print(f"left out {name}: {error}")
                continue
            table += _cells(name, rows)
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            lines = [line for line in lines if json.loads(line)["benchmark"] != name]
            lines += [json.dumps({"benchmark": name} | row._asdict() | about) for row in rows]
            write_text(path, "".join(f"{line}\n" for line in lines))
        console.print(f"{about['date']}, {about['device']}, {about['processor']}: {about['versions']}")
        columns = ["", "version", "s", "for", "x the time of lsar_jax", "bound, % of it", "answer"]
        print_table("Time, and that of lsar_jax for the same", columns, table)


def _about() -> dict[str, Any]:
    installed = {distribution.name: distribution.version for distribution in distributions()}
    versions = [f"lsar_jax {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{package} {installed[package]}" for package in _PACKAGES if package in installed]
    devices, names = jax.devices(), cpu_info("model name")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{len(devices)} x {devices[0].device_kind}",
        "processor": f"{len(names)} x {names[0]}" if names else platform.processor(),
        "versions": ", ".join(versions),
    }


def _cells(benchmark: str, rows: list[Timing]) -> list[list[str]]:
    ours = {row.case: row.seconds for row in rows if row.version == HERE}
    return [
        [
            f"{benchmark}: {row.case}", row.version, f"{row.seconds:.3g}", row.work,
            f"{row.seconds / ours[row.case]:.2f}" if row.case in ours else "",
            "" if row.share is None else f"{row.share:.0f}", row.answer,
        ]
        for row in rows
    ]  # fmt: skip
