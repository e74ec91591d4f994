"""Adapters (Hu et al., "LoRA", ICLR 2022), merged into the weights of a checkpoint while these are read.

PEFT writes ``adapter_config.json`` and ``adapter_model.safetensors``: alone, beside the base, in folders beneath it, or
where a sentence-transformers folder has its transformer. The weights of jina-embeddings-v3 hold an adapter for each of
its tasks (Sturua et al., 2024). The parts of either are named after their module, ``lora_B`` and ``lora_A``, until
``merged`` adds their product to the weight of the module. Biases, magnitudes (DoRA) and whole modules are refused.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.checkpoints.locate import locate
from lsar_jax.checkpoints.module_settings import KEYS
from lsar_jax.checkpoints.weight_files import Tensor, open_safetensors, read_tensor
from lsar_jax.checks import check_choice, errors_of, positive_number
from lsar_jax.files import read_json

__all__ = ["adapters_in", "base_of", "choose", "merged", "of_task", "read_adapter", "refuse_adapters"]

_CONFIG, _STEM = "adapter_config.json", "adapter_model"
# The names of other adapters, the suffixes of weights, and what the tensors of LoRA have in their names.
_ADAPTER = re.compile(r"adapter_config\.json$|adapter_model|pytorch_adapter", re.IGNORECASE)
_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
_LORA = re.compile(r"(^|[^a-z])lora([^a-z]|$)", re.IGNORECASE)
_PEFT = re.compile(r"(.+)\.(lora_[AB])\.weight")
_STORED = ".parametrizations.weight."


def adapters_in(folder: Path, transformer: Path) -> dict[str, Path]:
    """Returns the folders of PEFT's adapters by name: ``default`` in the folder itself or beside the transformer."""
    places = [path.parent for path in _files(folder) if path.name == _CONFIG]
    names = {place: "default" if place in (folder, transformer) else place.name for place in places}
    twice = {name for name, count in Counter(names.values()).items() if count > 1}
    return {name if name not in twice else str(place.relative_to(folder)): place for place, name in names.items()}


def choose(id: str, names: Collection[str], adapter: str | None) -> str | None:
    """Returns the adapter to merge: the one that is asked for, else ``default`` or the only one, None without any.

    Raises:
      ValueError: it is not one of them, or none of several is asked for.
    """
    if adapter is None and (len(names) < 2 or "default" in names):
        return "default" if "default" in names else next(iter(names), None)
    if not names:
        raise ValueError(f"{id} has no adapters; leave out adapter={adapter!r}")
    check_choice(f"{id}: adapter", adapter, names)
    return adapter


def read_adapter(place: Path) -> tuple[dict[str, Any], dict[str, Any], list[Path]]:
    """Returns the config of an adapter, its tensors by the names of the base's modules, and its files.

    Raises:
      FileNotFoundError: there are no weights in safetensors.
      ValueError: the config has a setting that is not supported, or another rank than the tensors.
    """
    path = place / _CONFIG
    config = {"peft_type": None, **read_json(path, dict)}
    for key, value in config.items():
        only = KEYS[_CONFIG].get(key, [None])
        if only and (value or None) not in only:
            choices = ", ".join(map(repr, only))
            raise ValueError(f"{path}: {key} is {value!r:.80}; supported is {choices}. Merge the adapter with PEFT")
    stored, files = open_safetensors(place, stem=_STEM)
    tensors: dict[str, Any] = {}
    for name, tensor in stored.items():
        name = name.removeprefix("base_model.model.")
        if not (found := _PEFT.fullmatch(name)):
            raise ValueError(f"{place}: {name} is not a weight of LoRA. Merge the adapter with PEFT")
        module, part = found.groups()
        value = read_tensor(tensor, f"{name} of {place}")
        if part == "lora_B":
            with errors_of(path):
                value *= _scale(config, module, value.shape[-1])
        tensors[f"{module}.{part}"] = value
    return config, tensors, [path, *files]


def _scale(config: Mapping[str, Any], module: str, rank: int) -> np.float32:
    """Returns alpha / r of a module, or alpha / sqrt(r); raises ValueError if its tensors are of another rank."""

    def of(key: str, patterns: str) -> Any:
        given = (config.get(patterns) or {}).items()
        return next((value for name, value in given if re.match(rf"(.*\.)?({name})$", module)), config.get(key))

    alpha, r = positive_number("lora_alpha", of("lora_alpha", "alpha_pattern")), of("r", "rank_pattern")
    if rank != r:
        raise ValueError(f"r of {module} is {r!r}, and its tensors have {rank}")
    return np.float32(alpha / (math.sqrt(r) if config.get("use_rslora") else r))


def base_of(path: Path, config: Mapping[str, Any]) -> tuple[Path, str | None]:
    """Returns the folder of the base that the config in ``path`` names, and its commit if it is on the Hub."""
    name = config.get("base_model_name_or_path")
    try:
        folder, _, commit = locate(str(name), config.get("revision"))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: base_model_name_or_path is {name!r}: {error}") from error
    refuse_adapters(folder)
    return folder, commit


def of_task(tensors: Mapping[str, Any], config: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Returns the tensors of jina-embeddings-v3 with the adapter of a task; those of other encoders as they are."""
    if not task:
        return dict(tensors)
    result: dict[str, Any] = {}
    alpha, rank = (positive_number(name, config.get(name)) for name in ("lora_alpha", "lora_rank"))
    tasks = config["lora_adaptations"]
    for name, tensor in tensors.items():
        module, _, part = name.partition(_STORED)
        if part in ("", "original"):
            result[f"{module}.weight" if part else name] = tensor
        elif part == "0.lora_A":
            pair = [read_tensor(tensors[f"{module}{_STORED}0.lora_{part}"], name) for part in "BA"]
            if {len(part) for part in pair} != {len(tasks)}:
                raise ValueError(f"{name} has {len(pair[1])} adapters; lora_adaptations names another number")
            left, right = (part[tasks.index(task)] for part in pair)
            if len(left) != tensors[f"{module}{_STORED}original"].shape[0]:
                # The tables of embeddings have them the other way round.
                left, right = right, left
            result |= {f"{module}.lora_B": left * np.float32(alpha / rank), f"{module}.lora_A": right}
    return merged(result)


def merged(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tensors with ``lora_B @ lora_A`` added to the weights of the modules that have these parts.

    Raises:
      ValueError: a part is missing or does not fit the weight.
    """
    result = dict(tensors)
    for module in [name.removesuffix(".lora_B") for name in tensors if name.endswith(".lora_B")]:
        if (weight := tensors.get(f"{module}.weight")) is None:
            continue
        left, right = (result.pop(f"{module}.{part}", None) for part in ("lora_B", "lora_A"))
        shapes = [getattr(part, "shape", ()) for part in (left, right)]
        if [*shapes[0][:1], *shapes[1][1:]] != [*weight.shape] or shapes[0][1:] != shapes[1][:1]:
            raise ValueError(f"the adapter of {module} has shapes {shapes}; its weight is {list(weight.shape)}")
        result[f"{module}.weight"] = weight._replace(rows=partial(_sum, weight, left, right))
    return result


def _sum(base: Tensor, left: Any, right: Any, start: int, stop: int) -> np.ndarray:
    """Reads rows of a merged tensor."""
    return np.asarray(base.rows(start, stop), np.float32) + left[start:stop] @ right


def refuse_adapters(folder: Path, places: Collection[Path] = ()) -> None:
    """Raises ValueError if a checkpoint has adapters, at any depth, of another kind or in other folders than these."""
    for path in _files(folder):
        named = _ADAPTER.match(path.name)
        if not (named and path.parent in places) and (named or any(map(_LORA.search, _tensor_names(path)))):
            raise ValueError(
                f"{path}: adapters (LoRA) are not supported; load a checkpoint whose weights have one merged into "
                "them, or move the file to another folder if it is not of this checkpoint"
            )


def _files(folder: Path) -> list[Path]:
    links = [path for path in folder.iterdir() if path.is_symlink() and path.is_dir()]
    walked = [place for start in (folder, *links) for place in os.walk(start)]
    return sorted(Path(place, name) for place, _, names in walked for name in names)


def _tensor_names(path: Path) -> list[str]:
    """Returns the names of the tensors in a file of weights, or the file's own name if they cannot be read."""
    from safetensors import SafetensorError, safe_open

    if path.suffix.lower() == ".safetensors" and path.is_file():
        with suppress(SafetensorError, OSError), safe_open(path, framework="numpy") as file:
            return [name for name in file.keys() if ".parametrizations." not in name]  # noqa: SIM118 - not a dict
    return [path.name] if path.suffix.lower() in _SUFFIXES else []
