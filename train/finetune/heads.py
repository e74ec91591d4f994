"""Heads: what is trained on the hidden states of slots, and what it predicts for each slot."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.objectives.parsing import best_arcs, biaffine_scores, init_biaffine, parse_loss
from lsar_jax.objectives.tagging import crf_loss, crf_tags, init_transitions, tag_loss
from train.finetune.examples import TaskBatch

__all__ = ["BIAFFINE", "CRF", "LINEAR", "TaskHead"]

Slots = Float[Array, "batch slot dim"]


class TaskHead(NamedTuple):
    """Functions of a head's parameters.

    Attributes:
      init: ``(key, dim, labels)`` to random parameters, for hidden states of width ``dim``.
      loss: ``(parameters, slots, batch, key)`` to the loss of a batch from the hidden states of its slots.
      predict: ``(parameters, slots, batch)`` to what a task scores, each with the axes batch and slot first.
    """

    init: Callable[[Array, int, int], Any]
    loss: Callable[[Any, Slots, TaskBatch, Array], Float[Array, ""]]
    predict: Callable[[Any, Slots, TaskBatch], tuple[Array, ...]]


def _init_linear(key: Array, dim: int, labels: int) -> dict[str, Any]:
    # As transformers initializes a new head.
    return {"kernel": 0.02 * jax.random.normal(key, (dim, labels), jnp.float32), "bias": jnp.zeros(labels, jnp.float32)}


def _scores(head: dict[str, Any], slots: Slots) -> Float[Array, "batch slot label"]:
    return jnp.matmul(slots, head["kernel"], precision=jax.lax.Precision.HIGHEST) + head["bias"][None, None]


def _linear_loss(head: dict[str, Any], slots: Slots, batch: TaskBatch, key: Array) -> Float[Array, ""]:
    return tag_loss(_scores(head, slots), jnp.asarray(batch.labels), jnp.asarray(batch.counted))


def _best_labels(head: dict[str, Any], slots: Slots, batch: TaskBatch) -> tuple[Array, ...]:
    return (_scores(head, slots).argmax(axis=-1).astype(jnp.int32),)


def _init_crf(key: Array, dim: int, labels: int) -> dict[str, Any]:
    return _init_linear(key, dim, labels) | {"transitions": init_transitions(jax.random.fold_in(key, 1), labels)}


def _counts(batch: TaskBatch) -> Int[Array, " batch"]:
    return jnp.asarray(batch.there).sum(axis=1).astype(jnp.int32)


def _crf_loss(head: dict[str, Any], slots: Slots, batch: TaskBatch, key: Array) -> Float[Array, ""]:
    return crf_loss(_scores(head, slots), head["transitions"], jnp.asarray(batch.labels), _counts(batch))


def _best_sequence(head: dict[str, Any], slots: Slots, batch: TaskBatch) -> tuple[Array, ...]:
    return (crf_tags(_scores(head, slots), head["transitions"], _counts(batch)),)


def _parse_loss(head: Any, slots: Slots, batch: TaskBatch, key: Array) -> Float[Array, ""]:
    scores = biaffine_scores(head, slots, jnp.asarray(batch.there), key)
    return parse_loss(head, scores, *map(jnp.asarray, (batch.heads, batch.labels, batch.counted)))


def _best_arcs(head: Any, slots: Slots, batch: TaskBatch) -> tuple[Array, ...]:
    return best_arcs(head, biaffine_scores(head, slots, jnp.asarray(batch.there)))


# Labels each slot on its own; labels the slots of a sentence by a conditional random field; scores arcs between slots.
LINEAR = TaskHead(_init_linear, _linear_loss, _best_labels)
CRF = TaskHead(_init_crf, _crf_loss, _best_sequence)
BIAFFINE = TaskHead(init_biaffine, _parse_loss, _best_arcs)
