"""Opening the folder of a checkpoint, without reading its weights."""

import os
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from lsar_jax.checkpoints.locate import CONFIG_FILES, TOKENIZER_FILES
from lsar_jax.checkpoints.sentence_transformers import Pipeline, module_folders, read_pipeline
from lsar_jax.checkpoints.weight_files import Tensor, open_safetensors
from lsar_jax.checks import errors_of
from lsar_jax.files import check_file, sha256
from lsar_jax.models.architectures import Architecture, Config, read_config
from lsar_jax.tokens.tokenizer import Tokenizer

__all__ = ["Checkpoint", "other_files", "read_folder", "refuse_adapters"]

# Leaves that a checkpoint has only if the size that is named here is not 0.
_OPTIONAL = {"embeddings.token_type.embedding": "token_types", "embeddings.language.embedding": "languages"}
# What the files of adapters are called, the suffixes of weights, and what the tensors of LoRA have in their names.
_ADAPTER = re.compile(r"adapter_config\.json$|adapter_model|pytorch_adapter", re.IGNORECASE)
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
_LORA = re.compile(r"(^|[^a-z])lora([^a-z]|$)", re.IGNORECASE)


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


def read_folder(folder: Path, *, id: str, revision: str | None = None) -> Checkpoint:
    """Opens a Hugging Face or sentence-transformers folder, or one that ``lsar-jax convert`` wrote.

    Raises:
      FileNotFoundError: a file does not exist.
      ValueError: the architecture or its config is not supported, there are adapters, or a file is damaged.
    """
    others = other_files(folder)
    refuse_adapters(folder)
    pipeline = read_pipeline(folder)
    path = pipeline.transformer / "config.json"
    config, architecture = read_config(path, pipeline.module)
    stored, weights = open_safetensors(pipeline.transformer, root=folder)
    with errors_of(path if path.is_file() else path.parent):
        config, stored = architecture.complete(config, stored)
        sizes = architecture.read_config(config)
        languages = architecture.languages(config)
    names = Counter(map(architecture.plain_name, stored))
    if twice := [name for name in stored if names[architecture.plain_name(name)] > 1]:
        raise ValueError(f"{pipeline.transformer} has these weights twice, under two names: {', '.join(twice)}")
    computed = architecture.computed(config, sizes).items()
    tensors = {name: Tensor(table.shape, lambda *rows, of=table: of[slice(*rows)]) for name, table in computed}
    tensors |= {architecture.plain_name(name): tensor for name, tensor in stored.items()}
    pipeline = replace(pipeline, pooling=pipeline.pooling or architecture.pooling)
    if architecture.projection:
        pipeline = _projected(pipeline, tensors.get(architecture.projection), architecture.projection)
    return Checkpoint(
        id=id,
        revision=revision or sha256([*weights, *others]),
        architecture=architecture,
        config=sizes,
        keys={
            leaf: key
            for leaf, key in architecture.keys.items()
            if leaf not in _OPTIONAL or getattr(sizes, _OPTIONAL[leaf])
        },
        tensors=tensors,
        tokenizer=architecture.tokenizer(pipeline.transformer, sizes.vocabulary, sizes.longest),
        pipeline=pipeline,
        languages=languages,
    )


def _projected(pipeline: Pipeline, matrix: Tensor | None, name: str) -> Pipeline:
    """Returns the pipeline with a projection of the states, which comes after the pooling where they commute."""
    problem = pipeline.problem
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


def refuse_adapters(folder: Path) -> None:
    """Raises ValueError if a checkpoint has adapters at any depth, without which its vectors would be others."""
    links = [path for path in folder.iterdir() if path.is_symlink() and path.is_dir()]
    walked = [place for start in (folder, *links) for place in os.walk(start)]
    for path in sorted(Path(place, name) for place, _, names in walked for name in names):
        if _ADAPTER.match(path.name) or any(map(_LORA.search, _tensor_names(path))):
            raise ValueError(
                f"{path}: adapters (LoRA) are not supported; load a checkpoint whose weights have one merged into "
                "them, or move the file to another folder if it is not of this checkpoint"
            )


def _tensor_names(path: Path) -> list[str]:
    """Returns the names of the tensors in a file of weights, or the file's own name if they cannot be read."""
    from safetensors import SafetensorError, safe_open

    if path.suffix.lower() == ".safetensors" and path.is_file():
        with suppress(SafetensorError, OSError), safe_open(path, framework="numpy") as file:
            return list(file.keys())
    return [path.name] if path.suffix.lower() in _WEIGHTS else []


def _matching(folder: Path, patterns: tuple[str, ...]) -> set[Path]:
    # Unlike a glob, this also finds links to nothing: a file may have been lost.
    found = {path for path in folder.iterdir() if any(fnmatchcase(path.name, pattern) for pattern in patterns)}
    for path in sorted(found):
        check_file(path)
    return found
