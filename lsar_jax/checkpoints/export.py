"""Export of an encoder to a folder that transformers and sentence-transformers can load.

The weights are written with the tensor names and the config of the encoder's own architecture; the pooling and the
layers after it are written in the files that sentence-transformers uses for them.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from lsar_jax.checkpoints.architectures import Architecture
from lsar_jax.checkpoints.fill import TRANSPOSED, tensor_name
from lsar_jax.checkpoints.sentence_transformers import MODES
from lsar_jax.files import new_folder, write_json
from lsar_jax.models.projection import TORCH_NAMES, Dense, Normalize
from lsar_jax.tokens.tokenizer import FastTokenizer, Tokenizer

__all__ = ["export"]


def export(
    folder: Path,
    model: Any,
    tokenizer: Tokenizer,
    architecture: Architecture,
    *,
    blocks: int,
    pooling: str,
    layers: Sequence[Dense | Normalize],
    prompts: Mapping[str, str],
    prompt: str,
) -> None:
    """Writes an encoder; see ``SentenceEncoder.to_sentence_transformers``, which checks that it can be written.

    Args:
      folder: folder to write, which must not exist yet.
      model: Flax module of the encoder.
      tokenizer: tokenizer of the checkpoint.
      architecture: architecture of the model, which has an ``export``.
      blocks: number of blocks to write.
      pooling: one of ``MODES``.
      layers: layers applied after the pooling.
      prompts: prompts by name.
      prompt: the default prompt.

    Raises:
      FileExistsError: ``folder`` already exists.
    """
    assert architecture.export is not None
    kinds = ["Transformer", "Pooling", *(type(layer).__name__ for layer in layers)]
    paths = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds[1:], 1))]
    prompts = dict(prompts)
    if prompt and prompt not in prompts.values():
        prompts["default"] = prompt
    with new_folder(folder) as new:
        for path in paths[1:]:
            (new / path).mkdir()
        write_json(new / "config.json", architecture.export(model.config, blocks, tokenizer.pad_id))
        _write_tensors(new, _tensors(model, architecture, blocks))
        _write_tokenizer(new, tokenizer)
        modules = [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for index, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ]
        write_json(new / "modules.json", modules)
        default = next((name for name, text in prompts.items() if prompt and text == prompt), None)
        write_json(new / "config_sentence_transformers.json", {"prompts": prompts, "default_prompt_name": default})
        modes = {f"pooling_mode_{theirs}": ours == pooling for ours, theirs in MODES.items()}
        write_json(new / paths[1] / "config.json", {"word_embedding_dimension": model.config.hidden, **modes})
        for path, layer in zip(paths[2:], layers, strict=True):
            if isinstance(layer, Dense):
                outer, inner = layer.weight.shape
                sizes = {"in_features": inner, "out_features": outer, "bias": True}
                activation = {"activation_function": TORCH_NAMES[layer.activation]}
                write_json(new / path / "config.json", sizes | activation)
                _write_tensors(new / path, {"linear.weight": layer.weight, "linear.bias": layer.bias})


def _tensors(model: Any, architecture: Architecture, blocks: int) -> dict[str, np.ndarray]:
    tensors = {}
    for path, leaf in nnx.to_flat_state(nnx.state(model)):
        if path[0] != "blocks" or int(str(path[1])) < blocks:
            value = np.asarray(leaf[...], np.float32)
            tensors[tensor_name(architecture.keys, path)] = value.T if path[-1] in TRANSPOSED else value
    return tensors


def _write_tokenizer(folder: Path, tokenizer: Any) -> None:
    lower = isinstance(tokenizer, FastTokenizer) and tokenizer.lower
    limits = {"max_seq_length": tokenizer.max_length, "do_lower_case": lower}
    write_json(folder / "sentence_bert_config.json", limits)
    if not isinstance(tokenizer, FastTokenizer):
        for path in tokenizer.files:
            shutil.copyfile(path, folder / path.name)
        return
    tokenizer.save(folder / "tokenizer.json")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": tokenizer.max_length,
        "pad_token": tokenizer.backend.id_to_token(tokenizer.pad_id),
    }
    write_json(folder / "tokenizer_config.json", settings)


def _write_tensors(folder: Path, tensors: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(contiguous, folder / "model.safetensors", {"format": "pt"})
