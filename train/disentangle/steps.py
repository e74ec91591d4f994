"""Training steps for the two heads, as pure functions: many steps per program, and several runs in parallel.

Runs differ in their seed, and in the weight of ORACLE's terms; both are mapped axes of one program.

Embeddings stay on the device. All randomness derives from a seed's key and the epoch and step numbers, so that steps
can be run in chunks of any size and a run can be resumed exactly.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key

from lsar_jax.mesh import split as split_over
from lsar_jax.objectives.disentangle import (
    BatchOutputs,
    Head,
    Heads,
    Objective,
    TranslationBatch,
    discriminator_loss,
    head_outputs,
    objective_terms,
    outputs_terms,
)
from train.adam import updated
from train.training_task import Steps, each_seed, where_seed

__all__ = ["HeadsState", "PairTable", "epoch_order", "init", "run", "validate"]

_VALIDATION = 0x7A11D  # Folded into the keys for validation; differs from every epoch number folded in for training.


class PairTable(NamedTuple):
    """Translation pairs of English and other languages, as rows of a table of embeddings of distinct sentences.

    ``language`` is the index of the translation's, from 1 in ascending order (English is 0); each language's pairs
    start at ``starts``.
    """

    table: Float[Array, "sentence dim"]
    source: Int[Array, " pair"]
    target: Int[Array, " pair"]
    language: Int[Array, " pair"]
    starts: Int[Array, " language"]
    sizes: Int[Array, " language"]

    @classmethod
    def of(
        cls, table: Float[Array, "sentence dim"], sides: Sequence[tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]
    ) -> "PairTable":
        """Builds the pairs of languages 1, 2, ..., each given by the rows of its English and translated sentences."""
        counts = np.array([0, *(len(source) for source, _ in sides)], np.int32)
        starts = np.cumsum([0, *counts[:-1]]).astype(np.int32)
        source, target = (np.concatenate([pair[side] for pair in sides]).astype(np.int32) for side in (0, 1))
        language = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return cls(table, *map(jnp.asarray, (source, target, language, starts, counts)))

    def batch(self, rows: Int[Array, " row"], constraint: jax.sharding.Sharding | None) -> TranslationBatch:
        """Returns the embeddings of some pairs, sharded over the devices."""
        taken = (self.source[rows], self.target[rows], jnp.zeros_like(rows), self.language[rows])
        if constraint is not None:
            taken = jax.lax.with_sharding_constraint(taken, constraint)
        source, target, *languages = taken
        return TranslationBatch(self.table[source], self.table[target], *languages)


class HeadsState(NamedTuple):
    """The trained parameters and optimizer states, with a leading seed axis.

    The probe is MEAT's discriminator, or DREAM's classifier.
    """

    heads: Heads
    probe: Head
    heads_optimizer: optax.OptState
    probe_optimizer: optax.OptState


def init(
    seeds: Sequence[int], dim: int, languages: int, learning_rate: float
) -> tuple[HeadsState, Key[Array, " seed"]]:
    """Returns the initial state, uniform in ``+-1 / sqrt(dim)`` as in PyTorch's layers, and the key of each seed."""
    optimizer = optax.adam(learning_rate)

    def start(key: Key[Array, ""]) -> HeadsState:
        def head(key: Key[Array, ""], rows: int) -> Head:
            matrix, offset = jax.random.split(key)
            draw = partial(jax.random.uniform, dtype=jnp.float32, minval=-(dim**-0.5), maxval=dim**-0.5)
            return Head(draw(matrix, (rows, dim)), draw(offset, (rows,)))

        meaning, language, probe = jax.random.split(key, 3)
        heads, probe = Heads(head(meaning, dim), head(language, dim)), head(probe, languages)
        return HeadsState(heads, probe, optimizer.init(heads), optimizer.init(probe))

    keys = jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
    of_weights, of_steps = jnp.unstack(jax.vmap(jax.random.split)(keys), axis=1)
    return jax.jit(jax.vmap(start))(of_weights), of_steps


@partial(jax.jit, static_argnames=("pairs", "size"))
def epoch_order(
    keys: Key[Array, " seed"], epoch: int | Int[Array, ""], pairs: int, size: int
) -> Int[Array, "seed step row"]:
    """Returns the pairs of each batch of an epoch, shuffled; an incomplete last batch is dropped."""
    steps = pairs // size

    def shuffle(key: Key[Array, ""]) -> Int[Array, "step row"]:
        order = jax.random.permutation(jax.random.fold_in(key, epoch), pairs)
        return order[: steps * size].astype(jnp.int32).reshape(steps, size)

    return jax.vmap(shuffle)(keys)


@partial(jax.jit, static_argnames=("objective", "learning_rate", "mesh"), donate_argnames="state")
def run(
    state: HeadsState, pairs: PairTable, steps: Steps, keys: Key[Array, " seed"],
    weights: Float[Array, " seed"] | None = None, *, objective: Objective, learning_rate: float, mesh: Mesh | None,
) -> tuple[HeadsState, dict[str, Float[Array, "seed step"]]]:  # fmt: skip
    """Takes steps, whose order is ``[seed, step, row]``; returns the state (the old one is donated) and the terms.

    ``keys`` are the random keys of the seeds, and ``weights`` multiply ORACLE's terms, by default by 1.
    """
    optimizer = optax.adam(learning_rate)
    rows = None if mesh is None or mesh.size == 1 else split_over(mesh)

    def seed(
        state: HeadsState, order: Int[Array, "step row"], key: Key[Array, ""], active: Bool[Array, ""], weight: Array
    ) -> tuple[HeadsState, dict[str, Array]]:
        def step(state: HeadsState, numbered: tuple[Array, Array]) -> tuple[HeadsState, dict[str, Array]]:
            number, chosen = numbered
            draw = jax.random.fold_in(jax.random.fold_in(key, steps.epoch), number)
            batch, others = _batches(pairs, chosen, draw, objective, rows)
            new, terms = _taken(state, batch, others, objective, weight, optimizer)
            return where_seed(active, new, state), terms

        return jax.lax.scan(step, state, (steps.first + jnp.arange(len(order)), order))

    weights = jnp.ones(len(keys), jnp.float32) if weights is None else weights
    return each_seed(seed, state, steps.order, keys, steps.active, weights)


@partial(jax.jit, static_argnames=("objective", "size", "mesh"))
def validate(
    state: HeadsState, pairs: PairTable, keys: Key[Array, " seed"], weights: Float[Array, " seed"], *,
    objective: Objective, size: int, mesh: Mesh,
) -> dict[str, Float[Array, " seed"]]:  # fmt: skip
    """Returns the mean of every loss term over the validation batches, which are the same every time."""
    rows = None if size % mesh.size or mesh.size == 1 else split_over(mesh)

    def seed(state: HeadsState, key: Key[Array, ""], weight: Array) -> dict[str, Array]:
        key = jax.random.fold_in(key, _VALIDATION)
        order = epoch_order(key[None], 0, len(pairs.source), size)[0]

        def step(_: None, numbered: tuple[Array, Array]) -> tuple[None, dict[str, Array]]:
            number, chosen = numbered
            batch, others = _batches(pairs, chosen, jax.random.fold_in(key, 1 + number), objective, rows)
            return None, objective_terms(objective, state.heads, state.probe, batch, *others, weight=weight)

        terms = jax.lax.scan(step, None, (jnp.arange(len(order)), order))[1]
        return {name: values.mean() for name, values in terms.items()}

    return each_seed(seed, state, keys, weights)


def _batches(
    pairs: PairTable, chosen: Int[Array, " row"], key: Key[Array, ""], objective: Objective,
    rows: jax.sharding.Sharding | None,
) -> tuple[TranslationBatch, tuple[TranslationBatch, ...]]:  # fmt: skip
    """Gathers a batch and, for DREAM, random other pairs: one set in any language, one in the same languages."""
    batch = pairs.batch(chosen, rows)
    if objective.base != "dream" or objective.halves:
        return batch, ()
    any_key, same_key = jax.random.split(key)
    others = jax.random.randint(any_key, chosen.shape, 0, len(pairs.source), jnp.int32)
    # The pairs of one language are contiguous: move to another pair by a random offset within that range.
    language = pairs.language[chosen]
    count, place = pairs.sizes[language], chosen - pairs.starts[language]
    ahead = jax.random.randint(same_key, chosen.shape, 1, jnp.maximum(count, 2), jnp.int32)
    same = pairs.starts[language] + (place + ahead) % count
    return batch, (pairs.batch(others, rows), pairs.batch(same, rows))


def _taken(
    state: HeadsState, batch: TranslationBatch, others: tuple[TranslationBatch, ...], objective: Objective,
    weight: Array, adam: optax.GradientTransformation,
) -> tuple[HeadsState, dict[str, Array]]:  # fmt: skip
    """Takes one step of one seed: of the discriminator, if there is one, and then of the heads."""
    heads, probe, of_heads, of_probe = state
    before: dict[str, Array] = {}

    def loss(outputs: BatchOutputs, probe: Head) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        terms = outputs_terms(objective, outputs, probe, batch, weight)
        return sum(terms.values(), jnp.zeros((), jnp.float32)), terms

    # Computed once for both the discriminator and the heads.
    outputs, back = jax.vjp(lambda heads: head_outputs(heads, batch, *others), heads)
    if objective.adversarial:
        value, grads = jax.value_and_grad(partial(discriminator_loss, batch, outputs.source, outputs.target))(probe)
        probe, of_probe = updated(adam, grads, of_probe, probe)
        before["discriminator"] = value
    (_, terms), (grads, of_classifier) = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(outputs, probe)
    heads, of_heads = updated(adam, back(grads)[0], of_heads, heads)
    if "identification" in objective.terms:
        probe, of_probe = updated(adam, of_classifier, of_probe, probe)
    return HeadsState(heads, probe, of_heads, of_probe), terms | before
