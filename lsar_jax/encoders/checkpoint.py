"""Checkpoints to Flax modules: read strictly, only the blocks asked for.

A key table maps each leaf of the module to a tensor of the checkpoint. Every leaf must be
filled, every tensor must be known, every shape must fit; what does not is one error that
lists it all. Weights come from safetensors only: a pickle can run code when it is opened.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flax import nnx

from lsar_jax.encoders.transformer import ACTIVATIONS, Transformer, TransformerConfig
from lsar_jax.tokenization import Tokenizer

__all__ = ["BERT_KEYS", "Checkpoint", "Tensor", "fill_transformer", "read_folder", "resolve"]

# Leaf of the module -> tensor of a BERT checkpoint; {} is the block. Kernels are transposed:
# torch keeps [out, in].
BERT_KEYS = {
    "embeddings.word.embedding": "embeddings.word_embeddings.weight",
    "embeddings.position.embedding": "embeddings.position_embeddings.weight",
    "embeddings.token_type.embedding": "embeddings.token_type_embeddings.weight",
    "embeddings.norm.scale": "embeddings.LayerNorm.weight",
    "embeddings.norm.bias": "embeddings.LayerNorm.bias",
    "blocks.{}.query.kernel": "encoder.layer.{}.attention.self.query.weight",
    "blocks.{}.query.bias": "encoder.layer.{}.attention.self.query.bias",
    "blocks.{}.key.kernel": "encoder.layer.{}.attention.self.key.weight",
    "blocks.{}.key.bias": "encoder.layer.{}.attention.self.key.bias",
    "blocks.{}.value.kernel": "encoder.layer.{}.attention.self.value.weight",
    "blocks.{}.value.bias": "encoder.layer.{}.attention.self.value.bias",
    "blocks.{}.attention_out.kernel": "encoder.layer.{}.attention.output.dense.weight",
    "blocks.{}.attention_out.bias": "encoder.layer.{}.attention.output.dense.bias",
    "blocks.{}.attention_norm.scale": "encoder.layer.{}.attention.output.LayerNorm.weight",
    "blocks.{}.attention_norm.bias": "encoder.layer.{}.attention.output.LayerNorm.bias",
    "blocks.{}.feed_in.kernel": "encoder.layer.{}.intermediate.dense.weight",
    "blocks.{}.feed_in.bias": "encoder.layer.{}.intermediate.dense.bias",
    "blocks.{}.feed_out.kernel": "encoder.layer.{}.output.dense.weight",
    "blocks.{}.feed_out.bias": "encoder.layer.{}.output.dense.bias",
    "blocks.{}.norm.scale": "encoder.layer.{}.output.LayerNorm.weight",
    "blocks.{}.norm.bias": "encoder.layer.{}.output.LayerNorm.bias",
}
# What BERT checkpoints also carry and sentence embeddings do not use.
_BERT_UNUSED = re.compile(r"(pooler|cls)\..*|embeddings\.position_ids")
_TOKENIZER_FILES = ["tokenizer*.json", "vocab.txt", "*.model", "special_tokens_map.json", "added_tokens.json"]


class Tensor(NamedTuple):
    """A tensor that is not read yet."""

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: sizes and names are known, weights are still on disk.

    Attributes:
      id: as in ``EncoderSpec``.
      revision: as in ``EncoderSpec``.
      config: sizes of the whole model.
      keys: the key table of the family.
      tensors: every tensor that the module may need, by the checkpoint's name.
      tokenizer: ready to use.
      pooling: what the checkpoint says of itself, None if that is more than a pooling.
      pipeline: the same in words, for the error.
    """

    id: str
    revision: str
    config: TransformerConfig
    keys: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    pooling: str | None = "mean"
    pipeline: str = ""


def fill_transformer(checkpoint: Checkpoint, *, blocks: int, dtype: Any) -> Transformer:
    """Returns the module with the first ``blocks`` blocks, its weights read from ``checkpoint``.

    Args:
      checkpoint: later blocks are neither read nor built.
      blocks: how many.
      dtype: compute dtype; parameters are float32, in host memory.

    Raises:
      ValueError: missing, unexpected or mis-shaped tensors, all of them; or a value that is not finite.
    """
    config = replace(checkpoint.config, blocks=blocks)
    abstract = nnx.eval_shape(lambda: Transformer(config, dtype=dtype, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(abstract)
    leaves = [(path, ".".join(map(str, path)), leaf) for path, leaf in nnx.to_flat_state(state)]
    _check(checkpoint, {name: tuple(leaf.shape) for _, name, leaf in leaves})
    filled = [(path, leaf.replace(_read(checkpoint, name))) for path, name, leaf in leaves]
    return nnx.merge(graph, nnx.from_flat_state(filled))


def read_folder(folder: Path, *, id: str, revision: str | None = None) -> Checkpoint:
    """Opens a Hugging Face folder: ``config.json``, safetensors and tokenizer files.

    Raises:
      FileNotFoundError: a file is not there.
      ValueError: another architecture, or a config that is not understood.
    """
    config = _read_json(folder / "config.json", dict)
    tensors, weights = _open_safetensors(folder)
    transformer = _bert_config(config, folder)
    pooling, pipeline = _own_pooling(folder)
    return Checkpoint(
        id=id,
        revision=revision or _sha256([*weights, *_other_files(folder)]),
        config=transformer,
        keys=BERT_KEYS,
        tensors=tensors,
        tokenizer=_read_tokenizer(folder, transformer),
        pooling=pooling,
        pipeline=pipeline,
    )


def resolve(name_or_path: str, revision: str | None) -> tuple[Path, str, str | None]:
    """Returns the folder of a checkpoint, its id, and its revision on the Hub.

    A folder stands for itself. Anything else is a Hub id: the files are downloaded once and
    kept by ``huggingface_hub``; with ``HF_HUB_OFFLINE=1`` only what is kept is used.

    Raises:
      FileNotFoundError: neither a folder nor a Hub id that can be downloaded.
      ValueError: a revision of a folder.
    """
    folder = Path(name_or_path)
    if folder.is_dir():
        if revision is not None:
            raise ValueError(f"revision {revision!r} is for Hub ids; {name_or_path} is a folder")
        return folder, folder.resolve().name, None
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name_or_path):
        raise FileNotFoundError(f"there is no folder {name_or_path}, and it is not a Hub id")

    from huggingface_hub import snapshot_download

    wanted = [
        "config.json",
        "modules.json",
        "sentence_*_config.json",
        "*_Pooling/config.json",
        "*.safetensors*",
        *_TOKENIZER_FILES,
    ]
    try:
        local = Path(snapshot_download(name_or_path, revision=revision, allow_patterns=wanted))
    except Exception as error:  # the Hub client raises a dozen kinds, network ones included
        raise FileNotFoundError(
            f"{name_or_path!r} is not a folder and cannot be downloaded from the Hugging Face Hub "
            f"({type(error).__name__}: {str(error).strip().splitlines()[0]}). Where the Hub can be "
            f"reached, run `hf download {name_or_path}` and pass the folder that it prints"
        ) from error
    # The Hub's cache names the folder by its commit.
    return local, name_or_path, local.name


def _check(checkpoint: Checkpoint, shapes: Mapping[str, tuple[int, ...]]) -> None:
    expected = {_key(checkpoint, name): _stored_shape(name, shape) for name, shape in shapes.items()}
    every = {
        template.format(block) for template in checkpoint.keys.values() for block in range(checkpoint.config.blocks)
    }
    problems = [f"missing: {key}" for key in expected if key not in checkpoint.tensors]
    problems += [f"unexpected: {key}" for key in checkpoint.tensors if key not in every]
    problems += [
        f"mis-shaped: {key} is {list(checkpoint.tensors[key].shape)}, the config says {list(shape)}"
        for key, shape in expected.items()
        if key in checkpoint.tensors and tuple(checkpoint.tensors[key].shape) != shape
    ]
    if problems:
        raise ValueError(f"the weights of {checkpoint.id} do not fit its config:\n  " + "\n  ".join(problems))


def _key(checkpoint: Checkpoint, name: str) -> str:
    block = re.match(r"blocks\.(\d+)\.", name)
    if block is None:
        return checkpoint.keys[name]
    template = checkpoint.keys["blocks.{}." + name[block.end() :]]
    return template.format(block[1])


def _stored_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[::-1] if name.endswith(".kernel") else shape


def _read(checkpoint: Checkpoint, name: str) -> np.ndarray:
    key = _key(checkpoint, name)
    value = checkpoint.tensors[key].read().astype(np.float32, copy=False)
    if not np.isfinite(value).all():
        raise ValueError(f"{key} of {checkpoint.id} holds NaN or infinity")
    return value.T if name.endswith(".kernel") else value


def _read_json(path: Path, kind: type) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name} in {path.parent}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, kind):
        raise ValueError(f"{path} holds a JSON {type(value).__name__}, expected a {kind.__name__}")
    return value


def _open_safetensors(folder: Path) -> tuple[dict[str, Tensor], list[Path]]:
    from safetensors import SafetensorError, safe_open

    index = folder / "model.safetensors.index.json"
    names = _shards(index) if index.is_file() else ["model.safetensors"]
    paths = [folder / name for name in names]
    for path in paths:
        if not path.is_file():
            hint = ""
            if (folder / "pytorch_model.bin").is_file():
                hint = "; pytorch_model.bin is a pickle and is not read, save the model as safetensors"
            raise FileNotFoundError(f"there is no {path.name} in {folder}{hint}")
    tensors: dict[str, Tensor] = {}
    twice = []
    for path in paths:
        try:
            file = safe_open(path, framework="numpy")
        except SafetensorError as error:
            raise ValueError(f"{path} is not a safetensors file: {error}") from error
        for key in file.keys():  # noqa: SIM118 - not a dict
            name = _plain_name(key)
            if name in tensors:
                twice.append(f"{key} in {path.name}")
            if not _BERT_UNUSED.fullmatch(name):
                shape = tuple(file.get_slice(key).get_shape())
                tensors[name] = Tensor(shape, partial(file.get_tensor, key))
    if twice:
        raise ValueError(f"{folder} has these weights twice, under two names: {', '.join(twice)}")
    return tensors, paths


def _shards(index: Path) -> list[str]:
    names = _read_json(index, dict).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise ValueError(f"{index} has no weight_map from tensors to files")
    outside = [name for name in names.values() if Path(name).name != name]
    if outside:
        raise ValueError(f"{index} names files outside its folder: {outside[0]}")
    return sorted(set(names.values()))


def _other_files(folder: Path) -> list[Path]:
    """What the embeddings depend on besides the weights: config and tokenizer."""
    patterns = ["config.json", "sentence_*_config.json", *_TOKENIZER_FILES]
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def _plain_name(key: str) -> str:
    """Older checkpoints carry the model's name in front and call LayerNorm's weights gamma, beta."""
    key = key.removeprefix("bert.")
    return key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _bert_config(config: Mapping[str, Any], folder: Path) -> TransformerConfig:
    if config.get("model_type") != "bert":
        raise ValueError(f"{folder} is a checkpoint of type {config.get('model_type')!r}; known are: bert")
    required = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    for name, value in required.items():
        if config.get(name, value) != value:
            raise ValueError(f"{name} is {config[name]!r} in {folder}/config.json; only {value!r} is known")
    if config.get("hidden_act", "gelu") not in ACTIVATIONS:
        raise ValueError(f"hidden_act {config['hidden_act']!r} is not one of {sorted(ACTIVATIONS)}")
    names = {
        "vocabulary": "vocab_size",
        "hidden": "hidden_size",
        "blocks": "num_hidden_layers",
        "heads": "num_attention_heads",
        "intermediate": "intermediate_size",
        "positions": "max_position_embeddings",
        "token_types": "type_vocab_size",
    }
    lacking = sorted(name for name in names.values() if not isinstance(config.get(name), int))
    if lacking:
        raise ValueError(f"{folder}/config.json lacks whole numbers for {', '.join(lacking)}")
    epsilon = config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not epsilon > 0:
        raise ValueError(f"layer_norm_eps is {epsilon!r} in {folder}/config.json; it must be a positive number")
    return TransformerConfig(
        **{ours: config[theirs] for ours, theirs in names.items()},
        layer_norm_epsilon=epsilon,
        activation=config.get("hidden_act", "gelu"),
    )


def _own_pooling(folder: Path) -> tuple[str | None, str]:
    """Reads what a sentence-transformers folder does after the blocks; plain BERT has a mean."""
    if not (folder / "modules.json").is_file():
        return "mean", ""
    try:
        modules = [(m["type"].rsplit(".", 1)[-1], m["path"]) for m in _read_json(folder / "modules.json", list)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder}/modules.json is not a list of modules with type and path") from error
    pipeline = " -> ".join(kind for kind, _ in modules)
    if [kind for kind, _ in modules] != ["Transformer", "Pooling"]:
        return None, pipeline
    pooling = _read_json(folder / modules[1][1] / "config.json", dict)
    # Since version 6 sentence-transformers writes the mode's name, before it wrote a flag a mode.
    modes = [mode.removeprefix("pooling_mode_") for mode, on in pooling.items() if "pooling_mode_" in mode and on]
    modes = [str(pooling["pooling_mode"])] if "pooling_mode" in pooling else modes
    known = {"mean": "mean", "mean_tokens": "mean", "cls": "cls", "cls_token": "cls", "max": "max", "max_tokens": "max"}
    return (known.get(modes[0]) if len(modes) == 1 else None), f"{pipeline} ({', '.join(modes)})"


def _read_tokenizer(folder: Path, config: TransformerConfig) -> Tokenizer:
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise FileNotFoundError(f"no tokenizer could be loaded from {folder}: {error}") from error
    if len(loaded) > config.vocabulary:
        raise ValueError(f"the tokenizer of {folder} has {len(loaded)} entries, the model embeds {config.vocabulary}")
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(f"the tokenizer of {folder}, {type(loaded).__name__}, has no fast form")
    limits = [int(loaded.model_max_length), config.positions]
    for path in sorted(folder.glob("sentence_*_config.json")):
        limit = _read_json(path, dict).get("max_seq_length")
        limits += [limit] if isinstance(limit, int) else []
    return Tokenizer(backend, loaded.pad_token_id or 0, min(limits))


def _sha256(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"
