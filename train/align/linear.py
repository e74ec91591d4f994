"""Linear mapping: a matrix for each layer and language, which takes its words to their English translations.

Wu and Dredze (EMNLP 2020), section 2.1. The loss is quadratic in the matrices, so that it and its gradient follow from
second moments of the linked states, summed in one pass; each step then sees all links, where the authors' see those of
128 pairs. Languages and layers are independent problems, solved in parallel; each keeps the matrix with its lowest
validation loss. The closed form, the best orthogonal matrix, is fitted beside them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from lsar_jax import EncoderSpec, SentenceEncoder
from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.arrays import product
from lsar_jax.console.output import console, print_table
from lsar_jax.encoders.program import EncoderModel
from lsar_jax.encoders.progress import count_meter
from lsar_jax.mesh import split
from lsar_jax.objectives.align import orthogonalize
from lsar_jax.processes import share, wait_for_all
from lsar_jax.shapes import AnyArray
from lsar_jax.transforms.methods.linear_map import linear_maps, procrustes
from train.adam import updated
from train.align.batches import Chunk, batch_of
from train.align.examples import Examples
from train.align.exchange import joined
from train.align.training import BatchPlan
from train.defaults import known
from train.training_task import Steps, StepTerms, TrainingTask, ValidationTerms, as_seed

__all__ = ["MAP_FILES", "LinearTraining", "LinkMoments", "link_moments", "moments_loss", "write_maps"]

# Patterns of the files that ``write_maps`` writes.
MAP_FILES = ("layer-*.safetensors", "procrustes-*.safetensors")

_FORMAT = "lsar_jax.link_moments.v1"
_MOMENTS = ("squares", "cross", "own")


class LinkMoments(NamedTuple):
    """Means over the links of each language, at each layer, of ``||s||^2``, ``s t^T`` and ``t t^T``.

    s is the state of an English word, and t the state of the word that it is linked with.
    """

    codes: tuple[str, ...]
    counts: Int[np.ndarray, " language"]
    squares: Float[np.ndarray, "language layer"]
    cross: Float[np.ndarray, "language layer dim dim"]
    own: Float[np.ndarray, "language layer dim dim"]


def link_moments(encoder: SentenceEncoder, examples: Examples, plan: BatchPlan, folder: Path) -> LinkMoments:
    """Encodes word-aligned pairs without dropout, and returns the moments of their links at layers 0, 1, ...

    Those that are in the folder, of a run that was killed, are read. Several processes take the languages in turn.
    """
    folder.mkdir(parents=True, exist_ok=True)
    codes = [
        code for code in examples.codes[share()[0] :: share()[1]] if not (folder / f"{code}.safetensors").is_file()
    ]
    count, size = sum(len(examples.of(code)) for code in codes), plan.options.batch
    with count_meter(True, count, noun="pairs") as advance:
        for code in codes:
            pairs = examples.of(code)
            total: list[Any] = [0.0, 0.0, 0.0]
            for start in range(0, len(pairs), size):
                batch = batch_of(pairs, range(start, min(start + size, len(pairs))), plan.chunks, plan.pad_id)
                chunks = jax.device_put(batch.chunks, split(encoder.mesh))
                states = joined(
                    [_picked(encoder.model, chunk) for chunk in chunks], encoder.mesh.size, len(batch.filler)
                )
                sums = _sums(states, batch.source, batch.target, batch.valid)
                # Summed in float64 on the host.
                total = [before + np.asarray(part, np.float64) for before, part in zip(total, sums, strict=True)]
                advance(min(size, len(pairs) - start))
            links = sum(map(len, pairs.links or ()))
            means = [np.asarray(part / links, np.float32) for part in total]
            path, arrays = folder / f"{code}.safetensors", dict(zip(_MOMENTS, means, strict=True))
            save_arrays(path, arrays, format=_FORMAT, header={"links": links})
            console.print(f"encoded {len(pairs)} pairs of {code} with {links} links")
    wait_for_all(f"encoded {folder.name}")
    moments = []
    for code in examples.codes:
        with open_arrays(folder / f"{code}.safetensors", format=_FORMAT, what="file of moments") as file:
            moments.append([file.header["links"], *map(file.read, _MOMENTS)])
    counts, *parts = zip(*moments, strict=True)
    return LinkMoments(examples.codes, np.array(counts), *map(np.stack, parts))


def moments_loss(
    maps: Float[AnyArray, "*maps dim dim"],
    squares: Float[AnyArray, "*maps"],
    cross: Float[AnyArray, "*maps dim dim"],
    own: Float[AnyArray, "*maps dim dim"],
) -> Float[Array, "*maps"]:
    """Returns the mean of ``||s - W t||^2`` from the moments of the links."""
    return jnp.asarray(squares) + ((product(maps, own) - 2 * cross) * maps).sum(axis=(-2, -1))


class LinearTraining(TrainingTask):
    """Trains the matrices of all layers and languages, each of which keeps its lowest validation loss."""

    def __init__(self, training: LinkMoments, validation: LinkMoments, plan: BatchPlan) -> None:
        self.seeds, self.learning_rate = (plan.seed,), plan.options.learning_rate
        self.training, self.validation = training, validation
        self._steps, self._every = known(plan.options.steps), known(plan.options.validate_every)
        self._beta = known(plan.options.beta)
        self._adam = optax.adam(plan.schedule())
        self._moments = [jax.device_put(tuple(part[2:])) for part in (training, validation)]
        self._run = jax.jit(self._chunk, donate_argnums=0)

    def start(self) -> dict[str, Any]:
        """Returns the identity for each language and layer."""
        shape = self.training.cross.shape
        maps = jnp.broadcast_to(jnp.eye(shape[-1], dtype=jnp.float32), shape)
        loss = moments_loss(maps, *self._moments[1])
        # Copies, because the buffers are donated.
        return {"maps": maps + 0, "adam": self._adam.init(maps), "best": maps + 0, "lowest": loss, "now": loss + 0}

    def kept(self, state: dict[str, Any]) -> dict[str, Array]:
        """Returns the best matrix of each language and layer."""
        return as_seed({"maps": state["best"], "lowest": state["lowest"]})

    def total(self, epochs: int) -> int:
        """Returns the number of steps in ``epochs`` epochs."""
        return self._steps

    def order(self, state: dict[str, Any], epoch: int) -> Any:
        """Returns the numbers of the steps until the next validation."""
        first = epoch * self._every
        return np.arange(first, min(first + self._every, self._steps))[None]

    def steps(self, state: dict[str, Any], steps: Steps) -> tuple[dict[str, Any], StepTerms]:
        """Takes the steps, and then keeps the matrices that have become better."""
        state, losses = self._run(state, jnp.asarray(steps.order[0]), *self._moments)
        return state, {"linear": losses[None]}

    def validate(self, state: dict[str, Any]) -> ValidationTerms:
        """Returns the mean validation loss over languages and layers."""
        return {"linear": state["now"].mean()[None]}

    def _chunk(
        self, state: dict[str, Any], order: Int[Array, " step"], training: Any, validation: Any
    ) -> tuple[dict[str, Any], Float[Array, " step"]]:
        def loss(maps: Array) -> tuple[Array, Array]:
            each = moments_loss(maps, *training)
            return each.sum(), each.mean()

        def step(carried: tuple[Array, Any], _: Array) -> tuple[tuple[Array, Any], Array]:
            maps, adam = carried
            maps = orthogonalize(maps, self._beta)
            (_, mean), gradient = jax.value_and_grad(loss, has_aux=True)(maps)
            return updated(self._adam, gradient, adam, maps), mean

        (maps, adam), losses = jax.lax.scan(step, (state["maps"], state["adam"]), order)
        tried = orthogonalize(maps, self._beta)
        now = moments_loss(tried, *validation)
        better = now < state["lowest"]
        best = jnp.where(better[..., None, None], tried, state["best"])
        lowest = jnp.minimum(now, state["lowest"])
        return {"maps": maps, "adam": adam, "best": best, "lowest": lowest, "now": now}, losses


def write_maps(task: LinearTraining, maps: Any, spec: EncoderSpec, folder: Path) -> None:
    """Writes the trained matrices of each layer, and the orthogonal ones in closed form, as transforms."""
    training, validation = task.training, task.validation
    counts = dict(zip(training.codes, training.counts.tolist(), strict=True))
    trained, closed = np.asarray(maps), np.asarray(jax.jit(jax.vmap(jax.vmap(procrustes)))(training.cross))
    layers, dim = closed.shape[1:3]
    for layer in range(layers):
        for name, fit, matrices in (("layer", "trained", trained), ("procrustes", "closed", closed)):
            by_code = dict(zip(training.codes, matrices[:, layer], strict=True))
            transform = linear_maps(by_code, "en", counts, source=replace(spec, layer=layer), fit=fit)
            transform.save(folder / f"{name}-{layer}.safetensors")
    identity = np.broadcast_to(np.eye(dim, dtype=np.float32), closed.shape)
    losses = [moments_loss(matrices, *validation[2:]).mean(axis=0) for matrices in (identity, trained, closed)]
    rows = [[str(layer), *(f"{float(loss[layer]):.3f}" for loss in losses)] for layer in range(layers)]
    print_table("Validation loss, mean over languages", ["layer", "identity", "trained", "closed form"], rows)


@jax.jit
def _picked(model: EncoderModel, chunk: Chunk) -> Float[Array, "embedding layer dim"]:
    precision = "float32" if model.dtype == jnp.float32 else None
    with jax.default_matmul_precision(precision):
        states = model.hidden_states(chunk.ids, chunk.lengths)
        return jnp.stack([chunk.picked(hidden).astype(jnp.float32) for hidden in states], axis=1)


@jax.jit
def _sums(
    states: Float[Array, "embedding layer dim"],
    source: Int[Array, " link"],
    target: Int[Array, " link"],
    valid: Bool[Array, " link"],
) -> tuple[Float[Array, " layer"], Float[Array, "layer dim dim"], Float[Array, "layer dim dim"]]:
    s, t = (jnp.where(valid[:, None, None], states[side], 0).swapaxes(0, 1) for side in (source, target))
    turned = s.swapaxes(1, 2), t.swapaxes(1, 2)
    return jnp.square(s).sum(axis=(1, 2)), product(turned[0], t), product(turned[1], t)
