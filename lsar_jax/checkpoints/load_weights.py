"""Loading the weights of a checkpoint into Flax modules; only the blocks that are needed are read.

All tensors that are missing, unknown or mis-shaped are listed in one error before any weight is read.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from lsar_jax.checkpoints.checkpoint import Checkpoint
from lsar_jax.checkpoints.placement import check_memory, weight_sharding
from lsar_jax.checkpoints.weight_files import read_tensor
from lsar_jax.models.encoder import Encoder
from lsar_jax.models.laser import Laser
from lsar_jax.models.parts import LayerFactory
from lsar_jax.models.projection import Dense

__all__ = ["TRANSPOSED", "load_weights", "read_pooler", "tensor_name"]

# Leaves that torch stores as [out, in].
TRANSPOSED = ("kernel", "recurrent")
# Maximum number of mismatches to list; the config of another model would otherwise list every tensor of both.
_MOST_PROBLEMS = 20


def tensor_name(keys: Mapping[str, str], path: tuple[Any, ...]) -> str:
    """Returns the name of a leaf's tensor, given ``Checkpoint.keys`` and the path of the leaf in the module."""
    if path[0] != "blocks":
        return keys[".".join(map(str, path))]
    return keys[".".join(["blocks", "{}", *map(str, path[2:])])].format(path[1])


def load_weights(
    checkpoint: Checkpoint,
    *,
    blocks: int,
    dtype: Any,
    param_dtype: Any = None,
    attention: str = "xla",
    final_norm: bool = False,
    mesh: Mesh | None = None,
) -> Encoder | Laser:
    """Returns the module with the first ``blocks`` blocks, its weights read from ``checkpoint``.

    Args:
      checkpoint: the checkpoint; blocks after ``blocks`` are not read.
      blocks: number of blocks to build.
      dtype: compute dtype.
      param_dtype: dtype of the parameters, by default ``dtype``.
      attention: attention of a transformer, one of the kinds that ``attend`` takes.
      final_norm: whether the final norm is applied to all layers that are returned, not only to the last.
      mesh: devices of the weights; by default, weights stay in host memory.

    Raises:
      ValueError: there is no final norm; tensors are missing, unexpected or mis-shaped (the error lists them); the
        devices have too little memory; or a value is not finite.
    """
    config = replace(checkpoint.config, blocks=blocks)
    factory = LayerFactory(jnp.dtype(dtype), jnp.dtype(param_dtype or dtype), attention)

    def build() -> Any:
        model = checkpoint.architecture.build(config, factory)
        if getattr(model, "norm", None) is None:
            if final_norm:
                raise ValueError(f"{checkpoint.id} has no final norm; leave out final_norm")
        elif final_norm:
            model.norm_inner = True
        elif blocks < checkpoint.config.blocks:
            model.norm = None  # it belongs to the last block
        return model

    graph, state = nnx.split(nnx.eval_shape(build))
    leaves = list(nnx.to_flat_state(state))
    names = {path: tensor_name(checkpoint.keys, path) for path, _ in leaves}
    shapes = {names[at]: leaf.shape[::-1] if at[-1] in TRANSPOSED else leaf.shape for at, leaf in leaves}
    _check(checkpoint, shapes, blocks)
    if mesh is not None:
        check_memory(mesh, dict(leaves), checkpoint.id)
    # Largest first: if a weight must be copied to its device, this happens while little else is in memory.
    filled = {}
    for path, leaf in sorted(leaves, key=lambda item: -item[1].size):
        tensor, name = checkpoint.tensors[names[path]], f"{names[path]} of {checkpoint.id}"
        value: Any = read_tensor(tensor, name, leaf.dtype, transpose=path[-1] in TRANSPOSED)
        if mesh is not None:
            value = jax.device_put(value, weight_sharding(mesh, path, leaf.shape)).block_until_ready()
        filled[path] = leaf.replace(value)
    return nnx.merge(graph, nnx.from_flat_state([(path, filled[path]) for path, _ in leaves]))


def read_pooler(checkpoint: Checkpoint) -> Dense:
    """Reads the pooler of a BERT or XLM-R checkpoint: a dense layer with tanh on the state of the first token.

    Raises:
      ValueError: there is no pooler, or its weights do not fit.
    """
    names = [f"{checkpoint.architecture.pooler}.{part}" for part in ("weight", "bias")]
    found, dim = [checkpoint.tensors.get(name) for name in names], checkpoint.config.widths[-1]
    if [tensor and tensor.shape for tensor in found] != [(dim, dim), (dim,)]:
        raise ValueError(f"{checkpoint.id} has no pooler of width {dim}; choose pooling='cls' for its first token")
    weight, bias = (read_tensor(checkpoint.tensors[name], name) for name in names)
    return Dense(weight, bias, "tanh")


def _check(checkpoint: Checkpoint, expected: Mapping[str, tuple[int, ...]], built: int) -> None:
    """Raises ValueError unless the checkpoint has the tensors of these shapes, and no tensor that is not known."""
    # A block that is built has the expected tensors alone: not each key has a tensor in every block, or every config.
    later = range(built, checkpoint.config.blocks)
    known = {key.format(block) for key in checkpoint.keys.values() for block in (later if "{}" in key else (0,))}
    known |= set(expected)
    unused = checkpoint.architecture.is_unused
    problems = [f"unexpected: {key}" for key in checkpoint.tensors if key not in known and not unused(key)]
    for key, shape in expected.items():
        tensor = checkpoint.tensors.get(key)
        if tensor is None:
            problems.append(f"missing: {key}")
        elif tensor.shape != shape:
            problems.append(f"mis-shaped: {key} is {list(tensor.shape)}, the config says {list(shape)}")
        elif tensor.kind not in ("F64", "F32", "F16", "BF16"):
            problems.append(f"not floating-point: {key} is {tensor.kind}")
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        shown = problems[:_MOST_PROBLEMS] + [f"and {more} more"] * (more > 0)
        raise ValueError(f"the weights of {checkpoint.id} do not fit its config:\n  " + "\n  ".join(shown))
