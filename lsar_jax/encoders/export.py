"""An encoder as a folder that transformers and sentence-transformers load.

Both read the weights with the names and the config of the encoder's own family; what follows
the blocks is in the files that sentence-transformers has for it.
"""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from lsar_jax.encoders.checkpoint import TRANSPOSED
from lsar_jax.encoders.families import Family
from lsar_jax.encoders.files import new_folder, write_json
from lsar_jax.encoders.pipeline import MODES
from lsar_jax.encoders.transformer import TransformerConfig
from lsar_jax.head import TORCH_NAMES, Head, Normalize
from lsar_jax.sentence_encoder import SentenceEncoder
from lsar_jax.tokenization import FastTokenizer, SlowTokenizer

__all__ = ["export"]


def export(encoder: SentenceEncoder, folder: Path) -> None:
    """Writes ``folder``; see ``SentenceEncoder.to_sentence_transformers``."""
    layers = [*_head(encoder.head), *_transform(encoder)]
    family, sizes = encoder.family, encoder.model.config
    if family is None or family.export is None or not isinstance(sizes, TransformerConfig):
        raise ValueError(f"neither transformers nor sentence-transformers has the architecture of {encoder.spec.id}")
    if encoder.languages is not None:
        raise ValueError(f"{encoder.spec.id} embeds the language, which sentence-transformers cannot tell it")
    if encoder.pooling not in MODES:
        raise ValueError(f"sentence-transformers has no pooling {encoder.pooling!r}; it has {', '.join(MODES)}")
    blocks = encoder.spec.layer
    with new_folder(folder) as new:
        write_json(new / "config.json", family.export(sizes, blocks, encoder.tokenizer.pad_id))
        _write_tensors(new / "model.safetensors", _tensors(encoder.model, family, blocks))
        _write_tokenizer(new, encoder.tokenizer)
        kinds = ["Transformer", "Pooling", *("Normalize" if isinstance(x, Normalize) else "Dense" for x in layers)]
        paths = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds[1:], 1))]
        modules = [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for index, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ]
        write_json(new / "modules.json", modules)
        lower = isinstance(encoder.tokenizer, FastTokenizer) and encoder.tokenizer.lower
        limits = {"max_seq_length": encoder.tokenizer.max_length, "do_lower_case": lower}
        write_json(new / "sentence_bert_config.json", limits)
        _write_prompts(new / "config_sentence_transformers.json", encoder.prompts, encoder.prompt)
        modes = {f"pooling_mode_{theirs}": ours == encoder.pooling for ours, theirs in MODES.items()}
        (new / paths[1]).mkdir()
        write_json(new / paths[1] / "config.json", {"word_embedding_dimension": sizes.hidden, **modes})
        for path, layer in zip(paths[2:], layers, strict=True):
            _write_layer(new / path, layer)


def _head(head: Head | None) -> Iterator[tuple[np.ndarray, np.ndarray, str] | Normalize]:
    """Yields W, b and the activation of each Dense."""
    if head is None:
        return
    weights = zip(head.kernels, head.biases, strict=True)
    for kind in head.kinds:
        if kind == Normalize.name:
            yield Normalize()
        else:
            kernel, bias = next(weights)
            yield np.asarray(kernel[...]).T, np.asarray(bias[...]), kind


def _transform(encoder: SentenceEncoder) -> Iterator[tuple[np.ndarray, np.ndarray, str]]:
    transform = encoder.transform
    if transform is None:
        return
    if any(step.clusters is not None for step in transform.steps):
        raise ValueError(
            f"the transform {transform.name} takes another map near each cluster, which no layer of "
            "sentence-transformers does; a shared transform such as LSAR can be written"
        )
    if transform.languages is not None:
        raise ValueError(
            f"the transform {transform.name} depends on the language, which sentence-transformers cannot tell it; "
            "a shared transform such as LSAR can be written"
        )
    matrix, offset = transform.as_affine()
    yield np.asarray(matrix, np.float32), np.asarray(offset, np.float32), "identity"


def _tensors(model: Any, family: Family, blocks: int) -> dict[str, np.ndarray]:
    tensors = {}
    for path, leaf in nnx.to_flat_state(nnx.state(model)):
        name = ".".join(map(str, path))
        index = int(str(path[1])) if path[0] == "blocks" else None
        if index is not None and index >= blocks:
            continue
        template = name if index is None else ".".join(["blocks", "{}", *map(str, path[2:])])
        value = np.asarray(leaf[...], np.float32)
        value = value.T if name.endswith(TRANSPOSED) else value
        tensors[family.keys[template].format(index)] = np.ascontiguousarray(value)
    return tensors


def _write_layer(folder: Path, layer: tuple[np.ndarray, np.ndarray, str] | Normalize) -> None:
    folder.mkdir()
    if isinstance(layer, Normalize):
        return
    weight, bias, activation = layer
    sizes = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": True}
    write_json(folder / "config.json", {**sizes, "activation_function": TORCH_NAMES[activation]})
    _write_tensors(folder / "model.safetensors", {"linear.weight": np.ascontiguousarray(weight), "linear.bias": bias})


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
