"""The sizes of programs, and their arguments as shapes on the devices of a mesh, without arrays."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

from lsar_jax.mesh import replicated
from lsar_jax.models.laser import LaserConfig

__all__ = ["DTYPES", "LASER", "Sizes", "Trace", "array", "floats", "integers", "on_one", "placed"]

Dtype = Literal["bfloat16", "float32"]
DTYPES: tuple[Dtype, ...] = ("bfloat16", "float32")
# Traces a program for the devices of a mesh.
Trace = Callable[[Mesh], jax.stages.Traced]

# LASER's sizes (Artetxe and Schwenk, TACL 2019; the BPE vocabulary of the released encoder).
LASER = LaserConfig(73_640, 320, 512, 5)


@dataclass(frozen=True)
class Sizes:
    """The sizes of programs."""

    blocks: int | None = None  # of every encoder; None for as many as published
    dim: int = 768  # of embeddings in fits, transforms and search
    languages: int = 37  # Tatoeba's 36 and English
    tokens: int = 32_768  # positions of a call to an encoder on one device, those of a full batch
    queries: int = 20_480
    candidates: int = 131_072

    def of(self, config: Any) -> Any:
        """The config of an encoder with the number of blocks of these sizes."""
        return config if self.blocks is None else replace(config, blocks=self.blocks)


array = jax.ShapeDtypeStruct


def floats(*shape: int) -> Any:
    """An array of float32."""
    return array(shape, jnp.float32)


def integers(*shape: int) -> Any:
    """An array of int32."""
    return array(shape, jnp.int32)


def placed(where: NamedSharding, *arrays: Any) -> tuple[Any, ...]:
    """Shapes, or trees of them, on the devices of a sharding."""
    return jax.tree.map(lambda x: array(x.shape, x.dtype, sharding=where), arrays)


def on_one(function: Callable[..., Any], *arrays: Any) -> Trace:
    """The trace of a function of these shapes, all on the same device."""
    return lambda mesh: jax.jit(function).trace(*placed(replicated(mesh), *arrays))
