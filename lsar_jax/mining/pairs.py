"""The margin of a pair over its neighbourhoods, and the pairs that are accepted by it.

As in ``retrieval.nearest``, the matrix of all pairs is never in memory.
"""

from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from lsar_jax.checks import check_choice
from lsar_jax.mesh import check_process
from lsar_jax.retrieval.plan import Precision
from lsar_jax.retrieval.search import nearest, nearest_both
from lsar_jax.shapes import AnyArray

__all__ = ["Margin", "Pairs", "Retrieval", "first_pairs", "margin_score", "mine", "pairs_of_neighbours"]

Margin = Literal["ratio", "distance", "absolute"]
Retrieval = Literal["max", "intersection", "forward", "backward"]


class Pairs(NamedTuple):
    """Pairs of sentences that may be translations of each other, best first.

    Attributes:
      source: row of each pair's source, ``[pair]``.
      target: row of each pair's target, ``[pair]``.
      score: margin of each pair, ``[pair]``.
    """

    source: Int[np.ndarray, " pair"]
    target: Int[np.ndarray, " pair"]
    score: Float[np.ndarray, " pair"]


def margin_score(
    cosine: Float[AnyArray, "*pair"], neighbourhood: Float[AnyArray, "*pair"], margin: Margin = "ratio"
) -> Float[Array, "*pair"]:
    """Returns the score of each pair, ``[...]``.

    Args:
      cosine: cosine of each pair, ``[...]``.
      neighbourhood: mean over both sentences of the mean cosine to their k nearest neighbours, ``[...]``.
      margin: ``ratio`` for the cosine divided by the neighbourhood (0 if that is not positive), ``distance`` for the
        cosine minus the neighbourhood, or ``absolute`` for the cosine itself.

    Raises:
      ValueError: the margin is unknown.

    Example:
      >>> cosine, neighbourhood = np.array([0.75, 0.75], np.float32), np.array([0.5, 0.75], np.float32)
      >>> lj.mining.margin_score(cosine, neighbourhood).tolist()
      [1.5, 1.0]
    """
    check_process()
    check_choice("margin", margin, get_args(Margin))
    cosine, neighbourhood = jnp.asarray(cosine), jnp.asarray(neighbourhood)
    if margin == "ratio":
        positive = neighbourhood > 0
        return jnp.where(positive, cosine / jnp.where(positive, neighbourhood, 1), 0)
    return cosine - neighbourhood if margin == "distance" else cosine


def mine(
    source: Float[AnyArray, "source dim"],
    target: Float[AnyArray, "target dim"],
    *,
    k: int = 4,
    margin: Margin = "ratio",
    retrieval: Retrieval = "max",
    bank: Float[AnyArray, "row dim"] | None = None,
    precision: Precision = "float32",
    mesh: Mesh | None = None,
) -> Pairs:
    """Finds pairs of rows that may be translations of each other.

    Args:
      source: embeddings of one collection, ``[source, dim]``; identical sentences should occur only once.
      target: embeddings of the other collection, ``[target, dim]``.
      k: number of nearest neighbours in each direction, at most the number of rows of the smaller collection.
      margin: how a pair is scored; see ``margin_score``.
      retrieval: ``max`` takes the best of the k neighbours of each source and of each target, and accepts these pairs
        in order of their score, unless one of the two rows is already in an accepted pair; ``intersection`` keeps the
        pairs that are the best of both rows; ``forward`` and ``backward`` keep the best pair of each source or of each
        target, so a row of the other side may occur repeatedly.
      bank: ``[row, dim]``, such as ``transform.bank``: pair each source with its first target by CSLS, each target
        once, and return all pairs with their CSLS scores; the neighbourhoods are those of ``retrieval.nearest``, ``k``
        does not apply, and another ``margin`` or ``retrieval`` is refused.
      precision: numeric precision of the products, as for ``retrieval.nearest``.
      mesh: devices that the targets are split over, as for the candidates of ``retrieval.nearest``.

    Returns:
      Pairs with a positive margin, or all by CSLS, best first; ties are ordered by source, then by target.

    Raises:
      ValueError: as for ``retrieval.nearest``, or the margin or retrieval is unknown, or given with a bank.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> english = rng.normal(size=(50, 32))
      >>> german = np.concatenate([english[[3, 8]] + 0.05, rng.normal(size=(40, 32))])  # two are translations
      >>> pairs = lj.mining.mine(german, english)
      >>> list(zip(pairs.source[:2].tolist(), pairs.target[:2].tolist()))
      [(0, 3), (1, 8)]
    """
    check_choice("margin", margin, get_args(Margin))
    check_choice("retrieval", retrieval, get_args(Retrieval))
    if bank is not None:
        if (margin, retrieval) != ("ratio", "max"):
            given = f"margin is {margin!r} and retrieval {retrieval!r}"
            raise ValueError(f"{given}, but pairs with a bank are scored by CSLS; omit both, or the bank")
        scores, first = map(np.asarray, nearest(source, target, bank=bank, precision=precision, mesh=mesh))
        return first_pairs(first[:, 0], scores[:, 0])
    forward, backward = nearest_both(source, target, k, precision=precision, mesh=mesh)
    return pairs_of_neighbours(forward, backward, margin, retrieval)


def pairs_of_neighbours(
    forward: tuple[Float[AnyArray, "source k"], Int[AnyArray, "source k"]],
    backward: tuple[Float[AnyArray, "target k"], Int[AnyArray, "target k"]],
    margin: Margin = "ratio",
    retrieval: Retrieval = "max",
) -> Pairs:
    """Returns the pairs that ``mine`` accepts, from the neighbours of both sides.

    Args:
      forward: cosines of each source to its nearest targets, best first, and their rows, ``[source, k]`` each.
      backward: cosines of each target to its nearest sources, and their rows, ``[target, k]`` each.
      margin: as for ``mine``.
      retrieval: as for ``mine``.
    """
    forward_cosine, targets, backward_cosine, sources = map(jnp.asarray, (*forward, *backward))
    best_target, forward_score = jax.device_get(_best(forward_cosine, targets, backward_cosine, margin))
    best_source, backward_score = jax.device_get(_best(backward_cosine, sources, forward_cosine, margin))
    pairs = {
        "forward": (np.arange(len(best_target)), best_target, forward_score),
        "backward": (best_source, np.arange(len(best_source)), backward_score),
    }
    if retrieval == "intersection":
        mutual = best_source[best_target] == np.arange(len(best_target))
        return _sorted(*(part[mutual] for part in pairs["forward"]))
    if retrieval == "max":
        both = (np.concatenate(parts) for parts in zip(pairs["forward"], pairs["backward"], strict=True))
        return _one_to_one(_sorted(*both))
    return _sorted(*pairs[retrieval])


def first_pairs(target: Int[np.ndarray, " source"], score: Float[np.ndarray, " source"]) -> Pairs:
    """Returns the pair of each source and its first target, best first, unless the target is in a better one."""
    order = np.argsort(-score, kind="stable")
    return _one_to_one(Pairs(order, target[order], score[order]))


@partial(jax.jit, static_argnames="margin")
def _best(
    cosine: Float[Array, "row k"], ids: Int[Array, "row k"], other: Float[Array, "column k"], margin: Margin
) -> tuple[Int[Array, " row"], Float[Array, " row"]]:
    """The neighbour of each row with the largest margin, and that margin."""
    neighbourhood = (cosine.mean(axis=1)[:, None] + other.mean(axis=1)[ids]) / 2
    score = margin_score(cosine, neighbourhood, margin)
    where = jnp.argmax(score, axis=1)[:, None]
    best, value = (jnp.take_along_axis(part, where, axis=1)[:, 0] for part in (ids, score))
    return best, value


def _sorted(
    source: Int[np.ndarray, " pair"], target: Int[np.ndarray, " pair"], score: Float[np.ndarray, " pair"]
) -> Pairs:
    """The pairs with a positive score in their order: by score, then source, then target."""
    positive = score > 0
    source, target, score = source[positive], target[positive], score[positive]
    order = np.lexsort((target, source, -score))
    return Pairs(source[order], target[order], score[order])


def _one_to_one(pairs: Pairs) -> Pairs:
    """Accepts each pair, from the best on, unless one of its rows is in a pair that was accepted before."""
    taken = [bytearray(int(rows.max(initial=-1)) + 1) for rows in pairs[:2]]
    accepted = np.zeros(len(pairs.score), bool)
    for number, (source, target) in enumerate(zip(*pairs[:2], strict=True)):
        if not (taken[0][source] or taken[1][target]):
            taken[0][source] = taken[1][target] = accepted[number] = True
    return Pairs(*(part[accepted] for part in pairs))
