"""The program that runs on the devices: blocks, pooling after each layer, projection and transform."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Bool, Int

from lsar_jax.arrays import unit_rows
from lsar_jax.models.attention import attention_for
from lsar_jax.models.pooling import pool
from lsar_jax.models.projection import Projection
from lsar_jax.shapes import AnyArray, Hidden, LanguageIds, Lengths, PooledLayers, SegmentLanguages, TokenIds
from lsar_jax.tokens.tokenizer import Specials
from lsar_jax.transforms import Transform

__all__ = ["EncoderModel", "Program", "Weights", "compiled", "forward"]

# The structures of models, of which equal ones are one object; the attributes of a model's modules, then and now; and
# the variables that hold its arrays.
_structures: dict[Any, Any] = {}
_models: WeakKeyDictionary[Any, tuple[Any, list[tuple[dict[str, Any], dict[str, Any]]], list[Any]]]
_models = WeakKeyDictionary()


@runtime_checkable
class EncoderModel(Protocol):
    """A Flax module; its config has ``widths`` of layers 0, 1, ..., and ``longest``, the most tokens it takes."""

    config: Any
    dtype: Any

    def hidden_states(
        self, ids: TokenIds, lengths: Lengths, languages: SegmentLanguages | None = None
    ) -> Iterator[Hidden]:
        """Yields layer 0, then the output of each block."""
        ...


@dataclass(frozen=True)
class Program:
    """The static argument of a compiled program, which is specialized to it and to the shapes of its arguments.

    Attributes:
      pooling: one of ``lsar_jax.models.pooling.POOLINGS``, or several joined by ``+``.
      specials: number of special tokens around each sentence.
      layers: hidden-state layers to return.
      normalize: whether each vector is divided by its length at the end.
      auto: whether the transform detects the language of each sentence.
      prompt: number of tokens at the beginning of each sentence that are not pooled.
    """

    pooling: str
    specials: Specials
    layers: tuple[int, ...]
    normalize: bool = False
    auto: bool = False
    prompt: int = 0


@partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["structure"])
@dataclass(frozen=True)
class Weights:
    """The arrays of a model as they are now, and its structure, which flax takes a millisecond to find."""

    arrays: list[Any]
    structure: Any

    @classmethod
    def of(cls, model: Any) -> "Weights":
        """Takes a model apart."""
        if model not in _models or not all(map(_same, _models[model][1])):
            structure = jax.tree.structure(model)
            variables = jax.tree.leaves(model, is_leaf=lambda x: isinstance(x, nnx.Variable))
            _models[model] = _structures.setdefault(structure, structure), list(_attributes(model)), variables
        structure, _, variables = _models[model]
        return cls([variable.get_value() for variable in variables], structure)


def _attributes(module: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yields the attributes of a module, and of those inside it, as they are now, beside where they are."""
    yield vars(module).copy(), vars(module)
    for child in vars(module).values():
        if isinstance(child, nnx.Pytree):
            yield from _attributes(child)


def _same(attributes: tuple[dict[str, Any], dict[str, Any]]) -> bool:
    """Whether the attributes of a module are still the same objects."""
    then, now = attributes
    return len(then) == len(now) and all(now.get(name) is value for name, value in then.items())


def forward(
    program: Program,
    model: EncoderModel,
    projection: Projection | None,
    transform: Transform | None,
    ids: TokenIds,
    lengths: Lengths,
    places: Int[AnyArray, " vector"],
    language_ids: tuple[jax.Array, ...],
) -> tuple[PooledLayers, Bool[jax.Array, " vector"] | None]:
    """Returns the embeddings of a batch, ``[layer, vector, dim]``.

    Args:
      program: static under ``jit``.
      model: the blocks.
      projection: applied after the pooling, if any.
      transform: applied after the projection, if any.
      ids: token ids, ``[batch, length]``.
      lengths: number of tokens of each sentence in a row, ``[batch, segment]``.
      places: which of the ``batch x segment`` sentences to return, ``[vector]``.
      language_ids: row of the language of each of them in the language table of the model, if it has one, and of each
        step of the transform.

    Returns:
      The embeddings and, with ``program.auto``, whether the language of each is none that the identifier knows.
    """
    unknown = None
    tables = len(language_ids) - (0 if transform is None else len(transform.steps))
    rows = language_ids[tables:]
    # The model takes languages in the order of the segments.
    embedded = [jnp.zeros_like(row).at[places].set(row).reshape(lengths.shape) for row in language_ids[:tables]]
    pooled: dict[int, jax.Array] = {}
    # By default a float32 product runs as one bfloat16 pass on TPU and in TF32 on GPU.
    precision = "float32" if model.dtype == jnp.float32 else None
    with jax.default_matmul_precision(precision):
        for layer, hidden in enumerate(model.hidden_states(ids, lengths, *embedded)):
            if layer in program.layers:
                vectors = pool(program.pooling, hidden, lengths, program.specials, program.prompt)
                pooled[layer] = vectors.reshape(-1, vectors.shape[2])[places]
            if layer == max(program.layers):
                break
    result = jnp.stack([pooled[layer] for layer in program.layers])
    if projection is not None:
        result = projection(result)
    if transform is not None:
        chosen: tuple[LanguageIds, ...] = rows
        if program.auto and transform.languages is not None:
            # With a transform, the only layer that can be requested is the one it was fitted on.
            chosen, unknown = transform.detected(result[0])
        result = jax.vmap(transform.apply, in_axes=(0, None))(result, chosen)
    return unit_rows(result) if program.normalize else result, unknown


@cache
def compiled(mesh: Mesh, recurrent: bool) -> jax.stages.Wrapped:
    """Returns ``forward`` under ``jit``, with rows split over the mesh; encoders of one architecture share programs.

    In place of the model it takes ``Weights``. Each device runs its rows as if it were alone, without collectives;
    where weights are split, XLA derives what a group of devices does together. For LASER, ``recurrent``, the choice of
    products below was not measured.
    """

    def over_mesh(program: Program, weights: Weights, *arguments: Any) -> tuple[jax.Array, jax.Array | None]:
        everywhere, rows = PartitionSpec(), PartitionSpec("data")
        each = jax.shard_map(
            partial(forward, program), mesh=mesh, in_specs=(*[everywhere] * 3, *[rows] * 4),
            out_specs=(PartitionSpec(None, "data"), rows), axis_names={"data"}, check_vma=False,
        )  # fmt: skip
        return each(jax.tree.unflatten(weights.structure, weights.arrays), *arguments)

    options = None
    if not recurrent and attention_for(mesh.devices.flat[0]) == "cudnn":
        # On an H100, a program of XLM-R base in bfloat16 took 11.2 ms with the products of cuBLAS alone, and 12.7 ms
        # where XLA chose between them and its own kernels; in float32, it took as long, but compiled in 5 s, not 20.
        options = {"xla_gpu_enable_triton_gemm": False}
    return jax.jit(over_mesh, static_argnums=0, compiler_options=options)
