"""Search among candidates of which each of several processes holds a part."""

import hashlib
import inspect
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.arrays import check_floats
from lsar_jax.checks import whole_number
from lsar_jax.processes import check_alike, gather, share
from lsar_jax.retrieval.search import nearest
from lsar_jax.shapes import AnyArray

__all__ = ["nearest_over_processes"]


def nearest_over_processes(
    queries: Float[AnyArray, "query dim"], candidates: Float[AnyArray, "candidate dim"], k: int = 1, **options: Any
) -> tuple[Float[np.ndarray, "query k"], Int[np.ndarray, "query k"]]:
    """Finds the nearest candidates of all processes, as ``nearest`` does for one; every process must call this.

    Each process searches its own candidates, on its own devices, and the lists of the best are merged: between the
    processes go 12 bytes for each neighbour of each query, which every process holds of all others while it merges.

    Args:
      queries: ``[query, dim]``, the same in all processes.
      candidates: ``[candidate, dim]``, this process's own; there may be none.
      k: number of neighbours, at most the number of candidates of all processes.
      **options: of ``nearest``, alike in all processes but for ``mesh``, devices of this process.

    Returns:
      Scores ``[query, k]`` in float32, and int64 indices ``[query, k]`` into the candidates of process 0, followed by
      those of process 1, and so on. Ties go to the lower index.

    Raises:
      ConnectionError: another process has ended.
      ValueError: as for ``nearest``; or the processes have other queries or options.

    Example:
      >>> english = np.random.default_rng(0).normal(size=(100, 16))
      >>> own = english[lj.processes.own_rows(len(english))]
      >>> lj.retrieval.nearest_over_processes(english[[7, 42]], own)[1].ravel().tolist()
      [7, 42]
    """
    # A process without candidates does not call nearest, which refuses options that it does not have.
    given = inspect.signature(nearest).bind(queries, candidates, k, **options)
    given.apply_defaults()
    check_floats("queries", queries)
    digest = hashlib.sha256(np.ascontiguousarray(queries).tobytes()).hexdigest()
    check_alike("the queries", f"{np.shape(queries)} {digest}")
    alike = [(name, value) for name, value in given.arguments.items() if name not in ("queries", "candidates", "mesh")]
    check_alike("the options", f"{alike} {np.shape(candidates)[1:]}")
    counts = [int.from_bytes(count, "little") for count in gather(len(candidates).to_bytes(8, "little"))]
    k = whole_number("k", k, 1, sum(counts), "the candidates of all processes")
    scores, ids = np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
    if len(candidates):
        best = nearest(queries, candidates, min(k, len(candidates)), **options)
        scores, ids = np.asarray(best[0]), np.asarray(best[1]) + np.int64(sum(counts[: share()[0]]))
    all_scores, all_ids = (np.concatenate(_of_all(lists), axis=1) for lists in (scores, ids))
    # Stable: the lists are in the order of the candidates.
    order = np.argsort(-all_scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(all_scores, order, axis=1), np.take_along_axis(all_ids, order, axis=1)


def _of_all(lists: np.ndarray) -> list[np.ndarray]:
    """Returns the lists ``[query, _]`` of each process."""
    parts = [np.frombuffer(part, lists.dtype) for part in gather(np.ascontiguousarray(lists).tobytes())]
    return [part.reshape(len(lists), len(part) // max(1, len(lists))) for part in parts]
