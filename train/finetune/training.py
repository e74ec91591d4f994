"""Fine-tuning of an encoder on a task, as a ``TrainingTask`` for the training loop in ``train.loop``.

An epoch of the loop is a part of a pass over the data, a quarter by default, after which the development data are
scored.
"""

import copy
from collections.abc import Sequence
from itertools import islice
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from lsar_jax import SentenceEncoder
from lsar_jax.mesh import fetched, placed, replicated, split
from lsar_jax.models.dropout import Dropout
from train.adam import updated
from train.defaults import known
from train.encoder_parameters import EncoderParts, Parameters, take_apart
from train.finetune.examples import TaskBatch, TaskExample, task_batch, training_width
from train.finetune.features import FeatureMix
from train.finetune.options import FinetuneOptions
from train.finetune.text import TaskText
from train.training_task import Steps, StepTerms, TrainingTask, ValidationTerms, as_seed

__all__ = ["FinetuneTraining", "longest", "pass_order", "split_blocks"]

# Passes over the data are cut into batches of similar length within this many batches.
_SORTED = 16
# Share of the dimensions of the output to zero in training, the same for all tokens of a sentence.
_OUTPUT_DROPOUT = 0.2
# Token positions to predict at a time: fewer leave a device idle, and more do not fit the cache of a CPU.
_TOKENS = 1024


def pass_order(seed: int, number: int, lengths: Sequence[int], batch: int) -> Int[np.ndarray, "step example"]:
    """Returns the examples of each batch of pass ``number``; those that fill no batch are left out."""
    rng = np.random.default_rng((seed, number))
    steps = len(lengths) // batch
    order = rng.permutation(len(lengths))[: steps * batch]
    sizes = np.asarray(lengths)
    windows = [order[at : at + _SORTED * batch] for at in range(0, len(order), _SORTED * batch)]
    batches = np.concatenate([window[np.argsort(sizes[window], kind="stable")] for window in windows])
    return rng.permutation(batches.reshape(steps, batch))


class FinetuneTraining(TrainingTask):
    """Trains a head, and the encoder under it."""

    def __init__(
        self, text: TaskText, encoder: SentenceEncoder, options: FinetuneOptions,
        optimizer: optax.GradientTransformation, seed: int, mesh: Mesh,
    ) -> None:  # fmt: skip
        self.seeds, self.learning_rate = (seed,), known(options.learning_rate)
        self.text, self._options, self._optimizer, self._mesh = text, options, optimizer, mesh
        config = encoder.model.config
        self._dim, self._layer = config.hidden, encoder.spec.layer
        self._pad_id, self._longest = encoder.tokenizer.pad_id, longest(encoder)
        self._skeleton, trained, frozen = take_apart(EncoderParts(encoder.model, None), False)
        blocks = 0 if options.features else options.trained_blocks
        if blocks is not None:
            trained, frozen = split_blocks(trained, config.blocks, blocks)
        self._trained, self._frozen = trained, placed(frozen, replicated(mesh))
        self._features = FeatureMix(config) if options.features else None
        self._head = (options.features and text.task.head_on_features) or text.task.head
        self._lengths = [len(example.ids) for example in text.training]
        self._parts = options.parts(len(text.training))
        self._start = jax.jit(self._initial)
        self._step = jax.jit(self._take, donate_argnums=0)
        self._predict = jax.jit(self._predicted)

    @property
    def epochs(self) -> int:
        """The number of parts of all passes."""
        return len(self._parts) * known(self._options.epochs)

    def for_seed(self, seed: int) -> Self:
        """Returns the same training for another seed, which needs no compilation."""
        other = copy.copy(self)
        other.seeds = (seed,)
        return other

    def start(self) -> dict[str, Any]:
        """Returns the initial state."""
        state: dict[str, Any] = self._start(jnp.asarray(self.seeds[0], jnp.uint32), self._trained)
        return placed(state, replicated(self._mesh))

    def kept(self, state: dict[str, Any]) -> Any:
        """Returns the parameters of the encoder and of the head."""
        return as_seed(state["parameters"])

    def total(self, epochs: int) -> int:
        """Returns the number of steps in ``epochs`` epochs."""
        passes, parts = divmod(epochs, len(self._parts))
        return passes * sum(self._parts) + sum(self._parts[:parts])

    def order(self, state: dict[str, Any], epoch: int) -> Any:
        """Returns the examples of each batch until the next validation, ``[1, step, example]``."""
        number, part = divmod(epoch, len(self._parts))
        first = sum(self._parts[:part])
        whole = pass_order(self.seeds[0], number, self._lengths, known(self._options.batch))
        return whole[None, first : first + self._parts[part]]

    def steps(self, state: dict[str, Any], steps: Steps) -> tuple[dict[str, Any], StepTerms]:
        """Takes one step per batch; returns the new state and the loss at each step."""
        losses = []
        for number, rows in enumerate(steps.order[0], self.total(steps.epoch) + steps.first):
            batch = self._batch([self.text.training[row] for row in rows], len(rows))
            with jax.numpy_dtype_promotion("standard"):  # in bfloat16, jax's attention mixes dtypes on its way back
                state, loss = self._step(state, self._frozen, batch, number)
            losses.append(loss)
        return state, {"loss": jnp.stack(losses)[None]}

    def validate(self, state: dict[str, Any]) -> ValidationTerms:
        """Returns how much is missing to a perfect score on the development data, in percent."""
        predicted = self.predict(state["parameters"], self.text.development.examples)
        score = self.text.score(self.text.development, predicted)[self.text.task.metric]
        return {"error": jnp.asarray([100 - score], jnp.float32)}

    def predict(
        self, parameters: Any, examples: Sequence[TaskExample], maps: Float[np.ndarray, "layer dim dim"] | None = None
    ) -> list[tuple[Any, ...]]:
        """Returns the predictions of the head, an entry an example."""
        on_device = None if maps is None else placed(maps, replicated(self._mesh))
        order = np.argsort([-len(example.ids) for example in examples], kind="stable")
        result: dict[int, tuple[Any, ...]] = {}
        at = 0
        while at < len(order):
            width = training_width(len(examples[order[at]].ids), self._longest)
            rows = max(1, _TOKENS // (width * self._mesh.size)) * self._mesh.size
            chosen = order[at : at + rows].tolist()
            batch = self._batch([examples[number] for number in chosen], rows)
            found = fetched(self._predict(parameters, self._frozen, batch, on_device))
            for row, number in enumerate(chosen):
                result[number] = tuple(part[row] for part in found)
            at += rows
        return [result[number] for number in range(len(examples))]

    def _initial(self, seed: Array, trained: Parameters) -> dict[str, Any]:
        of_head, of_features, left = jax.random.split(jax.random.key(seed), 3)
        head = self._head.init(of_head, self._dim, len(self.text.labels))
        if self._features is not None:
            head = {"task": head, "features": self._features.init(of_features)}
        # Copies, because the buffers are donated.
        parameters = {"encoder": jax.tree.map(jnp.copy, trained), "head": head}
        optimizer = self._optimizer.init(parameters)
        return {"parameters": parameters, "optimizer": optimizer, "key": jax.random.key_data(left)}

    def _batch(self, examples: Sequence[TaskExample], rows: int) -> TaskBatch:
        batch = task_batch(examples, rows, self._pad_id, self._longest)
        return placed(batch, (replicated if rows % self._mesh.size else split)(self._mesh))

    def _slots(
        self, parameters: Any, frozen: Parameters, batch: TaskBatch, key: Array | None, maps: Array | None = None
    ) -> tuple[Any, Array]:
        """Returns the parameters of the head, and the hidden states of the slots."""
        lengths, share = jnp.asarray(batch.lengths), known(self._options.dropout)
        key, of_output = (None, None) if key is None else jax.random.split(key)
        dropout = Dropout(key, share, share) if key is not None and share else None
        model = self._skeleton.filled({**parameters["encoder"], **frozen}).model
        types = batch.types if getattr(model.config, "token_types", 0) > 1 else None
        head = parameters["head"]
        with jax.default_matmul_precision("float32" if model.dtype == jnp.float32 else None):
            inside = dropout if self._features is None else None
            states = model.hidden_states(batch.ids, lengths, types=types, dropout=inside)
            hidden = list(islice(states, self._layer + 1))
            last = hidden[-1]
            if self._features is not None:
                last, head = self._features(head["features"], hidden, lengths, dropout, maps), head["task"]
        slots = jnp.take_along_axis(last, batch.positions[..., None], axis=1).astype(jnp.float32)
        if of_output is None:
            return head, slots
        mask = jax.random.bernoulli(of_output, 1 - _OUTPUT_DROPOUT, (len(slots), 1, self._dim))
        return head, jnp.where(mask, slots / (1 - _OUTPUT_DROPOUT), 0)

    def _predicted(
        self, parameters: Any, frozen: Parameters, batch: TaskBatch, maps: Array | None
    ) -> tuple[Array, ...]:
        return self._head.predict(*self._slots(parameters, frozen, batch, None, maps), batch)

    def _take(
        self, state: dict[str, Any], frozen: Parameters, batch: TaskBatch, number: Any
    ) -> tuple[dict[str, Any], Float[Array, ""]]:
        inside, outside = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(state["key"]), number))

        def loss(parameters: Any) -> Array:
            return self._head.loss(*self._slots(parameters, frozen, batch, inside), batch, outside)

        value, gradient = jax.value_and_grad(loss)(state["parameters"])
        parameters, optimizer = updated(self._optimizer, gradient, state["optimizer"], state["parameters"])
        return {"parameters": parameters, "optimizer": optimizer, "key": state["key"]}, value


def split_blocks(parameters: Parameters, blocks: int, trained: int) -> tuple[Parameters, Parameters]:
    """Returns the parameters of the last ``trained`` blocks and of the norm after them, and all others."""
    prefixes = tuple(f"model.blocks.{block}." for block in range(blocks - trained, blocks))
    prefixes += ("model.norm.",) * (trained > 0)
    last = {name: value for name, value in parameters.items() if name.startswith(prefixes)}
    return last, {name: value for name, value in parameters.items() if name not in last}


def longest(encoder: SentenceEncoder) -> int:
    """Returns the largest number of tokens that a transformer takes."""
    return min(encoder.tokenizer.max_length, encoder.model.config.longest)
