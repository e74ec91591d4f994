"""Fine-tuning of an encoder on a task, as a ``Trainee`` for the training loop in ``train.loop``.

Several seeds train in one program: all arrays have a leading seed axis. An epoch of the loop is a part of a pass over
the data, a quarter by default, after which the development data are scored.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from lsar_jax.mesh import fetched, placed, replicated, split
from lsar_jax.models.transformer import Dropout
from lsar_jax.tokens.buckets import training_width
from train.encoder_parameters import Parameters, Skeleton
from train.finetune.examples import Example, TaskBatch, task_batch
from train.finetune.features import FeatureMix
from train.finetune.tasks import TransferTask
from train.loop import of_seed

__all__ = ["Development", "FinetunePlan", "FinetuneTraining"]

# Passes over the data are cut into batches of similar length within this many batches.
_SORTED = 16
# Token positions to predict at a time: fewer leave a device idle, and more do not fit the cache of a CPU.
_TOKENS = 1024


@dataclass(frozen=True)
class FinetunePlan:
    """What each step sees.

    Attributes:
      batch: number of examples of a batch.
      passes: number of passes over the data.
      validations: number of validations per pass.
      layer: layer whose states are used.
      dropout: share of what is zeroed inside the encoder.
      output_dropout: share of the dimensions of its output that is zeroed, the same for all tokens of a sentence.
      pad_id: id used for padding.
      longest: most tokens that the model takes.
    """

    batch: int
    passes: int
    validations: int
    layer: int
    dropout: float
    output_dropout: float
    pad_id: int
    longest: int

    def parts(self, examples: int) -> list[int]:
        """Returns the number of steps between validations, in each part of a pass."""
        steps = examples // self.batch
        return [len(part) for part in np.array_split(np.arange(steps), min(self.validations, steps))]

    def order(self, seed: int, number: int, lengths: Sequence[int]) -> Any:
        """Returns the examples of each batch of a pass, ``[step, example]``; those that fill no batch are left out."""
        rng = np.random.default_rng((seed, number))
        steps = len(lengths) // self.batch
        order = rng.permutation(len(lengths))[: steps * self.batch]
        sizes = np.asarray(lengths)
        windows = [order[at : at + _SORTED * self.batch] for at in range(0, len(order), _SORTED * self.batch)]
        batches = np.concatenate([one[np.argsort(sizes[one], kind="stable")] for one in windows])
        return rng.permutation(batches.reshape(steps, self.batch))


@dataclass(frozen=True)
class Development:
    """The sentences that choose the best step, and their examples."""

    sentences: Sequence[Any]
    examples: Sequence[Example]


class FinetuneTraining:
    """Trains a head, and the encoder under it.

    Args:
      task: the task, with its labels.
      skeleton: the modules of the encoder.
      trained: the parameters of the encoder to train.
      frozen: its other parameters.
      dim: width of the hidden states.
      training: examples to train on, at least one batch.
      development: what chooses the best step.
      plan: what each step sees.
      optimizer: the optimizer.
      learning_rate: the highest learning rate, quoted in errors.
      seeds: random seeds, which determine the head, the order of batches and dropout.
      mesh: devices that batches are split over.
      features: what is trained on top of the states of all layers; by default nothing.
    """

    apart = ()

    def __init__(
        self,
        task: TransferTask,
        skeleton: Skeleton,
        trained: Parameters,
        frozen: Parameters,
        dim: int,
        training: Sequence[Example],
        development: Development,
        plan: FinetunePlan,
        optimizer: optax.GradientTransformation,
        learning_rate: float,
        seeds: tuple[int, ...],
        mesh: Mesh,
        features: FeatureMix | None = None,
    ) -> None:
        self.seeds = seeds
        self.learning_rate = learning_rate
        self.task = task
        self._skeleton = skeleton
        self._trained = trained
        self._dim = dim
        self._training = training
        self._lengths = [len(one.ids) for one in training]
        self._development = development
        self._plan = plan
        self._optimizer = optimizer
        self._mesh = mesh
        self._features = features
        self._frozen = placed(frozen, replicated(mesh))
        self._parts = plan.parts(len(training))
        self._start = jax.jit(self._initial)
        self._step = jax.jit(self._take, donate_argnums=0)
        self._predict = jax.jit(self._predicted)

    @property
    def epochs(self) -> int:
        """The number of parts of all passes."""
        return len(self._parts) * self._plan.passes

    def for_seeds(self, seeds: tuple[int, ...]) -> Self:
        """Returns the same training for other seeds.

        An equal number of seeds compiles nothing new: the programs of both are the same, and do not read ``seeds``.
        """
        other = copy.copy(self)
        other.seeds = seeds
        return other

    def start(self) -> dict[str, Any]:
        """Returns the initial state of all seeds."""
        state: dict[str, Any] = self._start(jnp.asarray(self.seeds, jnp.uint32), self._trained)
        return placed(state, replicated(self._mesh))

    def kept(self, state: dict[str, Any]) -> Any:
        """Returns the parameters of the encoder and of the head."""
        return state["parameters"]

    def order(self, state: dict[str, Any], epoch: int) -> Any:
        """Returns the examples of each batch until the next validation, ``[seed, step, example]``."""
        number, part = divmod(epoch, len(self._parts))
        first = sum(self._parts[:part])
        whole = [self._plan.order(seed, number, self._lengths) for seed in self.seeds]
        return np.stack(whole)[:, first : first + self._parts[part]]

    def steps(
        self, state: dict[str, Any], order: Any, epoch: int, first: int, active: Bool[Array, " seed"]
    ) -> tuple[dict[str, Any], Mapping[str, Float[Array, "seed step"]]]:
        """Takes one step per batch; returns the new state and the loss at each step."""
        number, part = divmod(epoch, len(self._parts))
        taken = number * sum(self._parts) + sum(self._parts[:part]) + first
        losses = []
        for step in range(order.shape[1]):
            batch = self._place(self._batches(order[:, step]), axis=1)
            with jax.numpy_dtype_promotion("standard"):  # in bfloat16, jax's attention mixes dtypes on its way back
                state, loss = self._step(state, self._frozen, batch, taken + step, active)
            losses.append(loss)
        return state, {"loss": jnp.stack(losses, axis=1)}

    def validate(self, state: dict[str, Any]) -> Mapping[str, Float[Array, " seed"]]:
        """Returns how much is missing to a perfect score on the development data, in percent."""
        scores = []
        for number in range(len(self.seeds)):
            parameters = of_seed(state["parameters"], number)
            predicted = self.predict(parameters, self._development.examples)
            own = self.task.score(self._development.sentences, self._development.examples, predicted)
            scores.append(own[self.task.metric])
        return {"error": jnp.asarray(100 - np.array(scores), jnp.float32)}

    def predict(
        self, parameters: Any, examples: Sequence[Example], maps: Float[np.ndarray, "layer dim dim"] | None = None
    ) -> list[tuple[Any, ...]]:
        """Returns what ``task.predict`` returns for each example.

        Args:
          parameters: the parameters of one seed.
          examples: the examples, in any order.
          maps: matrices to map the states of each layer by, with ``features``.
        """
        on_device = None if maps is None else placed(maps, replicated(self._mesh))
        order = np.argsort([-len(one.ids) for one in examples], kind="stable")
        result: dict[int, tuple[Any, ...]] = {}
        at = 0
        while at < len(order):
            width = training_width(len(examples[order[at]].ids), self._plan.longest)
            rows = max(1, _TOKENS // (width * self._mesh.size)) * self._mesh.size
            several = order[at : at + rows].tolist()
            batch = self._place(self._batch([examples[one] for one in several], rows), axis=0)
            found = fetched(self._predict(parameters, self._frozen, batch, on_device))
            for row, one in enumerate(several):
                result[one] = tuple(part[row] for part in found)
            at += rows
        return [result[one] for one in range(len(examples))]

    def _initial(self, seeds: Array, trained: Parameters) -> dict[str, Any]:
        keys = jax.vmap(jax.random.key)(seeds)
        own, more, rest = jnp.unstack(jax.vmap(partial(jax.random.split, num=3))(keys), axis=1)
        head = jax.vmap(lambda key: self.task.init(key, self._dim))(own)
        if self._features is not None:
            head = {"task": head, "features": jax.vmap(self._features.init)(more)}
        encoder = jax.tree.map(lambda x: jnp.repeat(x[None], len(seeds), axis=0), trained)
        parameters = {"encoder": encoder, "head": head}
        optimizer = jax.vmap(self._optimizer.init)(parameters)
        return {"parameters": parameters, "optimizer": optimizer, "keys": jax.random.key_data(rest)}

    def _batch(self, examples: Sequence[Example], rows: int) -> TaskBatch:
        return task_batch(examples, rows, self._plan.pad_id, self._plan.longest)

    def _batches(self, rows: Any) -> TaskBatch:
        """Returns the batches of all seeds, padded alike."""
        size = rows.shape[1]
        flat = self._batch([self._training[row] for row in rows.reshape(-1)], rows.size)
        return TaskBatch(*(part.reshape(-1, size, *part.shape[1:]) for part in flat))

    def _place(self, batch: TaskBatch, axis: int) -> TaskBatch:
        even = batch.ids.shape[axis] % self._mesh.size == 0
        return placed(batch, split(self._mesh, axis) if even else replicated(self._mesh))

    def _slots(
        self, parameters: Any, frozen: Parameters, batch: TaskBatch, key: Array | None, maps: Array | None = None
    ) -> Array:
        """Returns the hidden states of the slots."""
        plan = self._plan
        lengths = jnp.asarray(batch.lengths)
        key, of_output = (None, None) if key is None else jax.random.split(key)
        dropout = Dropout(key, plan.dropout, plan.dropout) if key is not None and plan.dropout else None
        model = self._skeleton.filled({**parameters["encoder"], **frozen}).model
        types = batch.types if model.config.token_types > 1 else None
        with jax.default_matmul_precision("float32" if model.dtype == jnp.float32 else None):
            inside = dropout if self._features is None else None
            states = model.hidden_states(batch.ids, lengths, types=types, dropout=inside)
            hidden = list(islice(states, plan.layer + 1))
            last = hidden[-1]
            if self._features is not None:
                last = self._features(parameters["head"]["features"], hidden, lengths, dropout, maps)
        slots = jnp.take_along_axis(last, batch.positions[..., None], axis=1).astype(jnp.float32)
        if of_output is None or not plan.output_dropout:
            return slots
        mask = jax.random.bernoulli(of_output, 1 - plan.output_dropout, (len(slots), 1, self._dim))
        return jnp.where(mask, slots / (1 - plan.output_dropout), 0)

    def _head(self, parameters: Any) -> Any:
        return parameters["head"] if self._features is None else parameters["head"]["task"]

    def _predicted(
        self, parameters: Any, frozen: Parameters, batch: TaskBatch, maps: Array | None
    ) -> tuple[Array, ...]:
        return self.task.predict(self._head(parameters), self._slots(parameters, frozen, batch, None, maps), batch)

    def _take(
        self, state: dict[str, Any], frozen: Parameters, batch: TaskBatch, number: Any, active: Bool[Array, " seed"]
    ) -> tuple[dict[str, Any], Float[Array, " seed"]]:
        def one(state: dict[str, Any], batch: TaskBatch, active: Array | None) -> tuple[dict[str, Any], Array]:
            key = jax.random.fold_in(jax.random.wrap_key_data(state["keys"]), number)
            inside, outside = jax.random.split(key)

            def loss(parameters: Any) -> Array:
                slots = self._slots(parameters, frozen, batch, inside)
                return self.task.loss(self._head(parameters), slots, batch, outside)

            value, gradient = jax.value_and_grad(loss)(state["parameters"])
            with jax.numpy_dtype_promotion("standard"):  # Adam raises a float to the power of a step
                updates, optimizer = self._optimizer.update(gradient, state["optimizer"], state["parameters"])
                parameters = optax.apply_updates(state["parameters"], updates)
            new = {"parameters": parameters, "optimizer": optimizer, "keys": state["keys"]}
            if active is None:
                return new, value
            return jax.tree.map(lambda new, old: jnp.where(active, new, old), new, state), value

        if len(active) > 1:
            return jax.vmap(one)(state, batch, active)
        # One seed trains until it stops. Without a seed axis, which makes products slower on CPUs.
        first = jax.tree.map(lambda x: x[0], (state, batch))
        alone = one(first[0], first[1], None)
        return jax.tree.map(lambda x: x[None], alone)
