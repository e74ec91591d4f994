"""Filling Flax modules with the weights of a checkpoint, reading only the blocks that are needed.

Every leaf of the module must have a tensor, every tensor of the checkpoint must be known, and every shape must
match. All mismatches are listed in one error before any weight is read.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from lsar_jax.checkpoints.checkpoint import Checkpoint
from lsar_jax.checkpoints.weight_files import read_tensor
from lsar_jax.models.laser import Laser
from lsar_jax.models.projection import Dense
from lsar_jax.models.transformer import Transformer

__all__ = ["TRANSPOSED", "fill", "read_pooler"]

# Leaves that torch stores as [out, in].
TRANSPOSED = (".kernel", ".recurrent")
# Maximum number of mismatches to list; the config of another model would otherwise list every tensor of both.
_MOST_PROBLEMS = 20


def fill(
    checkpoint: Checkpoint,
    *,
    blocks: int,
    dtype: Any,
    param_dtype: Any = None,
    attention: str = "xla",
    put: Callable[[np.ndarray], Any] = lambda value: value,
) -> Transformer | Laser:
    """Returns the module with the first ``blocks`` blocks, its weights read from ``checkpoint``.

    Args:
      checkpoint: the checkpoint; blocks after ``blocks`` are neither read nor built.
      blocks: number of blocks to build.
      dtype: compute dtype.
      param_dtype: dtype of the parameters, by default ``dtype``.
      attention: attention of a transformer, one of ``lsar_jax.models.attention.ATTENTIONS``.
      put: places each weight on its devices; by default, weights stay in host memory.

    Raises:
      ValueError: tensors are missing, unexpected or mis-shaped (the error lists them), or a value is not finite.
    """
    config = replace(checkpoint.config, blocks=blocks)
    dtypes = {"dtype": jnp.dtype(dtype), "param_dtype": jnp.dtype(param_dtype or dtype)}

    def build() -> Transformer | Laser:
        return checkpoint.architecture.build(config, **dtypes, attention=attention)

    graph, state = nnx.split(nnx.eval_shape(build))
    leaves = [(path, ".".join(map(str, path)), leaf) for path, leaf in nnx.to_flat_state(state)]
    _check(checkpoint, {name: tuple(leaf.shape) for _, name, leaf in leaves})
    # Largest first: if a weight must be copied to its device, this happens while little else is in memory.
    filled = {}
    for path, name, leaf in sorted(leaves, key=lambda entry: -entry[2].size):
        filled[path] = leaf.replace(put(_read(checkpoint, name, leaf.dtype)))
    return nnx.merge(graph, nnx.from_flat_state([(path, filled[path]) for path, _, _ in leaves]))


def read_pooler(checkpoint: Checkpoint) -> Dense:
    """Reads the pooler of a BERT or XLM-R checkpoint: a dense layer with tanh on the state of the first token.

    Raises:
      ValueError: the architecture or the checkpoint has no pooler, or its weights do not fit.
    """
    names = [f"{checkpoint.architecture.pooler}.{part}" for part in ("weight", "bias")]
    if not checkpoint.architecture.pooler or not all(name in checkpoint.tensors for name in names):
        raise ValueError(f"{checkpoint.id} has no pooler; choose pooling='cls' for the state of its first token")
    weight, bias = (checkpoint.tensors[name] for name in names)
    dim = checkpoint.config.widths[-1]
    if (weight.shape, bias.shape) != ((dim, dim), (dim,)):
        raise ValueError(f"the pooler of {checkpoint.id} is {weight.shape} and {bias.shape}; expected width {dim}")
    return Dense(read_tensor(weight, names[0]), read_tensor(bias, names[1]), "tanh", name="pooler")


def _check(checkpoint: Checkpoint, shapes: Mapping[str, tuple[int, ...]]) -> None:
    tensors = checkpoint.tensors
    expected = {_key(checkpoint, name): _stored_shape(name, shape) for name, shape in shapes.items()}
    every = {
        key.format(block)
        for leaf, key in checkpoint.keys.items()
        for block in (range(checkpoint.config.blocks) if "{}" in leaf else (0,))
    }
    unexpected = [key for key in tensors if key not in every and not checkpoint.architecture.is_unused(key)]
    problems = [f"missing: {key}" for key in expected if key not in tensors]
    problems += [f"unexpected: {key}" for key in unexpected]
    problems += [
        f"mis-shaped: {key} is {list(tensors[key].shape)}, the config says {list(shape)}"
        for key, shape in expected.items()
        if key in tensors and tuple(tensors[key].shape) != shape
    ]
    problems += [
        f"not floating-point: {key} is {tensors[key].kind}"
        for key in expected
        if key in tensors and not tensors[key].is_float
    ]
    if problems:
        rest = len(problems) - _MOST_PROBLEMS
        shown = problems[:_MOST_PROBLEMS] + ([f"and {rest} more"] if rest > 0 else [])
        raise ValueError(f"the weights of {checkpoint.id} do not fit its config:\n  " + "\n  ".join(shown))


def _key(checkpoint: Checkpoint, name: str) -> str:
    block = re.match(r"blocks\.(\d+)\.", name)
    if block is None:
        return checkpoint.keys[name]
    template = checkpoint.keys["blocks.{}." + name[block.end() :]]
    return template.format(block[1])


def _stored_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[::-1] if name.endswith(TRANSPOSED) else shape


def _read(checkpoint: Checkpoint, name: str, dtype: Any) -> np.ndarray:
    key = _key(checkpoint, name)
    transpose = name.endswith(TRANSPOSED)
    return read_tensor(checkpoint.tensors[key], f"{key} of {checkpoint.id}", dtype, transpose=transpose)
