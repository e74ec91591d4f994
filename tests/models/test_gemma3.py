"""Gemma 3: two kinds of blocks, causal and bidirectional, also as the text model of a model of text and images."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.models.architectures import EMBEDDING_GEMMA2, GEMMA3, GEMMA3_TEXT
from lsar_jax.models.parts import LayerFactory
from lsar_jax.models.rotary import Rotary
from tests import parity
from tests.optional import need
from tests.parity import GOLDEN, TEXTS


def written(name):
    return json.loads((GOLDEN / name / "config.json").read_text())


def test_the_defaults_of_transformers():
    """The config of gemma-3-4b-it, which has only these."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    text["rope_scaling"] = {"factor": 8.0, "rope_type": "linear"}
    sizes = GEMMA3.read_config({"model_type": "gemma3", "text_config": text})
    assert (sizes.vocabulary, sizes.positions, sizes.heads, sizes.groups) == (262_208, 131_072, 8, 4)
    assert (sizes.width, sizes.scores, sizes.window, sizes.causal) == (256, 256, 1023, True)
    assert (sizes.rotary, sizes.sliding) == (Rotary(1e6, 8.0), Rotary(1e4))
    assert [number for number, kind in enumerate(sizes.kinds) if kind == "full_attention"] == [5, 11, 17, 23, 29]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"use_bidirectional_attention": True}, 302_863_104),
        (
            {"hidden_size": 640, "num_hidden_layers": 18, "num_attention_heads": 4, "intermediate_size": 2048},
            268_098_176,
        ),
    ],
    ids=["embeddinggemma-300m", "gemma-3-270m"],
)
def test_published_sizes_give_the_published_number_of_parameters(changes, count):
    """EmbeddingGemma has 307,581,696 with its Dense layers of 2 x 768 x 3072."""
    config = {
        "vocab_size": 262_144, "hidden_size": 768, "num_hidden_layers": 24, "num_attention_heads": 3,
        "num_key_value_heads": 1, "intermediate_size": 1152, "sliding_window": 512,
    }  # fmt: skip
    sizes, dtype = GEMMA3_TEXT.read_config(config | changes), np.dtype("float32")
    model = nnx.eval_shape(lambda: GEMMA3_TEXT.build(sizes, LayerFactory(dtype, dtype)))
    assert sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model))) == count


@pytest.mark.parametrize("architecture", [GEMMA3, EMBEDDING_GEMMA2])
@pytest.mark.parametrize("prefix", ["", "model.", "language_model.", "model.language_model."])
def test_names_of_tensors(architecture, prefix):
    plain = architecture.plain_name
    assert plain(f"{prefix}layers.0.mlp.up_proj.weight") == "layers.0.mlp.up_proj.weight"
    others = ("vision_tower.x", "multi_modal_projector.weight" if architecture is GEMMA3 else "embed_audio.weight")
    assert all(architecture.is_unused(plain(prefix.removesuffix("language_model.") + other)) for other in others)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3", "embedding-gemma2"])
def test_the_text_model_of_a_multimodal_checkpoint(name, tmp_path):
    need("torch")
    from transformers import AutoModel, EmbeddingGemma2Config, Gemma3Config, SiglipVisionConfig

    sizes = {"hidden_size": 16, "intermediate_size": 16, "image_size": 32, "patch_size": 8}
    vision = SiglipVisionConfig(**sizes, num_hidden_layers=1, num_attention_heads=2)
    text = parity.torch_model(name)
    if name == "gemma3":
        config = Gemma3Config(text_config=text.config, vision_config=vision, mm_tokens_per_image=4)
    else:
        config = EmbeddingGemma2Config(text_config=text.config.to_dict())
    model = AutoModel.from_config(config)
    model.language_model.load_state_dict(text.state_dict())
    model.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(GOLDEN / name / file, tmp_path / file)
    assert any("language_model." in tensor for tensor in load_file(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(lj.load_encoder(tmp_path).encode(TEXTS), lj.load_encoder(GOLDEN / name).encode(TEXTS))


def test_the_root_is_rounded_in_bfloat16_alone():
    for dtype, width, scale in (("float32", 768, 768**0.5), ("bfloat16", 768, 27.75), ("bfloat16", 640, 25.25)):
        sizes = replace(GEMMA3_TEXT.read_config(written("gemma3")), hidden=width, blocks=0)
        found = GEMMA3_TEXT.build(sizes, LayerFactory(np.dtype(dtype), np.dtype(dtype))).embeddings.scale
        assert found == pytest.approx(scale, rel=1e-7)
