"""The programs of encoding: a full batch of rows of one width, pooling, and what follows it."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from eval.bench.encoder_configs import CONFIGS, sizes_of
from eval.bench.programs.shapes import DTYPES, LASER, Sizes, Trace, integers, placed
from lsar_jax.encoders.program import Program, Weights, compiled
from lsar_jax.mesh import replicated, split
from lsar_jax.models.architectures import ARCHITECTURES
from lsar_jax.models.attention import attention_for
from lsar_jax.models.parts import LayerFactory
from lsar_jax.tokens.packing import BatchSizes, segments
from lsar_jax.tokens.tokenizer import Specials
from lsar_jax.transforms import Fit, Step, Transform

__all__ = ["programs"]


def programs(sizes: Sizes) -> dict[str, Trace]:
    """The programs by name."""
    traces: dict[str, Trace] = {}
    for name in CONFIGS:
        for dtype in DTYPES:
            trace = partial(_traced, sizes, name, dtype)
            if name in ("base", "large"):
                traces |= {f"encode/{name}/{dtype}/{width}": partial(trace, width) for width in (128, 512)}
                traces[f"encode/{name}/{dtype}/128/all-layers"] = partial(trace, 128, every_layer=True)
                traces[f"encode/{name}/{dtype}/128/lsar"] = partial(trace, 128, transformed=True)
            else:
                widths = (128, 512, 2048, 8192) if dtype == "bfloat16" else (128,)
                traces |= {f"encode/{name}/{dtype}/{width}": partial(trace, width) for width in widths}
    return traces | {f"encode/laser/{dtype}/128": partial(_traced, sizes, "laser", dtype, 128) for dtype in DTYPES}


def _traced(
    sizes: Sizes, name: str, dtype: str, width: int, mesh: Mesh, *, every_layer: bool = False, transformed: bool = False
) -> jax.stages.Traced:
    """Traces a full batch; with ``transformed``, LSAR follows, and vectors are scaled to length 1."""
    architecture, config = (ARCHITECTURES[name], LASER) if name == "laser" else sizes_of(CONFIGS[name])
    config = sizes.of(config)
    layers = tuple(range(config.blocks + 1)) if every_layer else (config.blocks,)
    program = Program(architecture.pooling, Specials(int(name != "laser"), 1), layers, normalize=transformed)
    factory = LayerFactory(jnp.dtype(dtype), jnp.dtype(dtype), attention_for(mesh.devices.flat[0]))
    model = nnx.eval_shape(partial(architecture.build, config, factory))
    rows = BatchSizes(sizes.tokens, sizes.tokens, mesh.size).full(width)
    most = segments(width)
    vectors = integers(rows * most)
    step = Step(basis=jnp.zeros((config.hidden, sizes.languages - 1)))
    lsar = Transform((step,), (Fit("lsar", config.hidden, (), ()),)) if transformed else None
    batch = integers(rows, width), integers(rows, most), vectors, (vectors,) * transformed
    model, lsar = placed(replicated(mesh), model, lsar)
    return compiled(mesh, name == "laser").trace(program, Weights.of(model), None, lsar, *placed(split(mesh), *batch))
