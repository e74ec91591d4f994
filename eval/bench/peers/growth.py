"""Mining of more and more random vectors, as ``lsar-jax mine`` does it, each number in a process that only mines.

Seconds are of the processor (user and system), which other programs of a machine prolong little. The bound is the
time of the products alone, by the seconds of the processor that a product of two chunks takes, whose result is written
to memory. The answer is the largest memory of the process, before and after.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from eval.bench.peers.timing import HERE, Timing
from lsar_jax.corpora.records import Record, Source
from lsar_jax.embeddings import open as open_folder
from lsar_jax.embeddings.manifest import Job, Manifest, Shard
from lsar_jax.embeddings.shards import as_jsonl, write_shard
from lsar_jax.files import text_sha256
from lsar_jax.mining import mine_folders
from lsar_jax.retrieval.plan import chunk_for
from lsar_jax.retrieval.scan import products
from lsar_jax.spec import EncoderSpec

__all__ = ["growth"]

_SIZES = ((10_000, 10_000), (100_000, 100_000), (15_625, 1_000_000))  # the last is a 64th of 10^6 sources
_ROWS, _PRODUCTS = 65_536, 50


def growth(sizes: Sequence[tuple[int, int]] = _SIZES, dim: int = 64) -> Iterator[Timing]:
    """Mines numbers of sources and targets."""
    for sources, targets in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            yield pool.submit(_mined, sources, targets, dim).result()


def _mined(sources: int, targets: int, dim: int) -> Timing:
    with TemporaryDirectory() as name:
        sides = [_made(Path(name, side), count, dim) for side, count in (("x", sources), ("y", targets))]
        chunks = [jax.random.normal(jax.random.key(0), (count, dim)) for count in chunk_for("cpu", both=True)]
        product = jax.jit(lambda x, y: products(x, y, "float32"))
        each = min(_seconds(lambda: product(*chunks)) for _ in range(_PRODUCTS))
        bound, before = each * sources * targets / (len(chunks[0]) * len(chunks[1])), _peak()
        source, target = map(open_folder, sides)
        seconds = _seconds(lambda: mine_folders(source, target, Path(name, "pairs.tsv")))
    case, share = f"mining {sources:,} x {targets:,}", 100 * bound / seconds
    return Timing(case, HERE, seconds, f"vectors of width {dim}", share, f"{before:.2f} GB, {_peak():.2f}")


def _made(folder: Path, count: int, dim: int) -> Path:
    """Writes random vectors as ``lsar-jax encode`` does."""
    folder.mkdir()
    spec, shards = EncoderSpec("random", "sha256:0", 0, "mean", "float32"), []
    job = Job(spec, dim, 512, False, None, "float32", "npy", _ROWS, (folder.name,), "text", None, "cpu", "", ())
    rng = np.random.default_rng(list(folder.name.encode()))
    for number, first in enumerate(range(0, count, _ROWS)):
        rows = range(first, min(first + _ROWS, count))
        text = as_jsonl([Record(f"{folder.name} {row}", None, 0) for row in rows], first)
        files = write_shard(folder, job, number, text, rng.standard_normal((len(rows), dim), np.float32), {})
        shards.append(Shard(len(rows), files, text_sha256(text.decode()), 0, 0))
    Manifest(job, (Source(folder.name, "sha256:0", count),), tuple(shards)).write(folder)
    return folder


def _seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - start


def _peak() -> float:
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6
