"""The programs of encoding: a full batch of one width, mean pooling, and what follows it."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from eval.aot.arguments import DTYPES, SIZES, Dtype, EncoderSize, Sizes, Trace, everywhere, integers, over_devices
from lsar_jax.encoders.program import Program, compiled
from lsar_jax.models.attention import attention_for
from lsar_jax.models.laser import Laser
from lsar_jax.models.transformer import Transformer
from lsar_jax.tokens.tokenizer import Specials
from lsar_jax.transforms import Fit, Step, Transform

__all__ = ["programs"]

_WIDTHS = (32, 128, 512)


def programs(sizes: Sizes) -> dict[str, Trace]:
    """Returns the programs by name."""
    found: dict[str, Trace] = {}
    for size in SIZES:
        for dtype in DTYPES:
            of = partial(_encode, sizes, size, dtype)
            found |= {f"encode/{size}/{dtype}/{width}": partial(of, width) for width in _WIDTHS}
            found[f"encode/{size}/{dtype}/128/all-layers"] = partial(of, 128, every_layer=True)
            found[f"encode/{size}/{dtype}/128/lsar"] = partial(of, 128, transformed=True)
    return found | {f"encode/laser/{dtype}/128": partial(_encode_laser, sizes, dtype, 128) for dtype in DTYPES}


def _encode(
    sizes: Sizes,
    size: EncoderSize,
    dtype: Dtype,
    width: int,
    mesh: Mesh,
    *,
    every_layer: bool = False,
    transformed: bool = False,
) -> jax.stages.Traced:
    """Traces a full batch; with ``transformed``, LSAR follows, and vectors are scaled to length 1."""
    config = sizes.transformer(size)
    attention = attention_for(mesh.devices.flat[0])
    model = nnx.eval_shape(partial(Transformer, config, **_dtypes(dtype), attention=attention))
    layers = tuple(range(config.blocks + 1)) if every_layer else (config.blocks,)
    program = Program("mean", Specials(1, 1), layers, normalize=transformed)
    return _traced(mesh, program, model, sizes.tokens // width, width, _lsar(sizes, config.hidden, transformed))


def _encode_laser(sizes: Sizes, dtype: Dtype, width: int, mesh: Mesh) -> jax.stages.Traced:
    config = sizes.laser()
    model = nnx.eval_shape(partial(Laser, config, **_dtypes(dtype)))
    program = Program("max", Specials(0, 1), (config.blocks,))
    return _traced(mesh, program, model, sizes.tokens // width, width, None)


def _traced(mesh: Mesh, program: Program, model: Any, count: int, width: int, transform: Any) -> jax.stages.Traced:
    model, transform = everywhere(mesh, model, transform)
    count *= mesh.size
    shapes = over_devices(mesh, integers(count, width), integers(count))
    languages = over_devices(mesh, *[integers(count)] * (transform is not None))
    return compiled(mesh, isinstance(model, Laser)).trace(program, model, None, transform, *shapes, languages)


def _lsar(sizes: Sizes, dim: int, wanted: bool) -> Transform | None:
    if not wanted:
        return None
    return Transform((Step(basis=jnp.zeros((dim, sizes.languages - 1))),), (Fit("lsar", dim, (), ()),))


def _dtypes(dtype: Dtype) -> dict[str, Any]:
    return {"dtype": jnp.dtype(dtype), "param_dtype": jnp.dtype(dtype)}
