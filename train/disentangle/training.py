"""Heads of meaning and language as something to train: what the loop of ``train.loop`` asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array, Bool, Float

from lsar_jax.mesh import replicated
from lsar_jax.objectives.disentangle import Heads, Objective
from train.disentangle.steps import PairTable, epoch_order, init, run, validate

__all__ = ["HeadTraining", "Optimizer", "validation_batch"]


@dataclass(frozen=True)
class Optimizer:
    """Adam, and the size of a step.

    Attributes:
      learning_rate: of Adam.
      batch: pairs of a step.
    """

    learning_rate: float = 1e-5
    batch: int = 512


class HeadTraining:
    """Trains heads on pairs, several seeds side by side.

    Args:
      objective: the losses.
      optimizer: how.
      seeds: of initial weights, order and draws, one run each.
      pairs: to train on, at least one batch.
      validation: pairs of the same table, to choose the best epoch by.
      languages: how many there are, English included.
      mesh: devices that share each batch.

    Raises:
      ValueError: as ``validation_batch``.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: Optimizer,
        seeds: tuple[int, ...],
        pairs: PairTable,
        validation: PairTable,
        languages: int,
        mesh: jax.sharding.Mesh,
    ) -> None:
        self.seeds = seeds
        self.learning_rate = optimizer.learning_rate
        self._objective = objective
        self._batch = optimizer.batch
        self._languages = languages
        self._mesh = mesh
        self._size = validation_batch(objective, optimizer.batch, len(pairs.source), len(validation.source), mesh)
        everywhere = replicated(mesh)
        table = jax.device_put(pairs.table, everywhere)
        # Both are rows of one table, which is on the devices once.
        rows = jax.device_put((pairs[1:], validation[1:]), everywhere)
        self._pairs, self._validation = PairTable(table, *rows[0]), PairTable(table, *rows[1])

    def start(self) -> dict[str, Any]:
        """Returns the state before the first step: what training changes, and the keys of the seeds."""
        state, keys = init(self.seeds, self._pairs.table.shape[1], self._languages, self.learning_rate)
        state, keys = jax.device_put((state, jax.random.key_data(keys)), replicated(self._mesh))
        return {"training": state, "keys": keys}

    def kept(self, state: dict[str, Any]) -> Heads:
        """Returns the heads."""
        return state["training"].heads

    def order(self, state: dict[str, Any], epoch: int) -> Array:
        """Returns the pairs of each batch of an epoch, ``[seed, step, row]``."""
        return epoch_order(_keys(state), epoch, len(self._pairs.source), self._batch)

    def steps(
        self, state: dict[str, Any], order: Array, epoch: int, first: int, active: Bool[Array, " seed"]
    ) -> tuple[dict[str, Any], Mapping[str, Float[Array, "seed step"]]]:
        """Takes the steps of some batches; returns the state and the terms of the loss at each step."""
        keys = _keys(state)
        training, terms = run(
            state["training"],
            self._pairs,
            order,
            keys,
            epoch,
            first,
            active,
            objective=self._objective,
            learning_rate=self.learning_rate,
            mesh=self._mesh,
        )
        return {"training": training, "keys": state["keys"]}, terms

    def validate(self, state: dict[str, Any]) -> Mapping[str, Float[Array, " seed"]]:
        """Returns the mean of each term over the validation pairs."""
        return validate(
            state["training"],
            self._validation,
            _keys(state),
            objective=self._objective,
            size=self._size,
            mesh=self._mesh,
        )


def validation_batch(objective: Objective, batch: int, pairs: int, validation: int, mesh: jax.sharding.Mesh) -> int:
    """Returns the size of a batch to validate on.

    Args:
      objective: the losses.
      batch: pairs of a step.
      pairs: how many there are to train on.
      validation: how many to validate on.
      mesh: devices that share each batch.

    Raises:
      ValueError: fewer pairs than a batch, a batch that the devices cannot share, or batches too small for the losses.
    """
    if batch < 2 or batch % mesh.size:
        raise ValueError(f"--batch is {batch}; it must be at least 2 and a multiple of {mesh.size} devices")
    if pairs < batch:
        raise ValueError(f"there are {pairs} pairs to train on; --batch is {batch}")
    if validation < 2:
        raise ValueError(f"there is {validation} pair to validate on; at least 2 are needed")
    # Equal batches that leave out as few as can be, whatever the devices.
    size = validation // -(-validation // batch)
    least = 4 if objective.halves else 2
    if min(size, batch) < least:
        raise ValueError(
            f"{validation} pairs to validate on are batches of {size}, and --batch is {batch}; "
            f"{objective.name} needs at least {least} of each"
        )
    return size


def _keys(state: dict[str, Any]) -> Array:
    return jax.random.wrap_key_data(state["keys"])
