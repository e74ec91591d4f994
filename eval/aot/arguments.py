"""The shapes of programs, and their arguments as shapes on the devices of a mesh."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

from lsar_jax.mesh import replicated, split
from lsar_jax.models.laser import LaserConfig
from lsar_jax.models.transformer import TransformerConfig

__all__ = [
    "DTYPES",
    "SIZES",
    "XLM_R",
    "Dtype",
    "EncoderSize",
    "Sizes",
    "Trace",
    "everywhere",
    "floats",
    "integers",
    "key",
    "on_one",
    "over_devices",
    "some",
]

EncoderSize = Literal["base", "large"]
SIZES: tuple[EncoderSize, ...] = ("base", "large")
Dtype = Literal["bfloat16", "float32"]
DTYPES: tuple[Dtype, ...] = ("bfloat16", "float32")
# Traces a program for the devices of a mesh.
Trace = Callable[[Mesh], jax.stages.Traced]


# XLM-R's shapes (Conneau et al., ACL 2020, Table 5).
XLM_R: dict[EncoderSize, TransformerConfig] = {
    "base": TransformerConfig(250_002, 768, 12, 12, 3072, 514, 1, first_position=2, layer_norm_epsilon=1e-5),
    "large": TransformerConfig(250_002, 1024, 24, 16, 4096, 514, 1, first_position=2, layer_norm_epsilon=1e-5),
}
# LASER's (Artetxe and Schwenk, TACL 2019; the BPE vocabulary of the released encoder).
_LASER = LaserConfig(73_640, 320, 512, 5)


@dataclass(frozen=True)
class Sizes:
    """How large the programs are.

    Attributes:
      blocks: number of blocks of every encoder; None for as many as published.
      dim: width of the embeddings in fits, transforms and search.
      languages: number of languages; by default, Tatoeba's 36 and English.
      tokens: token positions of a call to an encoder on one device, those of a full batch.
      queries: number of queries of a search.
      candidates: number of candidates.
    """

    blocks: int | None = None
    dim: int = 768
    languages: int = 37
    tokens: int = 32_768
    queries: int = 20_480
    candidates: int = 131_072

    def transformer(self, size: EncoderSize) -> TransformerConfig:
        """Returns the sizes of XLM-R."""
        config = XLM_R[size]
        return config if self.blocks is None else replace(config, blocks=self.blocks)

    def laser(self) -> LaserConfig:
        """Returns the sizes of LASER."""
        return _LASER if self.blocks is None else replace(_LASER, blocks=self.blocks)


def some(shape: tuple[int, ...], dtype: Any) -> Any:
    """Returns what stands for an array, of which a trace needs only the shape and the dtype."""
    return jax.ShapeDtypeStruct(shape, dtype)


def floats(*shape: int) -> Any:
    """Returns what stands for an array of float32."""
    return some(shape, jnp.float32)


def integers(*shape: int) -> Any:
    """Returns what stands for an array of int32."""
    return some(shape, jnp.int32)


def everywhere(mesh: Mesh, *shapes: Any) -> tuple[Any, ...]:
    """Returns shapes, or trees of them, of which each device of a mesh holds a full copy."""
    return tuple(_placed(shape, replicated(mesh)) for shape in shapes)


def over_devices(mesh: Mesh, *shapes: Any, axis: int = 0) -> tuple[Any, ...]:
    """Returns shapes, or trees of them, of which an axis is split over the devices of a mesh."""
    return tuple(_placed(shape, split(mesh, axis)) for shape in shapes)


def key() -> Any:
    """Returns the shape of a random key."""
    return jax.eval_shape(lambda: jax.random.key(0))


def on_one(function: Callable[..., Any], *shapes: Any) -> Trace:
    """Returns what traces a function of these shapes, all on the same device."""
    return lambda mesh: jax.jit(function).trace(*everywhere(mesh, *shapes))


def _placed(shapes: Any, where: NamedSharding) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), shapes)
