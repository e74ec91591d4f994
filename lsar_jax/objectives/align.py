"""Losses that align an encoder on word-aligned bitext: linear mapping, L2, and weak and strong contrastive.

Wu and Dredze, "Do Explicit Alignments Robustly Improve Multilingual Encoders?", EMNLP 2020. Row i of ``source`` is the
hidden state of an English word, and row i of ``target`` that of the word it is aligned with; a batch mixes languages,
and n is the number of its links, not of its sentences.

- L2 (Eq. 3): the mean squared distance of linked states.
- Linear mapping (section 2.1): a matrix per layer and language takes the target to the source by the L2 loss, and is
  drawn towards the orthogonal matrices before each step (Conneau et al., "Word Translation Without Parallel Data",
  ICLR 2018).
- Weak (Eq. 7): the linked state is told from all states on the other side. Equation 7 lacks the minus sign.
- Strong (Eq. 8): the linked state is told from all other states of both sides.
- A regularizer keeps the parameters of the encoder close to their start (Eq. 5).

The contrastive losses compare projections (Chen et al., "A Simple Framework for Contrastive Learning of Visual
Representations", ICML 2020); the projector is trained with the encoder and then discarded. On pooled embeddings of
sentences and their translations, the same losses adapt an encoder to parallel text.

States may be bfloat16; losses are computed in float32. All functions are pure, for ``jit``, ``vmap`` and ``grad``. The
negatives are the states of all devices: under ``jit`` over a mesh, and in ``jax.shard_map`` with the name of the axis,
where a device has the scores of its own links only, and gradients are taken outside. More than 2^24 scores are computed
in blocks, and once more for the gradient; over a mesh that needs ``shard_map``, as under ``jit`` devices would exchange
states in each block. Gradients are finite at zero states and at zero drift.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.arrays import product
from lsar_jax.objectives.cosine import unit

__all__ = [
    "Projector", "init_projector", "l2_loss", "orthogonalize", "parameter_drift", "project", "strong_contrastive_loss",
    "weak_contrastive_loss",
]  # fmt: skip

Linked = Float[Array, "link dim"]
Valid = Bool[Array, " link"]

# The score of what is not to be found; its exponential is 0.
_EXCLUDED = -1e6
# The largest number of scores of a block: 67 MB in float32, half of the fast memory of a v5e core.
_SCORES = 2**24


class Projector(NamedTuple):
    """Two linear maps without bias and a ReLU between them, shared by both sides.

    Attributes:
      inner: ``[dim, dim]``.
      outer: ``[out, dim]``.
    """

    inner: Float[Array, "dim dim"]
    outer: Float[Array, "out dim"]


def init_projector(key: Array, dim: int, out: int = 128) -> Projector:
    """Returns a random projector of states of width ``dim``, uniform in ``+-1 / sqrt(dim)`` as in PyTorch."""
    bound = dim**-0.5
    inner, outer = jax.random.split(key)
    return Projector(
        jax.random.uniform(inner, (dim, dim), jnp.float32, -bound, bound),
        jax.random.uniform(outer, (out, dim), jnp.float32, -bound, bound),
    )


def project(projector: Projector, x: Float[Array, "vector dim"]) -> Float[Array, "vector out"]:
    """Returns ``relu(x inner^T) outer^T``, ``[vector, out]``, for x ``[vector, dim]``."""
    return product(jax.nn.relu(product(_wide(x), projector.inner.T)), projector.outer.T)


def l2_loss(
    source: Linked, target: Linked, valid: Valid | None = None, *, axis_name: str | None = None
) -> Float[Array, ""]:
    """Returns the mean of ``||s_i - t_i||^2`` over links (Eq. 3).

    Args:
      source: states of the source words, ``[link, dim]``.
      target: states of the words that they are aligned with, ``[link, dim]``.
      valid: whether a row is a link rather than padding, ``[link]``; by default, all are.
      axis_name: the axis of ``jax.shard_map`` that the links are split over; by default, all links are given.
    """
    return _mean(jnp.square(_wide(source) - _wide(target)).sum(axis=1), _valid(source, valid), axis_name)


def weak_contrastive_loss(
    source: Linked, target: Linked, valid: Valid | None = None, temperature: float = 0.1, *,
    axis_name: str | None = None,
) -> Float[Array, ""]:  # fmt: skip
    """Returns the cross-entropy of finding t_i among all t, and s_i among all s, by cosine (Eq. 7, negated).

    It is the mean of both directions and of all links, in nats: near 0 at best, and ``log(n)`` if all states are alike.

    Args:
      source: projected states of the source words, or embeddings of sentences, ``[link, dim]``.
      target: projected states of the words that they are aligned with, or embeddings of translations, ``[link, dim]``.
      valid: as for ``l2_loss``, ``[link]``.
      temperature: T, which divides the cosines.
      axis_name: as for ``l2_loss``.
    """
    valid = _valid(source, valid)
    source, target = unit(_wide(source)), unit(_wide(target))
    if axis_name is None and len(source) * len(target) <= _SCORES:
        scores = product(source, target.T) / temperature
        right = jnp.diagonal(scores)
        forward = jax.nn.logsumexp(jnp.where(valid[None, :], scores, _EXCLUDED), axis=1) - right
        backward = jax.nn.logsumexp(jnp.where(valid[:, None], scores, _EXCLUDED), axis=0) - right
    else:
        sources, targets, counted, right = _of_all_devices((source, target, valid), axis_name)
        forward = _entropies(source, targets, counted, right, temperature)
        backward = _entropies(target, sources, counted, right, temperature)
    return _mean((forward + backward) / 2, valid, axis_name)


def strong_contrastive_loss(
    source: Linked, target: Linked, valid: Valid | None = None, temperature: float = 0.1, *,
    axis_name: str | None = None,
) -> Float[Array, ""]:  # fmt: skip
    """Returns the cross-entropy of finding the linked state among the other ``2 n - 1`` of both sides (Eq. 8).

    The arguments are as in ``weak_contrastive_loss``, both sides ``[link, dim]``. In nats: near 0 at best, and
    ``log(2 n - 1)`` if all states are alike.
    """
    valid = _valid(source, valid)
    source, target = unit(_wide(source)), unit(_wide(target))
    sources, targets, counted, first = _of_all_devices((source, target, valid), axis_name)
    second = len(sources) + first
    losses = _entropies(
        jnp.concatenate([source, target]),
        jnp.concatenate([sources, targets]),
        jnp.concatenate([counted, counted]),
        jnp.concatenate([second, first]),
        temperature,
        itself=jnp.concatenate([first, second]),
    )
    return _mean(losses, jnp.concatenate([valid, valid]), axis_name)


def orthogonalize(maps: Float[Array, "*maps dim dim"], beta: float = 0.01) -> Float[Array, "*maps dim dim"]:
    """Returns ``(1 + beta) W - beta W W^T W``, which draws W towards the nearest orthogonal matrix.

    Args:
      maps: W, ``[dim, dim]``, or several, ``[..., dim, dim]``.
      beta: size of the step, from 0 to 1.

    Example:
      >>> from lsar_jax.objectives import align
      >>> w = jnp.diag(jnp.array([0.5, 1.5]))
      >>> for _ in range(30):
      ...     w = align.orthogonalize(w, 0.2)
      >>> bool(jnp.allclose(w, jnp.eye(2), atol=1e-3))
      True
    """
    return (1 + beta) * maps - beta * product(product(maps, jnp.swapaxes(maps, -1, -2)), maps)


def parameter_drift(parameters: Any, start: Any) -> Float[Array, ""]:
    """Returns the L2 norm of what training changed in all parameters; the gradient at the start is zero.

    Eq. 5 prints its square. The authors' code uses the norm, whose gradient has length 1 however small the change is.

    Args:
      parameters: a tree of arrays.
      start: the same before training.
    """
    changes = jax.tree.map(lambda new, old: jnp.square(_wide(new) - _wide(old)).sum(), parameters, start)
    total = jax.tree.reduce(jnp.add, changes, jnp.zeros((), jnp.float32))
    # The root has an infinite slope at 0, and infinity times zero would be NaN.
    return jnp.where(total > 0, jnp.sqrt(jnp.where(total > 0, total, 1)), 0)


def _valid(x: Linked, valid: Valid | None) -> Valid:
    return jnp.ones(len(x), bool) if valid is None else valid


def _of_all_devices(
    links: tuple[Linked, Linked, Valid], axis_name: str | None
) -> tuple[Float[Array, "all dim"], Float[Array, "all dim"], Bool[Array, " all"], Int[Array, " link"]]:
    """Returns the links of all devices, and the places of this device's among them."""
    places = jnp.arange(len(links[0]), dtype=jnp.int32)
    if axis_name is None:
        return *links, places
    gathered = jax.lax.all_gather(links, axis_name, tiled=True)
    return *gathered, len(places) * jax.lax.axis_index(axis_name) + places


def _entropies(
    queries: Float[Array, "query dim"],
    keys: Float[Array, "key dim"],
    counted: Bool[Array, " key"],
    right: Int[Array, " query"],
    temperature: float,
    itself: Int[Array, " query"] | None = None,
) -> Float[Array, " query"]:
    """Returns, for each query, the cross-entropy of finding the right key by cosine.

    Keys that are not ``counted`` are no candidates, and neither is ``itself``, the key that a query is, if queries are
    among the keys. All vectors have length 1.
    """
    numbers = jnp.arange(len(keys), dtype=jnp.int32)

    def entropy(query: Array, right: Array, itself: Array | None) -> Array:
        scores = product(query, keys.T) / temperature
        others = counted if itself is None else counted & (numbers != itself)
        # One of the scores that are summed, so that they cancel where it is by far the largest.
        score = jnp.where(numbers == right, scores, 0).sum()
        return jax.nn.logsumexp(jnp.where(others, scores, _EXCLUDED)) - score

    if len(queries) * len(keys) <= _SCORES:
        return jax.vmap(entropy)(queries, right, itself)
    # Blocks of equal size: what remains after full ones would be computed beside them.
    blocks = min(len(queries), -(-len(queries) * len(keys) // _SCORES))
    more = -len(queries) % blocks
    rows = jax.tree.map(
        lambda x: jnp.pad(x, [(0, more), *[(0, 0)] * (x.ndim - 1)]).reshape(blocks, -1, *x.shape[1:]),
        (queries, right, itself),
    )
    of_block = jax.checkpoint(jax.vmap(entropy))
    return jax.lax.map(lambda block: of_block(*block), rows).reshape(-1)[: len(queries)]


def _mean(values: Float[Array, " row"], valid: Bool[Array, " row"], axis_name: str | None) -> Float[Array, ""]:
    """Returns the mean over valid rows of all devices; 0 if there are none."""
    total, count = jnp.where(valid, values, 0).sum(), valid.sum()
    if axis_name is not None:
        total, count = jax.lax.psum((total, count), axis_name)
    return total / jnp.maximum(count, 1).astype(values.dtype)


def _wide(x: Array) -> Array:
    return x.astype(jnp.float32)
