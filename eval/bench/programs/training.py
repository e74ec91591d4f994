"""The programs of a step of training: heads of meaning and language, and the alignment of an encoder."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh

from eval.bench.encoder_configs import CONFIGS, sizes_of
from eval.bench.programs.shapes import Sizes, Trace, array, floats, integers, placed
from lsar_jax.mesh import replicated, split
from lsar_jax.models.attention import attention_for
from lsar_jax.models.parts import LayerFactory
from lsar_jax.objectives.disentangle import Objective
from lsar_jax.tokens.packing import segments
from lsar_jax.tokens.tokenizer import Specials
from train.align.batches import Chunk, PairBatch
from train.align.options import AlignOptions
from train.align.steps import EncoderObjective, EncoderSteps, StepOptions
from train.disentangle.steps import PairTable, init, run
from train.encoder_parameters import EncoderParts, take_apart
from train.training_task import Steps

__all__ = ["programs"]

# Of heads: sentence pairs in all, in a batch, and steps of one program.
_PAIRS, _BATCH, _STEPS = 50_000, 512, 90
# Of alignment: token positions of a sentence, and word links of a pair.
_LENGTH, _LINKS = 96, 16


def programs(sizes: Sizes) -> dict[str, Trace]:
    """The programs by name; an alignment's ends with its number of sentence pairs on a device."""
    traces: dict[str, Trace] = {
        f"disentangle/{base}/{seeds}-seeds": partial(_disentangle, sizes, Objective(base), seeds)
        for base in ("meat", "dream")
        for seeds in (1, 5)
    }
    for objective in ("l2", "weak", "strong", "sentence"):
        traces[f"align/{objective}/base/16"] = partial(_align, sizes, objective, "base", 16)
    traces["align/strong/base/64"] = partial(_align, sizes, "strong", "base", 64)
    return traces | {"align/strong/large/16": partial(_align, sizes, "strong", "large", 16)}


def _disentangle(sizes: Sizes, objective: Objective, seeds: int, mesh: Mesh) -> jax.stages.Traced:
    """Traces some steps of the heads, for several seeds in parallel."""
    state, keys = jax.eval_shape(partial(init, tuple(range(seeds)), sizes.dim, sizes.languages, 1e-5))
    pair, language = integers(_PAIRS), integers(sizes.languages)
    pairs = PairTable(floats(2 * _PAIRS, sizes.dim), pair, pair, pair, language, language)
    order, active = integers(seeds, _STEPS, _BATCH), array((seeds,), bool)
    steps = Steps(order, integers(), integers(), active)  # type: ignore[arg-type]
    arguments = placed(replicated(mesh), state, pairs, steps, keys)
    return run.trace(*arguments, objective=objective, learning_rate=1e-5, mesh=mesh)


def _align(sizes: Sizes, objective: EncoderObjective, name: str, pairs: int, mesh: Mesh) -> jax.stages.Traced:
    """Traces a step in bfloat16 with float32 parameters, which computes blocks again for the gradient."""
    architecture, config = sizes_of(CONFIGS[name])
    config = sizes.of(config)
    factory = LayerFactory(jnp.dtype("bfloat16"), jnp.dtype("float32"), attention_for(mesh.devices.flat[0]))
    model = nnx.eval_shape(partial(architecture.build, config, factory))
    skeleton, trained, _ = take_apart(EncoderParts(model, None), False)
    options = StepOptions(
        objective, config.blocks, "mean", Specials(1, 1), AlignOptions(stay_close=1.0, dropout=0.1, remat=True)
    )
    # The parameters that the drift is measured from are an argument of the step: there are no arrays to place.
    steps = EncoderSteps((skeleton, {}, {}), options, optax.constant_schedule(1e-5), mesh)
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(steps.unplaced, trained, key)
    on_words = objective != "sentence"
    count, links = 2 * pairs * mesh.size, (_LINKS if on_words else 1) * pairs * mesh.size
    places = segments(_LENGTH)
    # Batches have room for half of the positions.
    picks = integers(mesh.size, pairs * _LENGTH if on_words else 0)
    rows = integers(count, _LENGTH), integers(count, places), picks
    index, valid, state, key, start = placed(
        replicated(mesh), integers(links), array((links,), bool), state, key, trained
    )
    chunk, tokens = Chunk(*placed(split(mesh), *rows)), count * _LENGTH
    batch = PairBatch((chunk,), np.zeros(0, np.float32), index, index, valid, tokens, np.zeros(0, np.int32))
    with jax.numpy_dtype_promotion("standard"):  # as the step itself runs
        return steps.whole.trace(state, batch, key, {}, start)
