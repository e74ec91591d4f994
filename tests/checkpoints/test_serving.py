"""Written folders are in the form that text-embeddings-inference loads, by its source (docs/how-to/serve.md)."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.transforms.methods import METHODS
from tests.parity import GOLDEN, TEXTS

# The names that its source has.
MODULES = {f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling", "Dense", "Normalize")}
ACTIVATIONS = {"torch.nn.modules.activation.Tanh": np.tanh, "torch.nn.modules.linear.Identity": np.asarray}
POOLINGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last"}


def read(folder, name):
    return json.loads((folder / name).read_text())


def served(folder, texts):
    """The unit vectors of the server: the first of its poolings that is set, each Dense, and no module Normalize."""
    modules = read(folder, "modules.json")
    assert {module["type"] for module in modules} <= MODULES
    config = read(folder, "config.json")
    assert {"architectures", "model_type", "max_position_embeddings", "pad_token_id"} <= config.keys()
    assert {"tokenizer.json", "model.safetensors"} <= {path.name for path in folder.iterdir()}
    assert read(folder, "sentence_bert_config.json")["max_seq_length"] > 0
    flags = read(folder, "1_Pooling/config.json")
    assert all(isinstance(flags[flag], bool) for flag in POOLINGS)
    x = lj.load_encoder(folder, pooling=next(ours for flag, ours in POOLINGS.items() if flags[flag])).encode(texts)
    for module in modules:
        if module["type"].endswith("Dense"):
            config, weights = (
                read(folder, f"{module['path']}/config.json"),
                load_file(folder / module["path"] / "model.safetensors"),
            )
            assert config["bias"]
            assert weights["linear.weight"].shape == (config["out_features"], config["in_features"])
            x = ACTIVATIONS[config["activation_function"]](x @ weights["linear.weight"].T + weights["linear.bias"])
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "method", "same"),
    [
        ("labse", "lsar", True),  # its Normalize before the transform only scales
        ("labse", "mean+lsar", False),  # which differs if the transform also moves
        pytest.param("xlm-roberta", "mean+lsar", True, marks=pytest.mark.slow),
        pytest.param("qwen3", "lsar", True, marks=pytest.mark.slow),  # the last token
    ],
)
def test_what_the_server_computes(name, method, same, tmp_path):
    encoder = lj.load_encoder(GOLDEN / name)
    texts = [text for text in TEXTS if text]
    fit = METHODS[method]({"de": encoder.encode(texts[::2]), "en": encoder.encode(texts[1::2])}, source=encoder.spec)
    moved = encoder.with_transform(fit)
    moved.to_sentence_transformers(tmp_path / "written")
    difference = np.abs(served(tmp_path / "written", texts) - moved.encode(texts, normalize=True)).max()
    assert (difference < 1e-5) == same


@pytest.mark.parametrize(
    ("pooling", "flags"), [("max", [False] * 3), ("cls+mean", [True, True, False]), ("mean+cls", [])]
)
def test_poolings_that_the_server_does_not_have(pooling, flags, tmp_path):
    # It stops at none of its flags, or at a file without them, and takes the first of two.
    lj.load_encoder(GOLDEN / "bert", pooling=pooling).to_sentence_transformers(tmp_path / "written")
    config = read(tmp_path / "written", "1_Pooling/config.json")
    assert [config[flag] for flag in POOLINGS if flag in config] == flags
