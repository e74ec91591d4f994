"""Every architecture of transformers' checkpoints: prefixes of tensor names, an early exit, classes of code."""

import json
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from tests import parity
from tests.rewriting import edit_json


@pytest.mark.parametrize("name", [name for name in parity.ARCHITECTURES if not name.startswith("laser")])
def test_an_early_exit_reads_its_blocks_alone(name, tmp_path):
    """Under each prefix of a checkpoint with a head; what is not needed holds NaN, which would be refused."""
    folder = shutil.copytree(parity.GOLDEN / name, tmp_path / name)
    whole = read_folder(folder, id=name)
    norms = {key for leaf, key in whole.keys.items() if leaf.startswith("norm.")}
    tensors = load_file(folder / "model.safetensors")
    for key, tensor in tensors.items():
        if re.search(r"\.[1-9]\.", key) or key in norms or whole.architecture.is_unused(key):
            tensors[key] = np.full_like(tensor, np.nan)
    case = parity.golden(name)
    for prefix in whole.architecture.prefixes:
        save_file({prefix + key: tensor for key, tensor in tensors.items()}, folder / "model.safetensors")
        model = load_weights(read_folder(folder, id=name), blocks=1, dtype="float32")
        states = parity.all_states(model, case["ids"], case["lengths"], case["languages"])
        real = np.arange(case["ids"].shape[1]) < case["lengths"][:, None]
        for ours, theirs in zip(states, case["hidden"][:2], strict=True):
            np.testing.assert_allclose(ours[real], theirs[real], atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(("name", "model_type", "code"), [
    ("qwen3-both", "bidirlm", "BidirLMModel"),
    ("qwen3-both", "bidirectional_pplx_qwen3", "PPLXQwen3Model"),
    ("qwen3-both", "qwen3", "Qwen3BidirectionalModel"),
    ("qwen2", "qwen2", "Qwen2Model"),
    ("ministral3", "ministral3_bidirec", "Ministral3BidirectionalModel"),
    ("llama", "llama_bidirec", "LlamaBidirectionalModel"),
])  # fmt: skip
def test_classes_of_code_attend_to_both_sides(name, model_type, code, tmp_path, rng):
    plain, folder = (shutil.copytree(parity.GOLDEN / name, tmp_path / kind) for kind in ("plain", "code"))
    edit_json(plain / "config.json", is_causal=False)
    edit_json(folder / "config.json", model_type=model_type, is_causal=..., auto_map={"AutoModel": f"modeling.{code}"})
    expected = lj.load_encoder(plain, pooling="last" if name == "qwen2" else "mean").encode(parity.TEXTS)
    if model_type == "qwen3":  # as in voyage-4-nano
        weights, matrix = folder / "model.safetensors", rng.standard_normal((24, 32)).astype(np.float32)
        save_file(load_file(weights) | {"linear.weight": matrix}, weights)
        expected = expected @ matrix.T
    elif "pplx" in model_type:
        kinds = [f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling")]
        kinds = zip([*kinds, "st_quantize.FlexibleQuantizer"], ("", "1_Pooling", ""), strict=True)
        (folder / "modules.json").write_text(json.dumps([{"type": kind, "path": path} for kind, path in kinds]))
        edit_json(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=True)
        expected = np.round(127 * np.tanh(expected))
        with pytest.raises(ValueError, match="its last layer, of whole numbers"):
            lj.load_encoder(folder).to_sentence_transformers(tmp_path / "written")
    found = lj.load_encoder(folder).encode(parity.TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    edit_json(folder / "config.json", is_causal=True)
    with pytest.raises(ValueError, match="is_causal is True in config.json; only False is supported"):
        lj.load_encoder(folder)
