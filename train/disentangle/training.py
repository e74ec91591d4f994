"""The two heads as a ``TrainingTask`` for the training loop in ``train.loop``."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lsar_jax.checks import check_option
from lsar_jax.mesh import data_mesh, replicated
from lsar_jax.objectives.disentangle import Heads, Objective
from train.disentangle.steps import PairTable, epoch_order, init, run, validate
from train.training_task import Steps, StepTerms, TrainingTask, ValidationTerms

__all__ = ["HeadTraining", "validation_batch"]


class HeadTraining(TrainingTask):
    """Trains heads on pairs, for several seeds and weights of ORACLE in parallel.

    Runs are weight by weight: all seeds with the first weight, and so on.
    """

    # The discriminator's own loss trains the discriminator, not the heads.
    apart = ("discriminator",)

    def __init__(
        self, objective: Objective, learning_rate: float, batch: int, seeds: tuple[int, ...], pairs: PairTable,
        validation: PairTable, weights: tuple[float, ...],
    ) -> None:  # fmt: skip
        self.seeds, self.learning_rate = seeds * len(weights), learning_rate
        mesh = data_mesh()
        self._weights = jax.device_put(jnp.repeat(jnp.array(weights, jnp.float32), len(seeds)), replicated(mesh))
        self._objective, self._batch, self._mesh = objective, batch, mesh
        self._size = validation_batch(objective, batch, len(pairs.source), len(validation.source), mesh)
        # Both sets of pairs index the same table, which is placed on the devices once.
        table, *rows = jax.device_put((pairs.table, pairs[1:], validation[1:]), replicated(mesh))
        self._pairs, self._validation = (PairTable(table, *part) for part in rows)

    def start(self) -> dict[str, Any]:
        """Returns the initial state: the training state, and the random keys of the seeds."""
        state, keys = init(self.seeds, self._pairs.table.shape[1], len(self._pairs.sizes), self.learning_rate)
        return jax.device_put({"training": state, "keys": jax.random.key_data(keys)}, replicated(self._mesh))

    def kept(self, state: dict[str, Any]) -> Heads:
        """Returns the heads."""
        return state["training"].heads

    def total(self, epochs: int) -> int:
        """Returns the number of steps in ``epochs`` epochs."""
        return epochs * (len(self._pairs.source) // self._batch)

    def order(self, state: dict[str, Any], epoch: int) -> Array:
        """Returns the pairs of each batch of an epoch, ``[seed, step, row]``."""
        return epoch_order(_keys(state), epoch, len(self._pairs.source), self._batch)

    def steps(self, state: dict[str, Any], steps: Steps) -> tuple[dict[str, Any], StepTerms]:
        """Takes one step per batch; returns the new state and the loss terms at each step."""
        training, terms = run(
            state["training"], self._pairs, steps, _keys(state), self._weights,
            objective=self._objective, learning_rate=self.learning_rate, mesh=self._mesh,
        )  # fmt: skip
        return {"training": training, "keys": state["keys"]}, terms

    def validate(self, state: dict[str, Any]) -> ValidationTerms:
        """Returns the mean of each loss term over the validation pairs."""
        return validate(
            state["training"], self._validation, _keys(state), self._weights,
            objective=self._objective, size=self._size, mesh=self._mesh,
        )  # fmt: skip


def validation_batch(objective: Objective, batch: int, pairs: int, validation: int, mesh: jax.sharding.Mesh) -> int:
    """Returns the size of a validation batch; raises ValueError if there are too few pairs for the losses."""
    limit = f"from 2 to the number of training pairs, {pairs}, and a multiple of the number of devices, {mesh.size}"
    check_option(2 <= batch <= pairs and not batch % mesh.size, limit, batch=batch)
    # Batches have equal sizes and leave out as few pairs as possible, whatever the number of devices.
    size = validation // max(1, -(-validation // batch))
    least = 4 if objective.halves else 2
    if min(size, batch) < least:
        raise ValueError(
            f"{objective.name} needs batches of at least {least} pairs, but {validation} validation pairs make batches "
            f"of {size}, and --batch is {batch}; raise --validation or --batch"
        )
    return size


def _keys(state: dict[str, Any]) -> Array:
    return jax.random.wrap_key_data(state["keys"])
