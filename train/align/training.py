"""The alignment of an encoder as a ``TrainingTask`` for the training loop in ``train.loop``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from train.adam import linear_schedule
from train.align.batches import ChunkSizes, PairBatch, batch_of, order_of
from train.align.examples import Examples
from train.align.options import AlignOptions
from train.align.steps import AlignmentState, EncoderSteps
from train.defaults import known
from train.encoder_parameters import Parameters
from train.training_task import Steps, StepTerms, TrainingTask, ValidationTerms, as_seed

__all__ = ["BatchPlan", "EncoderTraining"]


@dataclass(frozen=True)
class BatchPlan:
    """The pairs of each step, and how they are encoded.

    Attributes:
      options: the options, complete: of a batch, of the steps, and of the validations.
      chunks, pad_id: shapes of the chunks, and the id that pads them.
      seed: random seed.
    """

    options: AlignOptions
    chunks: ChunkSizes
    pad_id: int
    seed: int = 0

    def schedule(self) -> optax.Schedule:
        """Returns the learning rate of each step."""
        return linear_schedule(self.options.learning_rate, known(self.options.warmup), known(self.options.steps))


class EncoderTraining(TrainingTask):
    """Trains an encoder, with one seed."""

    def __init__(
        self, programs: EncoderSteps, trained: Parameters, examples: tuple[Examples, Examples], plan: BatchPlan
    ) -> None:
        self.seeds, self.learning_rate = (plan.seed,), plan.options.learning_rate
        self._programs, self._trained, self._examples, self._plan = programs, trained, examples, plan
        self._steps, self._every = known(plan.options.steps), known(plan.options.validate_every)

    def start(self) -> dict[str, Any]:
        """Returns the initial state, with the random key of the run."""
        of_projector, of_steps = jax.random.split(jax.random.key(self.seeds[0]))
        key = self._programs.everywhere(jax.random.key_data(of_steps))
        return {"training": self._programs.init(self._trained, of_projector), "key": key}

    def kept(self, state: dict[str, Any]) -> Parameters:
        """Returns the trained parameters of the encoder."""
        return as_seed(state["training"].encoder)

    def total(self, epochs: int) -> int:
        """Returns the number of steps in ``epochs`` epochs."""
        return self._steps

    def order(self, state: dict[str, Any], epoch: int) -> Any:
        """Returns the pairs of each batch until the next validation, ``[1, step, pair]``."""
        first = epoch * self._every
        steps = min(self._every, self._steps - first)
        return order_of(self.seeds[0], len(self._examples[0]), self._plan.options.batch, first, steps)[None]

    def steps(self, state: dict[str, Any], steps: Steps) -> tuple[dict[str, Any], StepTerms]:
        """Takes one step per batch; returns the new state and the loss terms at each step."""
        key = jax.random.wrap_key_data(state["key"])
        training: AlignmentState = state["training"]
        terms: list[Mapping[str, Array]] = []
        for number, rows in enumerate(steps.order[0], steps.epoch * self._every + steps.first):
            training, of_step = self._programs.step(training, self._batch(0, rows), jax.random.fold_in(key, number))
            terms.append(of_step)
        stacked = {name: jnp.stack([of_step[name] for of_step in terms])[None] for name in terms[0]}
        return {"training": training, "key": state["key"]}, stacked

    def validate(self, state: dict[str, Any]) -> ValidationTerms:
        """Returns the mean loss over batches of validation pairs, which are the same every time."""
        size = self._plan.options.batch
        count = min(len(self._examples[1]), max(known(self._plan.options.validation_pairs), size)) // size
        batches = order_of(0, len(self._examples[1]), size, 0, count)
        losses = [self._programs.loss(state["training"], self._batch(1, rows)) for rows in batches]
        return {self._programs.objective: jnp.stack(losses).mean()[None]}

    def _batch(self, part: int, rows: Any) -> PairBatch:
        return batch_of(self._examples[part], np.asarray(rows).tolist(), self._plan.chunks, self._plan.pad_id)
