"""Losses and decoding of tags: of words on their own, and of whole sequences by a conditional random field.

A linear head scores the tags of each word from the hidden state of its first token, as in Devlin et al., "BERT:
Pre-training of Deep Bidirectional Transformers", NAACL 2019. Where the encoder is frozen, Wu and Dredze (EMNLP 2020)
decode named entities with a linear-chain conditional random field (Lafferty, McCallum and Pereira, ICML 2001): a
sequence scores the sum of its words' scores and of the scores of adjacent tags.

All functions are pure, for ``jit``, ``vmap`` and ``grad``. Scores are float32.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

__all__ = ["Transitions", "crf_loss", "crf_tags", "init_transitions", "tag_loss"]

Scores = Float[Array, "batch word tag"]
Tags = Int[Array, "batch word"]
Words = Bool[Array, "batch word"]


class Transitions(NamedTuple):
    """Scores of adjacent tags.

    Attributes:
      between: score of tag j after tag i, ``[tag, tag]``.
      first: score of a tag at the beginning, ``[tag]``.
      last: score of a tag at the end, ``[tag]``.
    """

    between: Float[Array, "tag tag"]
    first: Float[Array, " tag"]
    last: Float[Array, " tag"]


def init_transitions(key: Array, tags: int) -> Transitions:
    """Returns random transitions between a number of tags, uniform in +-0.1."""
    keys = jax.random.split(key, 3)
    shapes = ((tags, tags), (tags,), (tags,))
    return Transitions(*(jax.random.uniform(k, s, jnp.float32, -0.1, 0.1) for k, s in zip(keys, shapes, strict=True)))


def tag_loss(scores: Scores, tags: Tags, words: Words) -> Float[Array, ""]:
    """Returns the mean cross-entropy of the tags over words, in nats; 0 if there are none.

    Args:
      scores: scores of the tags of each word, ``[batch, word, tag]``.
      tags: the right tags, ``[batch, word]``.
      words: whether there is a word, rather than padding or context, ``[batch, word]``.
    """
    chosen = jnp.take_along_axis(scores, tags[..., None], axis=-1)[..., 0]
    losses = jax.nn.logsumexp(scores, axis=-1) - chosen
    return jnp.where(words, losses, 0).sum() / jnp.maximum(words.sum(), 1).astype(losses.dtype)


def crf_loss(scores: Scores, transitions: Transitions, tags: Tags, lengths: Int[Array, " batch"]) -> Float[Array, ""]:
    """Returns the negative log-likelihood of the tag sequences, in nats per word; 0 if there are none.

    Args:
      scores: scores of the tags of each word, ``[batch, word, tag]``.
      transitions: scores of adjacent tags.
      tags: the right tags, ``[batch, word]``.
      lengths: number of words of each row, ``[batch]``.
    """
    words = jnp.arange(scores.shape[1], dtype=jnp.int32)[None] < lengths[:, None]
    chosen = jnp.where(words, jnp.take_along_axis(scores, tags[..., None], axis=-1)[..., 0], 0).sum(axis=1)
    steps = jnp.where(words[:, 1:], transitions.between[tags[:, :-1], tags[:, 1:]], 0).sum(axis=1)
    final = jnp.take_along_axis(tags, jnp.maximum(lengths - 1, 0)[:, None], axis=1)[:, 0]
    right = chosen + steps + transitions.first[tags[:, 0]] + transitions.last[final]

    def step(total: Float[Array, "batch tag"], now: tuple[Array, Array]) -> tuple[Array, None]:
        score, real = now
        # Sums over the tag before.
        moved = jax.nn.logsumexp(total[:, :, None] + transitions.between[None], axis=1) + score
        return jnp.where(real[:, None], moved, total), None

    start = transitions.first[None] + scores[:, 0]
    total, _ = jax.lax.scan(step, start, (scores[:, 1:].swapaxes(0, 1), words[:, 1:].T))
    losses = jax.nn.logsumexp(total + transitions.last[None], axis=1) - right
    return jnp.where(lengths > 0, losses, 0).sum() / jnp.maximum(lengths.sum(), 1).astype(losses.dtype)


def crf_tags(scores: Scores, transitions: Transitions, lengths: Int[Array, " batch"]) -> Tags:
    """Returns the most likely tag sequences (Viterbi), int32 ``[batch, word]``; tags past a row's length mean nothing.

    The arguments are as in ``crf_loss``.

    Example:
      >>> from lsar_jax.objectives import tagging
      >>> scores = jnp.array([[[2.0, 0.0], [0.0, 1.0], [2.0, 0.0]]])
      >>> keep = tagging.Transitions(3 * jnp.eye(2), jnp.zeros(2), jnp.zeros(2))  # a tag likes to stay
      >>> tagging.crf_tags(scores, keep, jnp.array([3])).tolist(), scores.argmax(axis=-1).tolist()
      ([[0, 0, 0]], [[0, 1, 0]])
    """
    words = jnp.arange(scores.shape[1], dtype=jnp.int32)[None] < lengths[:, None]

    def forward(best: Float[Array, "batch tag"], now: tuple[Array, Array]) -> tuple[Array, Array]:
        score, real = now
        ways = best[:, :, None] + transitions.between[None]
        moved = jnp.where(real[:, None], ways.max(axis=1) + score, best)
        # Past the end every tag comes from itself, so that the way back passes through.
        same = jnp.broadcast_to(jnp.arange(best.shape[1]), best.shape)
        return moved, jnp.where(real[:, None], ways.argmax(axis=1), same)

    start = transitions.first[None] + scores[:, 0]
    best, before = jax.lax.scan(forward, start, (scores[:, 1:].swapaxes(0, 1), words[:, 1:].T))
    last = (best + transitions.last[None]).argmax(axis=1)

    def back(tag: Int[Array, " batch"], before: Int[Array, "batch tag"]) -> tuple[Array, Array]:
        earlier = jnp.take_along_axis(before, tag[:, None], axis=1)[:, 0]
        return earlier, tag

    first, others = jax.lax.scan(back, last, before, reverse=True)
    return jnp.concatenate([first[None], others]).T.astype(jnp.int32)
