"""The program on the devices: blocks, pooling of each layer as it comes, head, transform."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from lsar_jax.head import Head, unit
from lsar_jax.pooling import pool
from lsar_jax.shapes import Hidden, LanguageIds, Lengths, PooledLayers, RowLanguages, TokenIds
from lsar_jax.tokenization import Specials
from lsar_jax.transforms.base import Transform
from lsar_jax.transforms.step import affine

__all__ = ["Encoder", "forward"]


@runtime_checkable
class Encoder(Protocol):
    """What a Flax module must have to be a ``SentenceEncoder``'s model.

    Attributes:
      config: with ``widths``, of a hidden state of layer 0, 1, ...; and ``longest``.
      dtype: compute dtype.
    """

    config: Any
    dtype: Any

    def hidden_states(self, ids: TokenIds, lengths: Lengths, languages: RowLanguages | None = None) -> Iterator[Hidden]:
        """Yields layer 0, then the output of each block."""
        ...


def forward(
    model: Encoder,
    head: Head | None,
    transform: Transform | None,
    ids: TokenIds,
    lengths: Lengths,
    language_ids: tuple[jax.Array, ...],
    *,
    pooling: str,
    specials: Specials,
    layers: tuple[int, ...],
    normalize: bool,
    auto: bool,
) -> PooledLayers:
    """Returns the embeddings of a batch, for each of ``layers``; one jitted program a batch shape.

    ``language_ids`` are rows of the model's own table, if it has one, and then of each of the
    transform's steps; ``auto`` finds the latter from the embeddings.
    """
    steps = () if transform is None else transform.steps
    pooled: dict[int, jax.Array] = {}
    # The model's own table comes first, if it has one.
    own = language_ids[: len(language_ids) - len(steps)]
    # By default a float32 product is a bfloat16 pass on TPU and TF32 on GPU.
    precision = "float32" if model.dtype == jnp.float32 else None
    with jax.default_matmul_precision(precision):
        for layer, hidden in enumerate(model.hidden_states(ids, lengths, *own)):
            if layer in layers:
                pooled[layer] = pool(pooling, hidden, lengths, specials)
            if layer == max(layers):
                break
    result = jnp.stack([pooled[layer] for layer in layers])
    if head is not None:
        result = head(result)
    rows: tuple[LanguageIds, ...] = language_ids[len(own) :]
    if auto and transform is not None and transform.languages is not None:
        # With a transform all layers are the one that it was fitted on.
        rows = transform.auto_ids(result[0])
    for step, which in zip(steps, rows, strict=True):
        result = jax.vmap(affine, in_axes=(None, 0, None))(step, result, which)
    return unit(result) if normalize else result
