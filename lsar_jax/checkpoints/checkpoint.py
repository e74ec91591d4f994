"""Opening the folder of a checkpoint, without reading its weights."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import numpy as np

from lsar_jax.checkpoints.architectures import Architecture, Config, architecture_of
from lsar_jax.checkpoints.locate import CONFIG_FILES, TOKENIZER_FILES
from lsar_jax.checkpoints.sentence_transformers import Pipeline, module_folders, read_pipeline, transformer_folder
from lsar_jax.checkpoints.weight_files import Tensor, open_safetensors
from lsar_jax.files import read_json, sha256
from lsar_jax.tokens.tokenizer import Tokenizer

__all__ = ["Checkpoint", "other_files", "read_folder"]


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: its sizes, names and tokenizer are known, but its weights are still on disk.

    Attributes:
      id: as in ``EncoderSpec``.
      revision: as in ``EncoderSpec``.
      architecture: architecture of the model.
      config: sizes of the whole model.
      keys: mapping from leaf of the module to name of the tensor; ``{}`` stands for the number of a block.
      tensors: all tensors, by their name in the checkpoint.
      tokenizer: tokenizer of the checkpoint.
      pipeline: pooling, further layers and prompts that the checkpoint defines.
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
      ValueError: the architecture or its config is not supported, or a file is damaged.
    """
    others = other_files(folder)
    path = transformer_folder(folder) / "config.json"
    config = read_json(path, dict)
    try:
        architecture = architecture_of(config)
        sizes = architecture.read_config(config)
        languages = architecture.languages(config)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    pipeline = read_pipeline(folder, architecture.pooling)
    if pipeline.width not in (None, sizes.widths[-1]):
        raise ValueError(
            f"{folder}: the Pooling takes width {pipeline.width}, but the blocks output width {sizes.widths[-1]}"
        )
    tensors, weights = _open(pipeline.transformer, folder, architecture)
    for name, table in architecture.computed(config, sizes).items():
        tensors.setdefault(name, Tensor(table.shape, partial(_rows_of, table)))
    return Checkpoint(
        id=id,
        revision=revision or sha256([*weights, *others]),
        architecture=architecture,
        config=sizes,
        keys=_keys(architecture, sizes),
        tensors=tensors,
        tokenizer=architecture.tokenizer(pipeline.transformer, sizes, config),
        pipeline=pipeline,
        languages=languages,
    )


def _keys(architecture: Architecture, sizes: Config) -> dict[str, str]:
    """Returns the architecture's keys, without those of embeddings that this checkpoint does not have."""
    optional = {"embeddings.token_type.embedding": "token_types", "embeddings.language.embedding": "languages"}
    return {
        leaf: key for leaf, key in architecture.keys.items() if leaf not in optional or getattr(sizes, optional[leaf])
    }


def _open(folder: Path, root: Path, architecture: Architecture) -> tuple[dict[str, Tensor], list[Path]]:
    found, paths = open_safetensors(folder, root=root)
    tensors: dict[str, Tensor] = {}
    twice = []
    for key, tensor in found.items():
        name = architecture.plain_name(key)
        if name in tensors:
            twice.append(key)
        tensors[name] = tensor
    if twice:
        raise ValueError(f"{folder} has these weights twice, under two names: {', '.join(twice)}")
    return tensors, paths


def other_files(folder: Path) -> list[Path]:
    """Returns the files, other than the weights, that embeddings depend on: configs, tokenizer, Dense layers.

    They are in the folder itself, in the folders beneath it, and in those that ``modules.json`` names.

    Raises:
      ValueError: something of such a name is not a file; reading a pipe would hang.
    """
    names = (*CONFIG_FILES, *TOKENIZER_FILES)
    # Unlike a glob, this also finds links to nothing: a file may have been lost.
    found = set(_matching(folder, names))
    _check_files(found)
    named = module_folders(folder)
    for place in {*named, *(path for path in folder.iterdir() if path.is_dir())}:
        # Others may be closed to us, as lost+found is.
        if place.is_dir() and (place in named or os.access(place, os.R_OK | os.X_OK)):
            found |= set(_matching(place, (*names, "model.safetensors")))
    _check_files(found)
    return sorted(found)


def _check_files(found: Iterable[Path]) -> None:
    if wrong := [path for path in sorted(found) if not path.is_file()]:
        raise ValueError(f"{wrong[0]} is not a file; remove it, or give the folder of a checkpoint")


def _matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return [path for path in folder.iterdir() if any(fnmatchcase(path.name, pattern) for pattern in patterns)]


def _rows_of(table: np.ndarray, start: int, stop: int) -> np.ndarray:
    return table[start:stop]
