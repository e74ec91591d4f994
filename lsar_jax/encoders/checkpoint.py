"""Checkpoints to Flax modules: read strictly, only the blocks asked for.

Every leaf of the module must be filled, every tensor of the checkpoint must be known, every shape
must fit; what does not is one error that lists it all, before anything is computed.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from lsar_jax.encoders.families import Config, Family, family_of
from lsar_jax.encoders.files import CONFIG_FILES, TOKENIZER_FILES, read_json, sha256
from lsar_jax.encoders.laser import Laser, LaserConfig
from lsar_jax.encoders.pipeline import Pipeline, read_pipeline, transformer_folder
from lsar_jax.encoders.tensors import Tensor, open_safetensors, read_tensor
from lsar_jax.encoders.transformer import Transformer, sinusoids
from lsar_jax.head import Dense
from lsar_jax.tokenization import Tokenizer

__all__ = ["TRANSPOSED", "Checkpoint", "fill", "read_folder", "read_pooler"]

# Leaves that torch keeps as [out, in].
TRANSPOSED = (".kernel", ".recurrent")
# Lines of an error; a config for another model would list every tensor of both.
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: sizes and names are known, weights are still on disk.

    Attributes:
      id: as in ``EncoderSpec``.
      revision: as in ``EncoderSpec``.
      family: its architecture.
      config: sizes of the whole model.
      keys: leaf of the module -> tensor; ``{}`` is the block.
      tensors: all of them, by the checkpoint's name.
      tokenizer: ready to use.
      pipeline: what its authors do after the blocks.
      languages: rows of the language embeddings, None if there are none.
    """

    id: str
    revision: str
    family: Family
    config: Config
    keys: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    pipeline: Pipeline
    languages: Mapping[str, int] | None = None


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
      checkpoint: later blocks are neither read nor built.
      blocks: how many.
      dtype: compute dtype.
      param_dtype: of the parameters, by default ``dtype``.
      attention: of a transformer, ``xla`` or ``cudnn``.
      put: takes each weight to its devices; by default they stay in host memory.

    Raises:
      ValueError: missing, unexpected or mis-shaped tensors, all of them; or a value that is not finite.
    """
    config = replace(checkpoint.config, blocks=blocks)
    dtypes = {"dtype": jnp.dtype(dtype), "param_dtype": jnp.dtype(param_dtype or dtype)}

    def build() -> Transformer | Laser:
        if isinstance(config, LaserConfig):
            return Laser(config, **dtypes)
        return Transformer(config, **dtypes, attention=attention)

    graph, state = nnx.split(nnx.eval_shape(build))
    leaves = [(path, ".".join(map(str, path)), leaf) for path, leaf in nnx.to_flat_state(state)]
    _check(checkpoint, {name: tuple(leaf.shape) for _, name, leaf in leaves})
    # The largest first: where a device needs a copy, it is made while little else is held.
    filled = {}
    for path, name, leaf in sorted(leaves, key=lambda entry: -entry[2].size):
        filled[path] = leaf.replace(put(_read(checkpoint, name, leaf.dtype)))
    return nnx.merge(graph, nnx.from_flat_state([(path, filled[path]) for path, _, _ in leaves]))


def read_pooler(checkpoint: Checkpoint) -> Dense:
    """Reads the pooler of a BERT or XLM-R checkpoint: dense and tanh on the first token's state.

    Raises:
      ValueError: the architecture or the checkpoint has none, or its weights do not fit.
    """
    names = [f"{checkpoint.family.pooler}.{part}" for part in ("weight", "bias")]
    if not checkpoint.family.pooler or not all(name in checkpoint.tensors for name in names):
        raise ValueError(f"{checkpoint.id} has no pooler; choose pooling='cls' for the state of its first token")
    weight, bias = (checkpoint.tensors[name] for name in names)
    dim = checkpoint.config.widths[-1]
    if (weight.shape, bias.shape) != ((dim, dim), (dim,)):
        raise ValueError(f"the pooler of {checkpoint.id} is {weight.shape} and {bias.shape}, expected width {dim}")
    return Dense(read_tensor(weight, names[0]), read_tensor(bias, names[1]), "tanh", name="pooler")


def read_folder(folder: Path, *, id: str, revision: str | None = None) -> Checkpoint:
    """Opens a Hugging Face or sentence-transformers folder, or what ``lsar-jax convert`` wrote.

    Raises:
      FileNotFoundError: a file is not there.
      ValueError: another architecture, or a config that is not understood.
    """
    path = transformer_folder(folder) / "config.json"
    config = read_json(path, dict)
    try:
        family = family_of(config)
        sizes = family.read_config(config)
        languages = family.languages(config)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    pipeline = read_pipeline(folder, family.pooling)
    if pipeline.width not in (None, sizes.widths[-1]):
        raise ValueError(f"{folder}: the Pooling takes width {pipeline.width}, the blocks make {sizes.widths[-1]}")
    tensors, weights = _open(pipeline.transformer, folder, family)
    if family.model_type == "xlm" and config.get("sinusoidal_embeddings"):
        table = sinusoids(sizes.positions, sizes.widths[0])
        tensors.setdefault("position_embeddings.weight", Tensor(table.shape, lambda a, b: table[a:b]))
    return Checkpoint(
        id=id,
        revision=revision or sha256([*weights, *_other_files(folder)]),
        family=family,
        config=sizes,
        keys=_keys(family, sizes),
        tensors=tensors,
        tokenizer=family.tokenizer(pipeline.transformer, sizes, config),
        pipeline=pipeline,
        languages=languages,
    )


def _keys(family: Family, sizes: Config) -> dict[str, str]:
    """The family's table without the embeddings that this checkpoint does not have."""
    optional = {"embeddings.token_type.embedding": "token_types", "embeddings.language.embedding": "languages"}
    return {leaf: key for leaf, key in family.keys.items() if leaf not in optional or getattr(sizes, optional[leaf])}


def _open(folder: Path, root: Path, family: Family) -> tuple[dict[str, Tensor], list[Path]]:
    found, paths = open_safetensors(folder, root=root)
    tensors: dict[str, Tensor] = {}
    twice = []
    for key, tensor in found.items():
        name = family.plain_name(key)
        if name in tensors:
            twice.append(key)
        tensors[name] = tensor
    if twice:
        raise ValueError(f"{folder} has these weights twice, under two names: {', '.join(twice)}")
    return tensors, paths


def _check(checkpoint: Checkpoint, shapes: Mapping[str, tuple[int, ...]]) -> None:
    tensors = checkpoint.tensors
    expected = {_key(checkpoint, name): _stored_shape(name, shape) for name, shape in shapes.items()}
    every = {
        key.format(block)
        for leaf, key in checkpoint.keys.items()
        for block in (range(checkpoint.config.blocks) if "{}" in leaf else (0,))
    }
    unexpected = [key for key in tensors if key not in every and not checkpoint.family.is_unused(key)]
    problems = [f"missing: {key}" for key in expected if key not in tensors]
    problems += [f"unexpected: {key}" for key in unexpected]
    problems += [
        f"mis-shaped: {key} is {list(tensors[key].shape)}, the config says {list(shape)}"
        for key, shape in expected.items()
        if key in tensors and tuple(tensors[key].shape) != shape
    ]
    problems += [
        f"not numbers of floating point: {key} is {tensors[key].kind}"
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


def _other_files(folder: Path) -> list[Path]:
    """What the embeddings depend on besides the weights: configs, tokenizer, Dense layers."""
    names = (*CONFIG_FILES, *TOKENIZER_FILES)
    patterns = [*names, *(f"*/{name}" for name in names), "*/model.safetensors"]
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})
