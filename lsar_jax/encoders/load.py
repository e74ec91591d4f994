"""Loads a ``SentenceEncoder`` by the name or the folder of its checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from lsar_jax.checkpoints.bundled import open_bundled
from lsar_jax.checkpoints.checkpoint import Checkpoint, read_folder
from lsar_jax.checkpoints.fill import fill, read_pooler
from lsar_jax.checkpoints.locate import is_folder, locate
from lsar_jax.checkpoints.presets import PRESETS, Preset
from lsar_jax.checks import whole_number
from lsar_jax.encoders.options import unexpected
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.mesh import data_mesh, replicated
from lsar_jax.models.attention import attention_for
from lsar_jax.models.pooling import POOLINGS
from lsar_jax.models.projection import Dense, Normalize, Projection
from lsar_jax.spec import EncoderSpec

__all__ = ["load_encoder"]

_DTYPES = ("float32", "bfloat16")


class _NoOthers(TypedDict):
    """No further options: what is given is an error, which says what to write instead."""


def load_encoder(
    name_or_path: str | Path,
    *,
    revision: str | None = None,
    layer: int | None = None,
    pooling: str | None = None,
    dtype: Any = None,
    param_dtype: Any = None,
    mesh: Mesh | None = None,
    **others: Unpack[_NoOthers],
) -> SentenceEncoder:
    """Loads a multilingual encoder.

    Args:
      name_or_path: ``bundled`` (multilingual-e5-small with 4-bit weights, from the ``demo``
        extra), a preset (``mbert``, ``labse``, ...; see ``PRESETS``), a folder written by
        transformers, sentence-transformers or ``lsar-jax convert``, or a Hub id. A folder in
        the working directory takes precedence over a preset of the same name.
      revision: commit, tag or branch of a Hub id; by default the preset's, else the newest.
      layer: 0 is the embedding output, k the output of block k. Only blocks 1 to k are read
        and computed, and ``encode`` returns layer k. By default all blocks are read, and
        ``encode`` returns the preset's layer if it has one, else the last layer.
      pooling: ``mean``, ``mean_no_special`` (without special tokens), ``cls``, ``max``, or
        ``pooler`` (the last block's first token through the checkpoint's dense layer and tanh).
        By default the preset's, else the checkpoint's, with the Dense and Normalize layers that
        follow it; these belong to the last block and are not applied to an earlier layer.
      dtype: compute dtype, ``float32`` (default) or ``bfloat16``. LayerNorm, softmax, pooling
        and everything after it are float32 in either case.
      param_dtype: dtype of the parameters, by default ``dtype``.
      mesh: devices to encode on, made by ``mesh.data_mesh``; by default all local devices.
      **others: no other option is accepted.

    Returns:
      The encoder, with its parameters on every device of the mesh. ``repr`` shows its id, layer, pooling, dtype, width
      and longest input in tokens.

    Raises:
      FileNotFoundError: the folder does not exist, or the Hub id cannot be downloaded.
      ImportError: the encoder needs an extra that is not installed.
      TypeError: there is no such option; for those of sentence-transformers, the error says what to write instead.
      ValueError: the architecture, layer, pooling or dtype is unknown, the axes of the mesh are not ``("data",)``, the
        name is empty, a revision is given for ``bundled``, or the weights do not fit.

    Example:
      >>> import lsar_jax as lj
      >>> encoder = lj.load_encoder("bundled", layer=2)  # blocks 3 to 12 are not read
      >>> encoder.spec.layer, encoder.spec.pooling, encoder.dim
      (2, 'mean', 384)
      >>> x = encoder.encode(["All human beings are born free.", "Alle Menschen sind frei geboren."])
      >>> x.shape, x.dtype.name
      ((2, 384), 'float32')
    """
    for name in others:
        raise unexpected("load_encoder", name, ("revision", "layer", "pooling", "dtype", "param_dtype", "mesh"))
    computed = _dtype("dtype", dtype, "float32")
    stored = _dtype("param_dtype", param_dtype, computed.name)
    if mesh is not None and mesh.axis_names != ("data",):
        raise ValueError(
            f"the mesh has axes {mesh.axis_names}, expected ('data',); make it with lsar_jax.mesh.data_mesh"
        )
    # Rebuilt, because a mesh from jax.make_mesh has Explicit axes by default.
    mesh = data_mesh(None if mesh is None else list(mesh.devices.flat))
    checkpoint, preset = _open(str(name_or_path), revision)
    blocks = checkpoint.config.blocks
    has = f"{checkpoint.id} has the embedding output, 0, and {blocks} blocks"
    kept = blocks if layer is None else whole_number("layer", layer, 0, blocks, has)
    returned = kept
    if preset and preset.layer is not None and layer is None:
        returned = whole_number("the preset's layer", preset.layer, 0, blocks, has)
    pool, name, after = _choose(checkpoint, pooling or (preset.pooling if preset else None), returned)
    # Read before the weights: the layers after the blocks are small, and may be damaged too.
    projection = _projection(after(), checkpoint.config.widths[-1], checkpoint.id) if after else None

    def put(value: np.ndarray) -> jax.Array:
        return jax.device_put(value, replicated(mesh)).block_until_ready()

    attention = attention_for(mesh.devices.flat[0])
    model = fill(checkpoint, blocks=kept, dtype=computed, param_dtype=stored, attention=attention, put=put)
    precision = computed.name if stored == computed else f"{computed.name} with {stored.name} parameters"
    spec = EncoderSpec(checkpoint.id, checkpoint.revision, returned, name, precision, prompt=checkpoint.pipeline.prompt)
    return SentenceEncoder(
        model,
        checkpoint.tokenizer,
        spec,
        mesh,
        pooling=pool,
        projection=projection,
        prompts=checkpoint.pipeline.prompts,
        languages=checkpoint.languages,
        architecture=checkpoint.architecture,
    )


def _open(name_or_path: str, revision: str | None) -> tuple[Checkpoint, Preset | None]:
    if not name_or_path:
        raise ValueError("the name of the encoder is empty; give bundled, a preset, a folder or a Hub id")
    if name_or_path == "bundled":
        if revision is not None:
            raise ValueError(f"revision is {revision!r}, but the bundled encoder has only one revision; leave it out")
        return open_bundled(), None
    preset = None if is_folder(name_or_path) else PRESETS.get(name_or_path)
    if preset and not preset.id:
        raise FileNotFoundError(
            f"{name_or_path} is not on the Hub: {preset.note} with `lsar-jax convert FILE FOLDER`, then load FOLDER"
        )
    hub_id = preset.id if preset else name_or_path
    folder, id, commit = locate(hub_id, revision or (preset.revision if preset else None))
    try:
        checkpoint = read_folder(folder, id=id, revision=commit)
    except FileNotFoundError as error:
        if commit is None or ".safetensors" not in str(error):
            raise
        raise FileNotFoundError(
            f"{error}; if the Hub has a pickled checkpoint, convert it once: lsar-jax convert {id} NEW_FOLDER"
        ) from error
    if preset and checkpoint.architecture.model_type != preset.architecture:
        kind = checkpoint.architecture.model_type
        raise ValueError(f"{id} is of type {kind!r}, but the preset {name_or_path} expects {preset.architecture!r}")
    return checkpoint, preset


def _choose(
    checkpoint: Checkpoint, pooling: str | None, layer: int
) -> tuple[str, str, Callable[[], list[Dense | Normalize]] | None]:
    """Returns the pooling, its name in the spec, and a function that reads the layers after it, if there are any."""
    own, blocks = checkpoint.pipeline, checkpoint.config.blocks
    last = layer == blocks
    if pooling in POOLINGS:
        return pooling, pooling, None
    if pooling == "pooler":
        if not last:
            raise ValueError(
                f"the pooler belongs to the last block, {blocks}, but this is layer {layer}; "
                f"use layer={blocks} or pooling='cls'"
            )
        return "cls", "pooler", lambda: [read_pooler(checkpoint)]
    if pooling not in (None, own.name):
        known = dict.fromkeys((*POOLINGS, "pooler", own.name))
        raise ValueError(f"pooling {pooling!r} is not one of {', '.join(known)}")
    if own.problem:
        raise ValueError(
            f"{own.problem}; set pooling to one of {', '.join(map(repr, POOLINGS))} to use the blocks alone"
        )
    if not own.after:
        return own.pooling, own.pooling, None
    if last:
        return own.pooling, own.name, own.layers
    if pooling is not None:
        raise ValueError(
            f"{pooling!r} belongs to the last block, {blocks}, but this is layer {layer}; "
            f"use layer={blocks} or pooling={own.pooling!r}"
        )
    return own.pooling, own.pooling, None


def _projection(layers: list[Dense | Normalize], width: int, id: str) -> Projection:
    for layer in layers:
        if isinstance(layer, Dense):
            outer, inner = layer.weight.shape
            if inner != width:
                raise ValueError(f"a {layer.name} layer of {id} takes width {inner}, but its input has width {width}")
            width = outer
    return Projection(layers)


def _dtype(name: str, dtype: Any, default: str) -> jnp.dtype:
    try:
        chosen = jnp.dtype(default if dtype is None else dtype)
    except TypeError:
        chosen = None
    if chosen is None or chosen.name not in _DTYPES:
        raise ValueError(f"{name} {dtype!r} is not one of {', '.join(_DTYPES)}")
    return chosen
