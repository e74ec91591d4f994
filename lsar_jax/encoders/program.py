"""The program that runs on the devices: blocks, pooling of each layer as it comes, projection, transform."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from lsar_jax.arrays import unit_rows
from lsar_jax.encoders.protocols import EncoderModel
from lsar_jax.models.pooling import pool
from lsar_jax.models.projection import Projection
from lsar_jax.shapes import LanguageIds, Lengths, PooledLayers, TokenIds
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["Program", "forward"]


@dataclass(frozen=True)
class Program:
    """What a compiled program is fixed to, besides the shapes of its arguments.

    Attributes:
      pooling: one of ``lsar_jax.models.pooling.POOLINGS``.
      specials: special tokens around each sentence.
      layers: hidden-state layers to return.
      normalize: whether to scale each vector to length 1 at the end.
      auto: whether the transform finds the language of each row itself.
    """

    pooling: str
    specials: Specials
    layers: tuple[int, ...]
    normalize: bool = False
    auto: bool = False


def forward(
    program: Program,
    model: EncoderModel,
    projection: Projection | None,
    transform: Any,
    ids: TokenIds,
    lengths: Lengths,
    language_ids: tuple[jax.Array, ...],
) -> PooledLayers:
    """Returns the embeddings of a batch for each of ``program.layers``; compiled once per batch shape.

    Args:
      program: static under ``jit``.
      model: the blocks.
      projection: applied after the pooling, if any.
      transform: an ``EmbeddingTransform`` applied after the projection, or None; not declared as one, since Python 3.11
        checks a protocol by reading its properties, and a traced transform has no digests.
      ids: token ids.
      lengths: tokens in each row.
      language_ids: of each row, the row of the model's own language table, if it has one, and then of the table of
        each step of the transform.
    """
    steps = 0 if transform is None else len(transform.steps)
    pooled: dict[int, jax.Array] = {}
    own = language_ids[: len(language_ids) - steps]
    # By default a float32 product is one bfloat16 pass on TPU and TF32 on GPU.
    precision = "float32" if model.dtype == jnp.float32 else None
    with jax.default_matmul_precision(precision):
        for layer, hidden in enumerate(model.hidden_states(ids, lengths, *own)):
            if layer in program.layers:
                pooled[layer] = pool(program.pooling, hidden, lengths, program.specials)
            if layer == max(program.layers):
                break
    result = jnp.stack([pooled[layer] for layer in program.layers])
    if projection is not None:
        result = projection(result)
    if transform is not None:
        rows: tuple[LanguageIds, ...] = language_ids[len(own) :]
        if program.auto and transform.languages is not None:
            # With a transform, every layer asked for is the one that it was fitted on.
            rows = transform.auto_ids(result[0])
        result = jax.vmap(transform.apply, in_axes=(0, None))(result, rows)
    return unit_rows(result) if program.normalize else result
