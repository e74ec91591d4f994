"""Speed of search and mining compared with faiss's exact index, or with PyTorch on a GPU, in the same run.

    pip install faiss-cpu
    python -m eval searchbench

The vectors are random, of unit length. faiss searches its flat index of inner products, on as many threads as it
chooses. On a GPU, for which this faiss is not built, the peer is PyTorch: the products of 4,096 queries with all
candidates, in float32, and ``topk``. The peer's neighbours are compared with ours. Mining reads both directions from
one pass of products; beside it stand two searches. The lower bound is the time of the products alone, at the measured
rate of a product whose result stays in the cache. In bfloat16, the share of the neighbours of float32 that are found
is printed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from eval.speed.peer import import_torch
from eval.speed.timing import HERE, Measured, times
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.option_checks import at_least
from lsar_jax.mining import mine
from lsar_jax.retrieval import nearest

__all__ = ["SearchBench"]

# Queries and candidates of the product whose rate is measured; a GPU takes longer to launch one of the first size.
_PRODUCT, _GPU_PRODUCT = (1024, 2048), (4096, 16384)
# Queries of a product of PyTorch: with 1,024, an H100 took 4% longer.
_TORCH_ROWS = 4096

_Vectors = Float[np.ndarray, "row dim"]
# The name of a peer, and what returns the scores and ids of the k nearest of each query.
_Peer = tuple[str, Callable[[int], Any]]


@dataclass(frozen=True)
class SearchBench:
    """Times exact search and margin mining.

    Attributes:
      queries: number of queries, and of sources to mine from.
      candidates: number of candidates, and of targets to mine from.
      dim: width of the vectors.
      k: numbers of neighbours.
      repeats: number of timed runs; the fastest counts.
    """

    queries: int = 20_480
    candidates: int = 98_304
    dim: int = 384
    k: tuple[int, ...] = (1, 4, 16)
    repeats: int = 2

    def run(self) -> list[Measured]:
        """Times both, prints the tables and returns the times."""
        at_least(1, queries=self.queries, candidates=self.candidates, dim=self.dim, repeats=self.repeats)
        rng = np.random.default_rng(0)
        queries, candidates = (_random(rng, n, self.dim) for n in (self.queries, self.candidates))
        on_device = jnp.asarray(queries), jnp.asarray(candidates)
        name, find = _torch(queries, candidates) if jax.default_backend() == "gpu" else _faiss(queries, candidates)
        bound = 2.0 * self.queries * self.candidates * self.dim / _rate(*on_device)
        rows: list[list[str | float]] = []
        measured: list[Measured] = []
        work = f"{self.queries} queries"
        for k in self.k:
            peer, (_, theirs) = self._timed(partial(find, k))
            ours, (_, found) = self._timed(partial(nearest, *on_device, k))
            half, (_, less) = self._timed(partial(nearest, *on_device, k, precision="bfloat16"))
            same, recall = (_shared(found, other) for other in (theirs, less))
            rows.append([f"k = {k}", ours, peer, peer / ours, bound / ours, 100 * same, half, 100 * recall])
            measured += [
                Measured(f"k = {k}", HERE, ours, work, 100 * bound / ours),
                Measured(f"k = {k}", name, peer, work, 100 * bound / peer),
                Measured(f"k = {k}", f"{HERE}, bfloat16", half, work),
            ]
        console.print(f"products alone: {bound:.2f} s at the rate of a product of {' x '.join(map(str, _product()))}")
        columns = [
            "",
            "s",
            f"{name}, s",
            f"{name} / ours",
            "products / ours",
            f"same as {name}, %",
            "bfloat16, s",
            "recall, %",
        ]
        title = f"{self.queries} x {self.candidates} x {self.dim}, {jax.devices()[0].device_kind}"
        print_table(title, columns, rows)
        once, _ = self._timed(lambda: mine(*on_device).score)
        twice, _ = self._timed(lambda: (nearest(*on_device, 4), nearest(*on_device[::-1], 4)))
        console.print(f"mining with k = 4: {once:.2f} s; two searches, without choosing pairs: {twice:.2f} s")
        return [*measured, Measured("mining, k = 4", HERE, once, work, 100 * bound / once)]

    def _timed(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Returns the seconds of the fastest run, after one that may compile, and the result."""
        result = jax.block_until_ready(call())
        return min(times(lambda: jax.block_until_ready(call()), self.repeats)), jax.tree.map(np.asarray, result)


def _random(rng: np.random.Generator, rows: int, dim: int) -> Float[np.ndarray, "row dim"]:
    x = rng.standard_normal((rows, dim), np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _faiss(queries: _Vectors, candidates: _Vectors) -> _Peer:
    try:
        import faiss
    except ImportError as error:
        raise ImportError("faiss is not installed: pip install faiss-cpu") from error
    console.print(f"faiss {faiss.__version__} on {faiss.omp_get_max_threads()} threads")
    index = faiss.IndexFlatIP(candidates.shape[1])
    index.add(candidates)
    return "faiss", partial(index.search, queries)


def _torch(queries: _Vectors, candidates: _Vectors) -> _Peer:
    torch, device = import_torch()
    left, right = (torch.from_numpy(x).to(device) for x in (queries, candidates))

    def find(k: int) -> tuple[np.ndarray, ...]:
        found = [torch.topk(some @ right.T, k) for some in left.split(_TORCH_ROWS)]
        return tuple(torch.cat(parts).cpu().numpy() for parts in zip(*found, strict=True))  # waits for the device

    return "torch", find


def _product() -> tuple[int, int]:
    return _GPU_PRODUCT if jax.default_backend() == "gpu" else _PRODUCT


def _rate(queries: Float[jax.Array, "query dim"], candidates: Float[jax.Array, "candidate dim"]) -> float:
    """Returns the FLOP/s of a product of queries and candidates."""
    rows, columns = _product()
    x, y = queries[:rows], candidates[:columns]
    product = jax.jit(lambda x, y: jnp.matmul(x, y.T, precision=jax.lax.Precision.HIGHEST))
    product(x, y).block_until_ready()
    return 2.0 * len(x) * len(y) * x.shape[1] / min(times(lambda: product(x, y).block_until_ready(), 20))


def _shared(found: np.ndarray, other: np.ndarray) -> float:
    """Returns the share of the neighbours in one array, ``[query, k]``, that are in the same row of another."""
    pairs = zip(found, other, strict=True)
    return sum(len(np.intersect1d(ours, theirs)) for ours, theirs in pairs) / found.size
