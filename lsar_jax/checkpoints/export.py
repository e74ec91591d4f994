"""Export of an encoder to a folder that transformers and sentence-transformers can load.

The weights are written with the tensor names and the config of the encoder's own architecture; the pooling and the
layers after it are written in the files that sentence-transformers uses for them.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from lsar_jax.checkpoints.load_weights import TRANSPOSED, tensor_name
from lsar_jax.checkpoints.module_settings import APPLIED, MODES
from lsar_jax.files import new_folder, write_json
from lsar_jax.models.architectures import Architecture
from lsar_jax.models.architectures.static import STATIC
from lsar_jax.models.projection import TORCH_NAMES, Dense, Int8, Layer, LayerNorm, Truncate
from lsar_jax.tokens.tokenizer import FastTokenizer, Tokenizer

__all__ = ["check_exportable", "export"]

# What an export writes, as paths relative to its folder; those of folders end in /.
_FILES = (
    r"(config|config_sentence_transformers|modules|sentence_bert_config|special_tokens_map|tokenizer|tokenizer_config"
    r"|vocab)\.json|merges\.txt|model\.safetensors|\d+_[A-Z]\w+/(config\.json|model\.safetensors)?"
)


def check_exportable(encoder: Any, layer: int | None = None) -> None:
    """Raises ValueError if ``export`` cannot write a ``SentenceEncoder``, at its layer or at one below."""
    architecture, model, layer = encoder.architecture, encoder.model, encoder.spec.layer if layer is None else layer
    static, exported = getattr(architecture, "module", "") == STATIC.module, getattr(architecture, "exported", None)
    layers = () if encoder.projection is None else encoder.projection.kinds
    unknown = ", ".join(sorted(set(encoder.pooling.split("+")).difference(["mean"] if static else MODES)))
    normed = exported and getattr(model, "norm", None) and (model.norm_inner or layer == model.config.blocks)
    problems = {
        "it embeds the language, which sentence-transformers does not support": encoder.languages is not None,
        "there is no export of its architecture": exported is None,
        f"sentence-transformers has no pooling {unknown}; it has {'mean' if static else ', '.join(MODES)}": unknown,
        "it leaves unknown tokens out, as model2vec does, and sentence-transformers counts them; give its folder a "
        "modules.json to count them here too": getattr(encoder.tokenizer, "left_out", None) is not None,
        f"layer {layer} is not normalised, but transformers normalises the last layer of every such model; load the "
        "encoder with final_norm=True": exported and "norm.scale" in architecture.keys and not normed,
        "its last layer, of whole numbers, is code of its own; choose pooling='mean'": Int8() in layers,
        "its transform depends on the language or the nearest cluster, which no layer of sentence-transformers "
        "supports; use a shared transform such as LSAR": encoder.transform and encoder.transform.languages is not None,
    }
    if found := [problem for problem, present in problems.items() if present]:
        raise ValueError(f"{encoder.spec.id} cannot be exported: {found[0]}")
    # Raises ValueError if transformers has no such model.
    architecture.export_config(model.config, layer, encoder.tokenizer.pad_id)


def export(encoder: Any, folder: Path, *, overwrite: bool = False) -> None:
    """Writes a ``SentenceEncoder`` to a folder; see ``SentenceEncoder.to_sentence_transformers``."""
    check_exportable(encoder)
    sizes, architecture, tokenizer = encoder.model.config, encoder.architecture, encoder.tokenizer
    modes = encoder.pooling.split("+")
    layers = _layers([] if encoder.projection is None else encoder.projection.layers(), len(modes) * sizes.hidden)
    if encoder.transform is not None:
        matrix, offset = encoder.transform.as_affine()
        layers.append(Dense(np.asarray(matrix, np.float32), np.asarray(offset, np.float32), "identity"))
    first = ["StaticEmbedding"] if architecture.module == STATIC.module else ["Transformer", "Pooling"]
    kinds = [*first, *(type(layer).__name__ for layer in layers)]
    paths = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds[1:], 1))]
    if overwrite and (folder / "modules.json").is_file():
        _check_replaced(folder)
    with new_folder(folder, "modules.json" if overwrite else "") as new:
        for path in paths[1:]:
            (new / path).mkdir()
        tensors = _tensors(encoder.model, architecture, encoder.spec.layer)
        _write_tensors(new, architecture.export_tensors(tensors, sizes, encoder.spec.layer))
        if len(first) == 1:
            tokenizer.save(new / "tokenizer.json", tokenizer.max_length)
        else:
            write_json(new / "config.json", architecture.export_config(sizes, encoder.spec.layer, tokenizer.pad_id))
            _write_tokenizer(new, tokenizer, encoder.include_prompt)
            pooling = _pooling(modes, sizes.hidden) | {"include_prompt": encoder.include_prompt}
            write_json(new / paths[1] / "config.json", pooling)
        modules = [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for index, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ]
        write_json(new / "modules.json", modules)
        write_json(new / "config_sentence_transformers.json", _settings(encoder))
        for path, layer in zip(paths[len(first) :], layers, strict=True):
            _write_layer(new / path, layer)


def _settings(encoder: Any) -> dict[str, Any]:
    """Returns the prompts, and the transforms that are in the layers, which sentence-transformers ignores."""
    prompt, prompts = encoder.prompt, dict(encoder.prompts)
    if prompt and prompt not in prompts.values():
        name = "default"
        while name in prompts:
            name += "_"
        prompts[name] = prompt
    default = next((name for name, text in prompts.items() if prompt and text == prompt), None)
    applied = {APPLIED: sorted(encoder.applied)} if encoder.applied else {}
    return {"prompts": prompts, "default_prompt_name": default, **applied}


def _write_layer(folder: Path, layer: Layer) -> None:
    """Writes the config and the weights of a layer after the pooling; Normalize has neither."""
    if isinstance(layer, Dense):
        outer, inner = layer.weight.shape
        config: dict[str, Any] = {"in_features": inner, "out_features": outer, "bias": True}
        config["activation_function"] = TORCH_NAMES[layer.activation]
    elif isinstance(layer, LayerNorm):
        config = {"dimension": len(layer.bias)}
    else:
        return
    name = "linear" if isinstance(layer, Dense) else "norm"
    write_json(folder / "config.json", config)
    _write_tensors(folder, {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias})


def _check_replaced(folder: Path) -> None:
    """Raises FileExistsError if a folder has more than an export writes, which would be lost with it."""
    for path in sorted(folder.rglob("*")):
        if not re.fullmatch(_FILES, path.relative_to(folder).as_posix() + "/" * path.is_dir()):
            raise FileExistsError(f"{path} is not of an export, and would be deleted; move it or choose another folder")


def _pooling(modes: list[str], width: int) -> dict[str, Any]:
    """Returns the config of a Pooling module; versions before 6 know only flags, which say no order."""
    if [mode for mode in MODES if mode in modes] != modes:
        return {"embedding_dimension": width, "pooling_mode": [MODES[mode][0] for mode in modes]}
    flags = {f"pooling_mode_{flag}": mode in modes for mode, (_, flag) in MODES.items()}
    return {"word_embedding_dimension": width} | flags


def _layers(layers: Sequence[Layer], width: int) -> list[Layer]:
    """Returns the layers, with a Dense for each Truncate, because nothing comes after a ``truncate_dim``."""
    written: list[Layer] = []
    for layer in layers:
        if isinstance(layer, Truncate):
            layer = Dense(np.eye(layer.dim, width, dtype=np.float32), np.zeros(layer.dim, np.float32), "identity")
        width = len(layer.weight) if isinstance(layer, Dense) else width
        written.append(layer)
    return written


def _tensors(model: Any, architecture: Architecture, blocks: int) -> dict[str, np.ndarray]:
    tensors = {}
    for path, leaf in nnx.to_flat_state(nnx.state(model)):
        if path[0] != "blocks" or int(str(path[1])) < blocks:
            value = np.asarray(leaf[...], np.float32)
            tensors[tensor_name(architecture.keys, path)] = value.T if path[-1] in TRANSPOSED else value
    return tensors


def _write_tokenizer(folder: Path, tokenizer: Tokenizer, include_prompt: bool) -> None:
    template = getattr(tokenizer, "template", None)
    forward = {"method": "forward", "method_output_name": "last_hidden_state"}
    messages = {"text": forward, "message": forward | {"format": template.form}} if template else {}
    modalities = {"modality_config": messages, "module_output_name": "token_embeddings"} if template else {}
    settings = {"max_seq_length": tokenizer.max_length, "do_lower_case": False, **modalities}
    write_json(folder / "sentence_bert_config.json", settings)
    if not isinstance(tokenizer, FastTokenizer):
        for path in tokenizer.files:
            shutil.copyfile(path, folder / path.name)
        return
    tokenizer.save(folder / "tokenizer.json")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": tokenizer.max_length,
        "truncation_side": tokenizer.side,
        "pad_token": tokenizer.backend.id_to_token(tokenizer.pad_id),
    }
    if template:
        # A template may write special tokens.
        source = template.tokenizer.get_chat_template()
        settings = {**template.tokenizer.special_tokens_map, **settings, "chat_template": source}
    elif not include_prompt and tokenizer.specials.after:
        # When a prompt is counted, only a special token that is declared is taken off its end.
        settings["sep_token"] = tokenizer.backend.encode("").tokens[-1]
    write_json(folder / "tokenizer_config.json", settings)


def _write_tensors(folder: Path, tensors: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(contiguous, folder / "model.safetensors", {"format": "pt"})
