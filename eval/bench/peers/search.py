"""Search and mining beside faiss's exact index, or PyTorch on a GPU.

The vectors are random, of unit length. faiss searches its flat index of inner products, on as many threads as it
chooses. On a GPU, for which this faiss is not built, the peer is PyTorch: the products of 4,096 queries with all
candidates, in float32, and ``topk``. The answer is the share of our neighbours in float32 that a version finds; CSLS
ranks otherwise, from ten results on, by candidates that are scaled once against a bank of 2,048. Mining reads both
directions from one pass. The bound is the time of the products alone, at the measured rate of a product
whose result stays in the cache.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from eval.bench.peers.timing import HERE, Timing, fastest, import_torch, product_rate
from lsar_jax.mining import mine
from lsar_jax.retrieval import local_scale, nearest
from lsar_jax.retrieval.search import scaled_sides

__all__ = ["search"]

# Queries of a product of PyTorch: with 1,024, an H100 took 4% longer.
_TORCH_ROWS = 4096

_Vectors = Float[np.ndarray, "row dim"]
# The name of a peer, and the function that gives the scores and ids of the k nearest of each query.
_Peer = tuple[str, Callable[[int], Any]]


def search(
    queries: int = 20_480, candidates: int = 98_304, dim: int = 384, k: Sequence[int] = (1, 4, 16), repeats: int = 2
) -> Iterator[Timing]:
    """Times exact search for each k, and margin mining."""
    rng = np.random.default_rng(0)
    sides = [rng.standard_normal((count, dim), np.float32) for count in (queries, candidates)]
    x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in sides)
    on_gpu = jax.default_backend() == "gpu"
    name, find = _torch(x, y) if on_gpu else _faiss(x, y)
    # A GPU takes longer to launch a product of the first size.
    rows, columns = (4096, 16_384) if on_gpu else (1024, 2048)
    bound = 2.0 * queries * candidates * dim / product_rate((min(rows, queries), dim, min(columns, candidates)))
    work, half = f"{queries} queries", f"{HERE}, bfloat16"
    ours = jnp.asarray(x), jnp.asarray(y)
    scaled = scaled_sides(*ours, ours[1][:2048])
    for count in k:
        calls = {
            HERE: partial(nearest, *ours, count),
            name: partial(find, count),
            half: partial(nearest, *ours, count, precision="bfloat16"),
            f"{HERE}, CSLS": partial(nearest, *scaled, max(count, 10), metric="dot"),
        }
        seconds, results = fastest(calls, repeats)
        _, expected = results[HERE]
        for version, (_, ids) in results.items():
            share = None if version == half else 100 * bound / seconds[version]
            found = np.asarray(ids)[:, :count]
            answer = f"{_shared(np.asarray(expected), found):.1%} of the neighbours"
            yield Timing(f"k = {count}", version, seconds[version], work, share, answer)
    seconds, _ = fastest({HERE: partial(local_scale, ours[1], ours[1][:2048])}, repeats)
    yield Timing("local scale of the candidates", HERE, seconds[HERE], f"{candidates} candidates")
    seconds, _ = fastest({HERE: lambda: mine(*ours).score}, repeats)
    yield Timing("mining, k = 4", HERE, seconds[HERE], work, 100 * bound / seconds[HERE])


def _faiss(queries: _Vectors, candidates: _Vectors) -> _Peer:
    index = importlib.import_module("faiss").IndexFlatIP(candidates.shape[1])
    index.add(candidates)
    return "faiss", partial(index.search, queries)


def _torch(queries: _Vectors, candidates: _Vectors) -> _Peer:
    torch, device = import_torch()
    left, right = (torch.from_numpy(x).to(device) for x in (queries, candidates))

    def find(k: int) -> tuple[np.ndarray, ...]:
        found = [torch.topk(rows @ right.T, k) for rows in left.split(_TORCH_ROWS)]
        return tuple(torch.cat(parts).cpu().numpy() for parts in zip(*found, strict=True))  # waits for the device

    return "torch", find


def _shared(expected: np.ndarray, ids: np.ndarray) -> float:
    """The share of the neighbours in one array, ``[query, k]``, that are in the same row of another."""
    pairs = zip(expected, ids, strict=True)
    return sum(len(np.intersect1d(ours, theirs)) for ours, theirs in pairs) / expected.size
