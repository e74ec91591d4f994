"""Opening the folder of a checkpoint, without reading its weights."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lsar_jax.checkpoints import adapters
from lsar_jax.checkpoints.locate import CONFIG_FILES, TOKENIZER_FILES
from lsar_jax.checkpoints.sentence_transformers import Pipeline, module_folders, read_pipeline
from lsar_jax.checkpoints.weight_files import Tensor, open_safetensors
from lsar_jax.checks import errors_of
from lsar_jax.files import check_file, sha256
from lsar_jax.models.architectures import Architecture, Config, read_config
from lsar_jax.tokens.tokenizer import Tokenizer

__all__ = ["Checkpoint", "other_files", "read_folder"]

# Leaves that a checkpoint has only if the size that is named here is not 0.
_OPTIONAL = {"embeddings.token_type.embedding": "token_types", "embeddings.language.embedding": "languages"}


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: its sizes, names and tokenizer are known, but its weights are still on disk.

    Attributes:
      id: as in ``EncoderSpec``, like the revision.
      keys: mapping from leaf of the module to name of the tensor; ``{}`` stands for the number of a block.
      languages: row of each language in the language embeddings; None if there are none.
    """

    id: str
    revision: str
    architecture: Architecture
    config: Config
    keys: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    pipeline: Pipeline
    languages: Mapping[str, int] | None = None


def read_folder(folder: Path, *, id: str, revision: str | None = None, adapter: str | None = None) -> Checkpoint:
    """Opens a Hugging Face, PEFT or sentence-transformers folder, or one that ``lsar-jax convert`` wrote.

    Args:
      folder: the folder.
      id: as in ``EncoderSpec``.
      revision: commit on the Hub, if it is from there.
      adapter: name of the adapter that is merged into the weights, if there are several.

    Raises:
      FileNotFoundError: a file does not exist.
      ValueError: the architecture, its config or an adapter is not supported, or a file is damaged.
    """
    own = read_pipeline(folder)
    places = adapters.adapters_in(folder, own.transformer)
    adapters.refuse_adapters(folder, places.values())
    source, pipeline, merging, changes = folder, own, "", dict[str, Any]()
    if places:
        settings, changes, files = adapters.read_adapter(places[adapters.choose(id, places, adapter) or ""])
        merging = sha256([*files, *other_files(folder)])
        if not any(own.transformer.glob("model.safetensors*")):
            source, revision = adapters.base_of(files[0], settings)
            pipeline = read_pipeline(source)
            if own.problem or (folder / "modules.json").is_file():
                pipeline = replace(own, transformer=pipeline.transformer)
    path = pipeline.transformer / "config.json"
    config, architecture = read_config(path, pipeline.module)
    stored, weights = open_safetensors(pipeline.transformer, root=source)
    with errors_of(path if path.is_file() else path.parent):
        if not places:
            tasks = config.get("lora_adaptations") if any(".parametrizations." in name for name in stored) else None
            merging = adapters.choose(id, tasks or (), adapter) or ""
            stored = adapters.of_task(stored, config, merging)
        config, stored = architecture.complete(config, stored)
        sizes = architecture.read_config(config)
        languages = architecture.languages(config)
        tensors = _tensors(architecture, config, sizes, stored, changes)
    pipeline = replace(pipeline, pooling=pipeline.pooling or architecture.pooling)
    pipeline = _projected(pipeline, tensors, architecture.projection) if architecture.projection else pipeline
    revision = revision or sha256([*weights, *other_files(source)])
    of_tokenizer = own.transformer if _matching(own.transformer, TOKENIZER_FILES) else pipeline.transformer
    return Checkpoint(
        id=id,
        revision=f"{merging}+{revision}" if merging else revision,
        architecture=architecture,
        config=sizes,
        keys={leaf: key for leaf, key in architecture.keys.items() if getattr(sizes, _OPTIONAL.get(leaf, "hidden"))},
        tensors=tensors,
        tokenizer=architecture.tokenizer(of_tokenizer, sizes.vocabulary, sizes.longest),
        pipeline=pipeline,
        languages=languages,
    )


def _tensors(
    architecture: Architecture, config: dict[str, Any], sizes: Config, stored: dict[str, Any], changes: dict[str, Any]
) -> dict[str, Tensor]:
    """Returns the tensors by their plain names, with the ``changes`` of an adapter."""
    names = Counter(map(architecture.plain_name, stored))
    if twice := [name for name in stored if names[architecture.plain_name(name)] > 1]:
        raise ValueError(f"it has these weights twice, under two names: {', '.join(twice)}")
    computed = architecture.computed(config, sizes).items()
    tensors: dict[str, Any] = {
        name: Tensor(table.shape, lambda *rows, of=table: of[slice(*rows)]) for name, table in computed
    }
    for part in (stored, architecture.complete(config, changes)[1] if changes else {}):
        tensors |= {architecture.plain_name(name): tensor for name, tensor in part.items()}
    tensors = adapters.merged(tensors)
    others = {name.split(".lora_")[0] for name in tensors if ".lora_" in name}
    if lacking := sorted(name for name in others if not architecture.is_unused(f"{name}.weight")):
        raise ValueError(f"the adapter changes modules that the checkpoint lacks: {', '.join(lacking[:5])}")
    return {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}


def _projected(pipeline: Pipeline, tensors: Mapping[str, Tensor], name: str) -> Pipeline:
    """Returns the pipeline with a projection of the states, which comes after the pooling where they commute."""
    problem, matrix = pipeline.problem, tensors.get(name)
    if matrix is None or len(matrix.shape) != 2:
        problem = problem or f"{pipeline.transformer} has no matrix {name}"
    elif pipeline.pooling == "max" or "+" in pipeline.pooling:
        problem = problem or f"{pipeline.transformer} projects each token; the pooling cannot be {pipeline.pooling!r}"
    return replace(pipeline, projection=matrix, problem=problem)


def other_files(folder: Path) -> list[Path]:
    """Returns the files, other than the weights, that embeddings depend on: configs, tokenizer, Dense layers.

    They are in the folder itself, in the folders beneath it, and in those that ``modules.json`` names.

    Raises:
      ValueError: something of such a name is not a file.
    """
    names = (*CONFIG_FILES, *TOKENIZER_FILES)
    found = _matching(folder, names)
    modules = module_folders(folder)
    for place in {*modules, *(path for path in folder.iterdir() if path.is_dir())}:
        # Others may be closed to us, as lost+found is.
        if place.is_dir() and (place in modules or os.access(place, os.R_OK | os.X_OK)):
            found |= _matching(place, (*names, "model.safetensors"))
    return sorted(found)


def _matching(folder: Path, patterns: tuple[str, ...]) -> set[Path]:
    # Unlike a glob, this also finds links to nothing: a file may have been lost.
    found = {path for path in folder.iterdir() if any(fnmatchcase(path.name, pattern) for pattern in patterns)}
    for path in sorted(found):
        check_file(path)
    return found
