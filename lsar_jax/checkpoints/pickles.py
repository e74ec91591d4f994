"""One-time conversion of pickled checkpoints to safetensors folders.

A pickle can run code when it is opened. torch's ``weights_only=True`` accepts only tensors and plain containers, and
has no known vulnerability from torch 2.10 on (CVE-2025-32434 and CVE-2026-24747 affect earlier versions).
"""

import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsar_jax.checkpoints.adapters import refuse_adapters
from lsar_jax.checkpoints.checkpoint import other_files
from lsar_jax.checkpoints.locate import CONFIG_FILES, TOKENIZER_FILES, is_folder, locate, preset_of
from lsar_jax.checkpoints.presets import PRESETS
from lsar_jax.checkpoints.sentence_transformers import module_folders, read_pipeline
from lsar_jax.checkpoints.weight_files import shard_files
from lsar_jax.extras import import_extra
from lsar_jax.files import check_absent, check_file, new_folder, sha256, write_json
from lsar_jax.models.architectures import Architecture, read_config
from lsar_jax.models.architectures.laser import LASER
from lsar_jax.tokens.laser import CODES, DICTIONARY, SENTENCEPIECE, VOCABULARY

__all__ = ["convert"]

_TORCH = (2, 10)
_PICKLE, _WEIGHTS = "pytorch_model.bin", "model.safetensors"


def convert(checkpoint: str, dest: Path, *, revision: str | None = None) -> None:
    """Converts a pickled checkpoint to a safetensors folder that ``load_encoder`` can open.

    Args:
      checkpoint: a folder, preset or Hub id with ``pytorch_model.bin``, whole or in shards, or a ``.pt`` file of LASER,
        with its ``.spm`` file (LASER2), or its ``.fcodes`` and ``.fvocab`` files (LASER1), in the same folder.
      dest: the folder to write, which must not exist yet.
      revision: commit, tag or branch of a Hub id.

    Raises:
      FileExistsError: ``dest`` already exists.
      FileNotFoundError: ``checkpoint`` or a file that belongs to it does not exist.
      ImportError: torch is not installed, or is older than 2.10.
      ValueError: the architecture is not supported, there are adapters, or a pickle holds more than weights.
    """
    check_absent(dest)
    if is_folder(checkpoint):
        other_files(Path(checkpoint))  # finds files that were lost
    version = import_extra("torch", "convert", "converting a pickled checkpoint").__version__
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < _TORCH:
        raise ImportError(f"torch {version} is installed; opening a pickle requires 2.10 or newer")
    preset = None
    if Path(checkpoint).is_file():
        _convert_laser(Path(checkpoint), dest)
    else:
        named = preset_of(checkpoint)
        id, revision = (named.id, revision or named.revision) if named else (checkpoint, revision)
        preset = next((preset for preset in PRESETS.values() if preset.id == id), None)
        _convert_folder(locate(id, revision, pickles=True)[0], dest)
    for weights in sorted(dest.rglob("*.safetensors")):
        print(f"wrote {weights}: {sha256([weights])}")
    if preset and (preset.layer is not None or preset.pooling is not None):
        chosen = f"layer={preset.layer}, pooling={preset.pooling!r}"
        print(f"to load the folder with the settings of the preset, pass {chosen}")


def _convert_folder(folder: Path, dest: Path) -> None:
    refuse_adapters(folder)
    pipeline = read_pipeline(folder)
    transformer = pipeline.transformer
    _, architecture = read_config(transformer / "config.json", pipeline.module)
    with new_folder(dest) as new:
        # The other modules of sentence-transformers: Pooling and Dense layers.
        parts = {transformer, *module_folders(folder), *(path.parent for path in folder.glob("*/config.json"))}
        for part in [folder, *sorted(parts - {folder})]:
            target = new / part.relative_to(folder)
            target.mkdir(parents=True, exist_ok=True)
            if part == transformer:
                weights: tuple[str, ...] = ("*.safetensors", "*.safetensors.index.json")
                state = None if list(part.glob(weights[0])) else _plain(part, architecture)
            else:
                weights = (_WEIGHTS,)
                state = _tensors(part / _PICKLE) if (part / _PICKLE).is_file() else None
            if state is not None:
                _save(state, target / _WEIGHTS)
            for pattern in (*CONFIG_FILES, *TOKENIZER_FILES, *(weights if state is None else ())):
                for file in part.glob(pattern):
                    if file.is_file():
                        shutil.copyfile(file, target / file.name)


def _convert_laser(path: Path, dest: Path) -> None:
    state = _load(path)
    sizes = {"vocab_size": "num_embeddings", "embedding_size": "embed_dim"}
    sizes |= {"hidden_size": "hidden_size", "num_hidden_layers": "num_layers"}
    parts: list[Any] = [
        state.get(name) if isinstance(state, dict) else None for name in ("params", "model", "dictionary")
    ]
    params = parts[0]
    if (
        not all(isinstance(part, dict) for part in parts)
        or not {*sizes.values()} <= set(params)
        or (params.get("bidirectional"), params.get("padding_idx")) != (True, 1)
    ):
        raise ValueError(
            f"{path} is not LASER's encoder, which has a model, a dictionary, and params ({', '.join(sizes.values())}, "
            f"bidirectional=True and padding_idx=1); the params here are {params!r:.200}"
        )
    config = {"model_type": LASER.model_type, **{ours: params[theirs] for ours, theirs in sizes.items()}}
    LASER.read_config(config)
    copies = _laser_pieces(path)
    with new_folder(dest) as new:
        _save(state["model"], new / _WEIGHTS)
        for name, file in copies.items():
            shutil.copyfile(file, new / name)
        write_json(new / DICTIONARY, state["dictionary"])
        write_json(new / "config.json", config)


def _laser_pieces(path: Path) -> dict[str, Path]:
    """Returns the files of the tokenizer, by the names under which they are saved."""
    beside = [path.with_suffix(".spm"), *sorted(path.parent.glob("*.fcodes"))]
    file = next((file for file in beside if file.is_file()), beside[0])
    files = {SENTENCEPIECE: file} if file.suffix == ".spm" else {CODES: file, VOCABULARY: file.with_suffix(".fvocab")}
    if missing := [file for file in files.values() if not file.is_file()]:
        raise FileNotFoundError(f"there is no {missing[0]}; LASER2 has a .spm, LASER1 a .fcodes and a .fvocab")
    return files


def _plain(folder: Path, architecture: Architecture) -> dict[str, Any]:
    """Reads the weights that embeddings and the layers after the pooling need."""
    whole, index = folder / _PICKLE, folder / f"{_PICKLE}.index.json"
    paths = shard_files(index) if index.is_file() and not os.path.lexists(whole) else [whole]
    named = {architecture.plain_name(key): value for path in paths for key, value in _tensors(path).items()}
    return {
        name: tensor
        for name, tensor in named.items()
        if not architecture.is_unused(name)
        or (architecture.pooler and name.startswith(f"{architecture.pooler}."))
        or name == architecture.projection
    }


def _tensors(path: Path) -> dict[str, Any]:
    import torch

    state = _load(path)
    if not isinstance(state, dict) or not state or not all(isinstance(x, torch.Tensor) for x in state.values()):
        raise ValueError(f"{path} does not hold a mapping from names to tensors")
    return state


def _load(path: Path) -> Any:
    import torch

    check_file(path)
    try:
        with warnings.catch_warnings():
            # Silences warnings about the pickle protocol; pickles that cannot be read still raise an error.
            warnings.simplefilter("ignore", UserWarning)
            # mmap is not used: LASER's files are in torch's legacy format, which does not support it.
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "trust" in str(error):  # torch advises to do so
            reason = "it holds Python objects, or is no checkpoint"
        raise ValueError(f"{path} is damaged or holds more than weights, and was not opened: {reason}") from error


def _save(tensors: Mapping[str, Any], path: Path) -> None:
    from safetensors.torch import save_file

    # Tensors that share memory are copied, because safetensors refuses to write them.
    written, places = {}, set()
    for name, tensor in tensors.items():
        written[name] = tensor.clone() if tensor.data_ptr() in places else tensor.contiguous()
        places.add(tensor.data_ptr())
    save_file(written, path, {"format": "pt"})
