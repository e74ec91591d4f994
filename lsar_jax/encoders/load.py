"""Loads a ``SentenceEncoder`` by the name or the folder of its checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jax.sharding import Mesh

from lsar_jax.checkpoints.adapters import choose
from lsar_jax.checkpoints.bundled import open_bundled
from lsar_jax.checkpoints.checkpoint import Checkpoint, read_folder
from lsar_jax.checkpoints.load_weights import load_weights, read_pooler
from lsar_jax.checkpoints.locate import locate, preset_of
from lsar_jax.checkpoints.presets import PRESETS, Preset
from lsar_jax.checks import check_choice, check_flags, whole_number
from lsar_jax.encoders.migration_hints import check_names
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.extras import import_function
from lsar_jax.hub import check_no_revision
from lsar_jax.mesh import data_mesh, shares
from lsar_jax.models.attention import attention_for
from lsar_jax.models.pooling import POOLINGS, pooled_width
from lsar_jax.models.projection import Layer, Normalize, Projection, Truncate, width_after
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.hugging_face import with_end_token

__all__ = ["OPTIONS", "load_encoder", "open_checkpoint"]

_DTYPES = ("float32", "bfloat16")
#: The options of ``load_encoder``.
OPTIONS = ("revision", "adapter", "layer", "pooling", "dim", "final_norm", "dtype", "param_dtype", "mesh")


def load_encoder(
    name_or_path: str | Path,
    *,
    revision: str | None = None,
    adapter: str | None = None,
    layer: int | None = None,
    pooling: str | None = None,
    dim: int | None = None,
    final_norm: bool = False,
    dtype: Any = None,
    param_dtype: Any = None,
    mesh: Mesh | None = None,
    **others: Any,
) -> SentenceEncoder:
    """Loads a multilingual encoder.

    Args:
      name_or_path: ``bundled`` (multilingual-e5-small with 4-bit weights, from the ``demo`` extra), a preset
        (``mbert``, ``labse``, ...; see ``PRESETS``), a folder written by transformers, PEFT, sentence-transformers
        or ``lsar-jax convert``, or a Hub id. A folder in the working directory takes precedence over a preset. Or a
        function in a file of yours, ``FILE.py:FUNCTION``, that returns an encoder, given those of these options that
        are not the defaults.
      revision: commit, tag or branch of a Hub id; by default the preset's, else the newest.
      adapter: name of the adapter (LoRA) that is merged into the weights: its folder's, ``default`` for the folder of
        the checkpoint, or a task of jina-embeddings-v3. By default ``default`` or the only one.
      layer: 0 is the embedding output, k the output of block k. Only blocks 1 to k are read and computed, and
        ``encode`` returns layer k. By default all blocks are read, and ``encode`` returns the preset's layer if it has
        one, else the last layer.
      pooling: ``mean``, ``mean_no_special`` (without special tokens), ``mean_sqrt_len`` (the sum over the root of their
        number), ``weighted_mean`` (by place: 1, 2, ...), ``cls`` (the first token), ``max``, ``last`` (the last token),
        several of these joined by ``+``, such as ``mean+cls``;
        or ``pooler`` (the last block's first token through the checkpoint's dense layer and tanh). By default the
        preset's, else the checkpoint's, with the Dense, LayerNorm and Normalize layers that follow it; these belong to
        the last block only.
      dim: number of dimensions to keep of a Matryoshka embedding, whose first dimensions are an embedding too; they are
        normalised again. It belongs to the last layer. By default, all are kept.
      final_norm: whether the norm after the last block, which most decoders have, is also applied to the layers below.
        By default, these are the sums that the blocks return, in which few dimensions are much larger than the others.
      dtype: compute dtype, ``float32`` (default) or ``bfloat16``. LayerNorm, softmax, pooling and everything after it
        are float32 in either case.
      param_dtype: dtype of the parameters, by default ``dtype``.
      mesh: devices to encode on, made by ``mesh.data_mesh``; by default all local devices, each with all weights.
      **others: no other option is accepted.

    Raises:
      FileNotFoundError: the folder does not exist, or the Hub id cannot be downloaded.
      ImportError: the encoder needs an extra that is not installed.
      TypeError: there is no such option; for one of sentence-transformers, the error says what to write instead.
      ValueError: an argument is not one of those above, or the weights do not fit.

    Example:
      >>> encoder = lj.load_encoder("bundled", layer=2)  # blocks 3 to 12 are not read
      >>> encoder.spec.layer, encoder.spec.pooling, encoder.dim
      (2, 'mean', 384)
      >>> x = encoder.encode(["All human beings are born free.", "Alle Menschen sind frei geboren."])
      >>> x.shape, x.dtype.name
      ((2, 384), 'float32')
    """
    check_names("load_encoder", others, OPTIONS)
    check_flags(final_norm=final_norm)
    computed = _dtype("dtype", dtype, "float32")
    stored = _dtype("param_dtype", param_dtype, computed.name)
    if ".py:" in str(name_or_path):
        given = {"revision": revision, "adapter": adapter, "layer": layer, "pooling": pooling, "dim": dim, "mesh": mesh}
        given |= {"final_norm": final_norm or None, "dtype": None if computed == jnp.float32 else computed.name}
        make = import_function(str(name_or_path), "the encoder", SentenceEncoder)[0]
        return make(**{name: value for name, value in given.items() if value is not None})
    mesh = _with_auto_axes(mesh)
    checkpoint, preset = open_checkpoint(str(name_or_path), revision, adapter)
    blocks = checkpoint.config.blocks
    has = f"{checkpoint.id} has the embedding output, 0, and {blocks} blocks"
    loaded = blocks if layer is None else whole_number("layer", layer, 0, blocks, has)
    returned = preset.layer if layer is None and preset and preset.layer is not None else loaded
    # Read before the weights: the layers after the blocks are small, and may be damaged too.
    pooled, name, layers = _pooling(checkpoint, pooling or (preset.pooling if preset else None), returned)
    if "last" in pooled.split("+"):
        folder = checkpoint.pipeline.transformer
        checkpoint = replace(checkpoint, tokenizer=with_end_token(checkpoint.tokenizer, folder))
    if pooling is None:
        _check_as_published(checkpoint, pooled, name)
    applied = frozenset(checkpoint.pipeline.applied if layers else ())
    if dim is not None:
        whole_number("layer", returned, blocks, blocks, "dim cuts embeddings of the last layer")
        layers = [*layers, Truncate(dim), Normalize()]
    width = width_after(layers, pooled_width(pooled, checkpoint.config.widths[returned]), checkpoint.id)
    attention = attention_for(mesh.devices.flat[0])
    if attention == "cudnn" and "model" in mesh.axis_names:
        attention = "xla"  # cuDNN's was not tried with heads split over devices
    model = load_weights(
        checkpoint, blocks=loaded, dtype=computed, param_dtype=stored, attention=attention, final_norm=final_norm,
        mesh=mesh,
    )  # fmt: skip
    spec = EncoderSpec(
        checkpoint.id, checkpoint.revision, returned, name,
        computed.name if stored == computed else f"{computed.name} with {stored.name} parameters",
        prompt=checkpoint.pipeline.prompt, dim=None if dim is None else width, final_norm=bool(final_norm),
    )  # fmt: skip
    return SentenceEncoder(
        model, checkpoint.tokenizer, spec, mesh, pooling=pooled, projection=Projection(layers) if layers else None,
        prompts=checkpoint.pipeline.prompts, include_prompt=checkpoint.pipeline.include_prompt,
        languages=checkpoint.languages, architecture=checkpoint.architecture, applied=applied,
    )  # fmt: skip


def _with_auto_axes(mesh: Mesh | None) -> Mesh:
    """Returns the mesh, made again, because one of ``jax.make_mesh`` has Explicit axes by default."""
    if mesh is None:
        return data_mesh()
    if mesh.axis_names not in (("data",), ("data", "model")):
        raise ValueError(f"the mesh has axes {mesh.axis_names}; make it with lsar_jax.mesh.data_mesh")
    return data_mesh(list(mesh.devices.flat), model=mesh.size // shares(mesh))


def open_checkpoint(
    name_or_path: str, revision: str | None, adapter: str | None = None
) -> tuple[Checkpoint, Preset | None]:
    """Returns the checkpoint of a name, a Hub id or a folder, and its preset if it has one; see ``load_encoder``."""
    if name_or_path == "bundled":
        check_no_revision(revision, name_or_path, "in a package")
        choose(name_or_path, (), adapter)
        return open_bundled(), None
    preset = preset_of(name_or_path)
    hub_id = preset.id if preset else name_or_path
    folder, id, commit = locate(hub_id, revision or (preset.revision if preset else None))
    return read_folder(folder, id=id, revision=commit, adapter=adapter), preset


def _check_as_published(checkpoint: Checkpoint, pooling: str, name: str) -> None:
    """Raises ValueError if the checkpoint's own pooling is not the published one, or lacks the token that it takes."""
    preset = next((preset for preset in PRESETS.values() if preset.id == checkpoint.id), None)
    found, published = checkpoint.pipeline, preset.published if preset else ""
    if published and not found.problem and found.name != published:
        raise ValueError(
            f"{checkpoint.id} was published with the pooling {published}, and by the files in {found.transformer} it "
            f"is {found.name}; some may be missing, as modules.json is where another program has filled the Hub's "
            "cache: download them all, or set pooling= to what you want"
        )
    if "last" in pooling.split("+") and not checkpoint.tokenizer.specials.after:
        raise ValueError(
            f"{checkpoint.id} pools the last token, but its tokenizer adds none at the end, as in the first files of "
            "Qwen3-Embedding, with which embeddings are wrong; use a current tokenizer.json, write add_eos_token: true "
            f"and the eos_token to tokenizer_config.json, or set pooling={name!r} if the model was trained without one"
        )


def _pooling(checkpoint: Checkpoint, pooling: str | None, layer: int) -> tuple[str, str, list[Layer]]:
    """Returns the pooling, its name in the spec, and the layers after it, which belong to the last block."""
    pipeline, blocks = checkpoint.pipeline, checkpoint.config.blocks
    if pooling is not None and set(pooling.split("+")) <= set(POOLINGS):
        return pooling, pooling, []
    if pooling not in (None, "pooler", pipeline.name):
        check_choice("pooling", pooling, dict.fromkeys((*POOLINGS, "pooler", pipeline.name)))
    if pipeline.problem and pooling != "pooler":
        choices = ", ".join(map(repr, POOLINGS))
        raise ValueError(f"{pipeline.problem}; set pooling to one of {choices} to use the blocks alone")
    if layer == blocks and pooling == "pooler":
        return "cls", "pooler", [read_pooler(checkpoint)]
    if layer == blocks:
        return pipeline.pooling, pipeline.name, pipeline.layers()
    alone = "cls" if pooling == "pooler" else pipeline.pooling
    if pooling is not None:
        raise ValueError(
            f"the pooling {pooling!r} belongs to the last block, {blocks}, but this is layer {layer}; "
            f"use layer={blocks} or pooling={alone!r}"
        )
    return alone, alone, []


def _dtype(name: str, dtype: Any, default: str) -> jnp.dtype:
    try:
        chosen = jnp.dtype(default if dtype is None else dtype).name
    except (TypeError, ValueError):  # a lone surrogate is the latter
        chosen = dtype
    check_choice(name, chosen, _DTYPES)
    return jnp.dtype(chosen)
