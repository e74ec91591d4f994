r"""All benchmarks of speed in one run: encoding, first calls, fits, search, heads and alignment, beside their peers.

    pip install torch sentence-transformers scikit-learn faiss-cpu
    python -m eval speed --out results/speed

On a GPU machine without network, which has no checkpoint and no text, ``--encoder random-base`` encodes random text
with random weights of XLM-R's shapes. A benchmark is left out if its peer or its data is missing, and the reason is
printed. Every line of ``speed.jsonl`` has the date, the device and the versions; a run of some benchmarks keeps the
lines of the others.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import jax

from eval.speed.encoding import Bench, EncoderName, PeerName
from eval.speed.first_call import first_calls
from eval.speed.timing import HERE, Measured
from lsar_jax import __version__
from lsar_jax.cli.console import console, print_table
from lsar_jax.files import write_text
from lsar_jax.mesh import cpu_info

__all__ = ["Speed"]

Benchmark = Literal["batch", "encode", "first", "fits", "search", "heads", "align"]

_PACKAGES = ("jax", "jaxlib", "flax", "numpy", "torch", "transformers", "sentence-transformers", "scikit-learn",
             "faiss-cpu")  # fmt: skip


@dataclass(frozen=True)
class Speed:
    """Runs the benchmarks of speed, and prints one table.

    Attributes:
      benchmarks: which of them; batch, a full batch of an encoder on the device, is for accelerators, and only run if
        it is asked for.
      encoder: bundled, or one of XLM-R's sizes with random weights and random text.
      peers: backends of sentence-transformers; openvino and onnx need an environment of their own.
      python: interpreter of the environment with sentence-transformers; by default, this one.
      sentences: number of sentences to encode.
      max_length: maximum number of tokens per sentence.
      queries: number of queries of search; with as many as by default, a slow machine takes a quarter of an hour.
      words: folder of word-aligned text for align, from python -m train.word_pairs.
      out: folder for the JSON lines.
    """

    benchmarks: tuple[Benchmark, ...] = ("encode", "first", "fits", "search", "heads", "align")
    encoder: EncoderName = "bundled"
    peers: tuple[PeerName, ...] = ("torch",)
    python: Path = Bench.python
    sentences: int = 2000
    max_length: int = 128
    queries: int = 20480
    words: Path = Path("results/word-pairs")
    out: Path = Path("results/speed")

    def run(self) -> list[tuple[str, Measured]]:
        """Runs them, prints the table and returns its rows, each with the name of its benchmark."""
        calls: dict[str, Callable[[], list[Measured]]] = {
            "batch": _batch, "encode": self._encode, "first": first_calls, "fits": _fits, "search": self._search,
            "heads": _heads, "align": self._align,
        }  # fmt: skip
        rows: list[tuple[str, Measured]] = []
        about = _about()
        self.out.mkdir(parents=True, exist_ok=True)
        file = self.out / "speed.jsonl"
        for name in self.benchmarks:
            try:
                measured = calls[name]()
            except (ImportError, FileNotFoundError, ValueError) as error:
                console.print(f"left out {name}: {error}")
                continue
            rows += [(name, one) for one in measured]
            _replace_lines(file, name, [{"benchmark": name} | one._asdict() | about for one in measured])
        console.print(f"{about['date']}, {about['device']}, {about['processor']}: {about['versions']}")
        _print(rows)
        return rows

    def _encode(self) -> list[Measured]:
        bench = Bench(
            encoder=self.encoder, peers=self.peers, python=self.python, sentences=self.sentences,
            max_length=self.max_length,
        )  # fmt: skip
        try:
            return bench.run()
        except ImportError as error:
            console.print(f"left out the peers of encode: {error}")
            return replace(bench, peers=()).run()

    # Each imports its benchmark only when it runs: one that lacks a package does not keep the others from running.
    def _search(self) -> list[Measured]:
        from eval.speed.search import SearchBench

        return SearchBench(queries=self.queries).run()

    def _align(self) -> list[Measured]:
        from eval.speed.alignment import AlignBench

        return AlignBench(words=self.words).run()


def _batch() -> list[Measured]:
    from eval.speed.batch import BatchBench

    return BatchBench().run()


def _heads() -> list[Measured]:
    from eval.speed.training import HeadsBench

    return HeadsBench().run()


def _fits() -> list[Measured]:
    from eval.speed.fits import FitBench

    bench = FitBench()
    work = f"{bench.languages} x {bench.sentences} embeddings"
    measured = []
    for timing in bench.run():
        bound = max(timing.operations, timing.bytes)
        others = {HERE: timing.whole, "numpy": timing.numpy_whole, "scikit-learn": timing.sklearn_whole}
        measured += [
            Measured(timing.method, name, seconds, work, 100 * bound / seconds)
            for name, seconds in others.items()
            if seconds is not None
        ]
    return measured


def _replace_lines(file: Path, benchmark: str, results: list[dict[str, Any]]) -> None:
    kept = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    kept = [line for line in kept if json.loads(line)["benchmark"] != benchmark]
    write_text(file, "".join(f"{line}\n" for line in [*kept, *map(json.dumps, results)]))


def _about() -> dict[str, Any]:
    def one(package: str) -> str | None:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return None

    versions = [f"lsar_jax {__version__}", f"Python {platform.python_version()}", *map(one, _PACKAGES)]
    devices, names = jax.devices(), cpu_info("model name")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{len(devices)} x {devices[0].device_kind}",
        "processor": f"{len(names)} x {names[0]}" if names else platform.processor(),
        "versions": ", ".join(text for text in versions if text),
    }


def _print(rows: list[tuple[str, Measured]]) -> None:
    ours = {(name, one.case): one.seconds for name, one in rows if one.version == HERE}
    lines: list[list[str | float]] = [
        [
            f"{name}: {one.case}", one.version, f"{one.seconds:.3g}", one.work,
            f"{one.seconds / ours[name, one.case]:.2f}" if (name, one.case) in ours else "",
            "" if one.share is None else f"{one.share:.0f}",
        ]
        for name, one in rows
    ]  # fmt: skip
    columns = ["", "version", "s", "for", "x the time of lsar_jax", "bound, % of it"]
    print_table("Time, and that of lsar_jax for the same", columns, lines)
