"""Export of an encoder to a folder that transformers and sentence-transformers can load.

The weights are written with the tensor names and the config of the encoder's own architecture; the
pooling and the layers after it are written in the files that sentence-transformers uses for them.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from lsar_jax.checkpoints.architectures import Architecture
from lsar_jax.checkpoints.fill import TRANSPOSED
from lsar_jax.checkpoints.sentence_transformers import MODES
from lsar_jax.files import new_folder, write_json
from lsar_jax.models.projection import TORCH_NAMES, Dense, Normalize
from lsar_jax.models.transformer import TransformerConfig
from lsar_jax.tokens.tokenizer import FastTokenizer, SlowTokenizer

__all__ = ["check_exportable", "export"]


def export(
    folder: Path,
    model: Any,
    tokenizer: Any,
    architecture: Architecture | None,
    *,
    id: str,
    blocks: int,
    pooling: str,
    layers: Sequence[Dense | Normalize],
    prompts: Mapping[str, str],
    prompt: str,
) -> None:
    """Writes an encoder to ``folder``; see ``SentenceEncoder.to_sentence_transformers``.

    Args:
      folder: folder to write, which must not exist yet.
      model: Flax module of the encoder.
      tokenizer: tokenizer of the checkpoint.
      architecture: architecture of the model; None if it is unknown.
      id: id of the encoder, used in error messages.
      blocks: number of blocks to write.
      pooling: one of ``MODES``.
      layers: layers applied after the pooling.
      prompts: prompts by name.
      prompt: the default prompt.

    Raises:
      FileExistsError: ``folder`` already exists.
      ValueError: transformers does not support the architecture, or sentence-transformers the pooling.
    """
    sizes = model.config
    write_config = check_exportable(architecture, sizes, pooling, id)
    assert architecture is not None
    with new_folder(folder) as new:
        write_json(new / "config.json", write_config(sizes, blocks, tokenizer.pad_id))
        _write_tensors(new / "model.safetensors", _tensors(model, architecture, blocks))
        _write_tokenizer(new, tokenizer)
        kinds = ["Transformer", "Pooling", *("Normalize" if isinstance(x, Normalize) else "Dense" for x in layers)]
        paths = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds[1:], 1))]
        modules = [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for index, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ]
        write_json(new / "modules.json", modules)
        lower = isinstance(tokenizer, FastTokenizer) and tokenizer.lower
        limits = {"max_seq_length": tokenizer.max_length, "do_lower_case": lower}
        write_json(new / "sentence_bert_config.json", limits)
        _write_prompts(new / "config_sentence_transformers.json", prompts, prompt)
        modes = {f"pooling_mode_{theirs}": ours == pooling for ours, theirs in MODES.items()}
        (new / paths[1]).mkdir()
        write_json(new / paths[1] / "config.json", {"word_embedding_dimension": sizes.hidden, **modes})
        for path, layer in zip(paths[2:], layers, strict=True):
            _write_layer(new / path, layer)


def check_exportable(
    architecture: Architecture | None, sizes: Any, pooling: str, id: str
) -> Callable[[TransformerConfig, int, int], dict[str, Any]]:
    """Returns the function that writes the config of an architecture.

    Raises:
      ValueError: transformers does not support the architecture, or sentence-transformers the pooling.
    """
    if architecture is None or architecture.export is None or not isinstance(sizes, TransformerConfig):
        raise ValueError(f"neither transformers nor sentence-transformers supports the architecture of {id}")
    if pooling not in MODES:
        raise ValueError(f"sentence-transformers has no pooling {pooling!r}; it has {', '.join(MODES)}")
    return architecture.export


def _tensors(model: Any, architecture: Architecture, blocks: int) -> dict[str, np.ndarray]:
    tensors = {}
    for path, leaf in nnx.to_flat_state(nnx.state(model)):
        name = ".".join(map(str, path))
        index = int(str(path[1])) if path[0] == "blocks" else None
        if index is not None and index >= blocks:
            continue
        template = name if index is None else ".".join(["blocks", "{}", *map(str, path[2:])])
        value = np.asarray(leaf[...], np.float32)
        value = value.T if name.endswith(TRANSPOSED) else value
        tensors[architecture.keys[template].format(index)] = np.ascontiguousarray(value)
    return tensors


def _write_layer(folder: Path, layer: Dense | Normalize) -> None:
    folder.mkdir()
    if isinstance(layer, Normalize):
        return
    weight = np.ascontiguousarray(layer.weight)
    sizes = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": True}
    write_json(folder / "config.json", {**sizes, "activation_function": TORCH_NAMES[layer.activation]})
    _write_tensors(folder / "model.safetensors", {"linear.weight": weight, "linear.bias": layer.bias})


def _write_tokenizer(folder: Path, tokenizer: Any) -> None:
    if isinstance(tokenizer, FastTokenizer):
        tokenizer.save(folder / "tokenizer.json")
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": tokenizer.max_length,
            "pad_token": tokenizer.backend.id_to_token(tokenizer.pad_id),
        }
        write_json(folder / "tokenizer_config.json", settings)
    elif isinstance(tokenizer, SlowTokenizer):
        for path in tokenizer.files:
            shutil.copyfile(path, folder / path.name)


def _write_prompts(path: Path, prompts: Mapping[str, str], prompt: str) -> None:
    prompts = dict(prompts)
    if prompt and prompt not in prompts.values():
        prompts["default"] = prompt
    name = next((name for name, text in prompts.items() if prompt and text == prompt), None)
    write_json(path, {"prompts": prompts, "default_prompt_name": name})


def _write_tensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, {"format": "pt"})
