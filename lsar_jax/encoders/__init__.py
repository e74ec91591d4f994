"""Encoders: a name or a folder in, a ready ``SentenceEncoder`` out."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from lsar_jax.checks import whole_number
from lsar_jax.encoders.bundled import open_bundled
from lsar_jax.encoders.checkpoint import Checkpoint, fill_transformer, read_folder, resolve
from lsar_jax.mesh import data_mesh, replicated
from lsar_jax.pooling import POOLINGS
from lsar_jax.sentence_encoder import SentenceEncoder
from lsar_jax.spec import EncoderSpec

__all__ = ["load_encoder"]

_DTYPES = ("float32", "bfloat16")


def load_encoder(
    name_or_path: str | Path,
    *,
    revision: str | None = None,
    layer: int | None = None,
    pooling: str | None = None,
    dtype: Any = None,
    mesh: Mesh | None = None,
) -> SentenceEncoder:
    """Loads a multilingual encoder.

    Args:
      name_or_path: ``bundled`` (multilingual-e5-small with 4-bit weights, from the ``demo``
        extra), a folder as ``save_pretrained`` writes it, or a Hub id.
      revision: commit, tag or branch of a Hub id.
      layer: 0 is the embedding output, k the output of block k. Only blocks 1 to k are read
        and computed, and layer k is what ``encode`` returns. By default the last one.
      pooling: ``mean``, ``cls`` or ``max``; by default what the checkpoint says, else the mean.
      dtype: compute dtype, ``float32`` (default) or ``bfloat16``; parameters are float32.
      mesh: devices to encode on, as ``mesh.data_mesh`` makes it; by default all local ones.

    Raises:
      FileNotFoundError: no such folder, or a Hub id that cannot be downloaded.
      ImportError: ``bundled`` without its extra.
      ValueError: an unknown architecture, layer, pooling or dtype, or weights that do not fit.
    """
    computed = _dtype(dtype)
    if pooling is not None and pooling not in POOLINGS:
        raise ValueError(f"pooling {pooling!r} is not one of {', '.join(POOLINGS)}")
    if mesh is not None and mesh.axis_names != ("data",):
        raise ValueError(f"the mesh has axes {mesh.axis_names}, expected ('data',); lsar_jax.mesh.data_mesh makes one")
    # Made anew: a mesh of jax.make_mesh has Explicit axes unless told otherwise.
    mesh = data_mesh(None if mesh is None else list(mesh.devices.flat))
    checkpoint = _open(str(name_or_path), revision)
    blocks = checkpoint.config.blocks
    has = f"{checkpoint.id} has the embeddings, 0, and {blocks} blocks"
    kept = blocks if layer is None else whole_number("layer", layer, 0, blocks, has)
    spec = EncoderSpec(checkpoint.id, checkpoint.revision, kept, pooling or _own(checkpoint), computed.name)
    model = fill_transformer(checkpoint, blocks=kept, dtype=computed)
    return SentenceEncoder(jax.device_put(model, replicated(mesh)), checkpoint.tokenizer, spec, mesh)


def _open(name_or_path: str, revision: str | None) -> Checkpoint:
    if name_or_path == "bundled":
        if revision is not None:
            raise ValueError(f"revision {revision!r} is for Hub ids; the bundled encoder has one")
        return open_bundled()
    folder, id, commit = resolve(name_or_path, revision)
    return read_folder(folder, id=id, revision=commit)


def _dtype(dtype: Any) -> jnp.dtype:
    try:
        computed = jnp.dtype("float32" if dtype is None else dtype)
    except TypeError:
        computed = None
    if computed is None or computed.name not in _DTYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(_DTYPES)}")
    return computed


def _own(checkpoint: Checkpoint) -> str:
    if checkpoint.pooling is None:
        raise ValueError(
            f"{checkpoint.id} embeds by {checkpoint.pipeline}, which is more than a pooling of a layer; "
            f"choose pooling={', '.join(map(repr, POOLINGS))} to use its blocks"
        )
    return checkpoint.pooling
