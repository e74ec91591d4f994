"""Gemma 3: two kinds of blocks, causal and bidirectional, also as the text model of a model of text and images."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from lsar_jax.models.architectures import GEMMA3, GEMMA3_TEXT
from lsar_jax.models.parts import LayerFactory
from lsar_jax.models.rotary import Rotary
from tests import parity
from tests.optional import need
from tests.parity import GOLDEN, TEXTS

NAMES = ("gemma3", "gemma3-causal")
PROMPTS = {"query": "task: search result | query: ", "document": "title: none | text: "}


def written(name):
    return json.loads((GOLDEN / name / "config.json").read_text())


def filled(name, **changes):
    checkpoint = read_folder(GOLDEN / name, id=name)
    return load_weights(replace(checkpoint, config=replace(checkpoint.config, **changes)), blocks=3, dtype="float32")


def norms_by_weight(model):
    for block in model.blocks:
        for norm in (block.attention_norm, block.attended_norm, block.feed_norm, block.fed_norm):
            norm.offset = 0.0


def other_half(model):
    for block in model.blocks:
        block.feed.gate, block.feed.up = block.feed.up, block.feed.gate


def exact_gelu(model):
    for block in model.blocks:
        block.feed.activation = "gelu"


def plain_words(model):
    model.embeddings.scale = 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        {"window": 2},
        {"window": 4},
        {"kinds": ("full_attention", "sliding_attention", "full_attention")},
        {"kinds": ("full_attention",) * 3},
        {"rotary": Rotary(10.0)},
        {"sliding": Rotary(1000.0)},
        {"scores": 16},
        {"epsilon": 1e-6},
        {"causal": None},
        norms_by_weight,
        other_half,
        exact_gelu,
        plain_words,
    ],
    ids=lambda mistake: mistake.__name__ if callable(mistake) else str(mistake),
)
@pytest.mark.parametrize("name", NAMES)
def test_parity_fails_for_a_planted_mistake(name, mistake):
    case = parity.golden(name)
    if callable(mistake):
        model = parity.load(name)
        mistake(model)
    else:
        model = filled(name, **({"causal": name == "gemma3"} if "causal" in mistake else mistake))
    assert parity.errors(model, case).max() > parity.MODEL


@pytest.mark.slow
def test_scaled_positions_are_those_of_full_blocks():
    model = filled("gemma3-causal")
    assert model.config.rotary == Rotary(1000.0, 2.0)
    assert model.config.sliding == Rotary(10.0)
    model = filled("gemma3-causal", rotary=Rotary(1000.0))
    assert parity.errors(model, parity.golden("gemma3-causal")).max() > parity.MODEL


@pytest.mark.parametrize("name", NAMES)
def test_a_config_from_before_version_5(name):
    config = written(name)
    expected = GEMMA3_TEXT.read_config(config)
    rope = config.pop("rope_parameters")
    del config["layer_types"], config["_sliding_window_pattern"]
    config |= {"sliding_window_pattern": 2, "rope_theta": 1000.0, "rope_local_base_freq": 10.0, "rope_scaling": None}
    if name == "gemma3-causal":
        config["rope_scaling"] = {key: rope["full_attention"][key] for key in ("factor", "rope_type")}
    assert GEMMA3_TEXT.read_config(config) == expected
    assert GEMMA3.read_config({"model_type": "gemma3", "text_config": config}) == expected
    assert expected.kinds == ("sliding_attention", "full_attention", "sliding_attention")
    assert (expected.window, expected.causal, expected.scores) == (3, name == "gemma3-causal", 24)


def test_the_defaults_of_transformers():
    """The config of gemma-3-4b-it, which has only these."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    text["rope_scaling"] = {"factor": 8.0, "rope_type": "linear"}
    sizes = GEMMA3.read_config({"model_type": "gemma3", "text_config": text})
    assert (sizes.vocabulary, sizes.positions, sizes.heads, sizes.groups) == (262_208, 131_072, 8, 4)
    assert (sizes.width, sizes.scores, sizes.window, sizes.causal) == (256, 256, 1023, True)
    assert (sizes.rotary, sizes.sliding) == (Rotary(1e6, 8.0), Rotary(1e4))
    assert [number for number, kind in enumerate(sizes.kinds) if kind == "full_attention"] == [5, 11, 17, 23, 29]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"hidden_activation": "silu"}, "hidden_activation is 'silu'"),
        ({"layer_types": ["full_attention"]}, r"layer_types is \['full_attention'\]"),
        ({"layer_types": None, "sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
        ({"sliding_window": None}, "lacks whole numbers for sliding_window"),
        ({"rope_parameters": None, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type is 'yarn'"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, "rope_parameters has no full_attention"),
        ({"use_bidirectional_attention": False, "is_causal": False}, "is_causal is False in config.json; only True"),
        ({"num_key_value_heads": 3}, "4 heads are not divisible by 3"),
    ],
)
def test_configs_that_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        GEMMA3_TEXT.read_config(written("gemma3") | changes)
    with pytest.raises(ValueError, match="text_config is None"):
        GEMMA3.read_config(written("gemma3"))


@pytest.mark.parametrize("prefix", ["", "model.", "language_model.", "model.language_model.", "language_model.model."])
def test_names_of_tensors(prefix):
    assert GEMMA3.plain_name(f"{prefix}layers.0.mlp.up_proj.weight") == "layers.0.mlp.up_proj.weight"
    for other in ("vision_tower.encoder.weight", "multi_modal_projector.weight", "lm_head.weight"):
        assert GEMMA3.is_unused(GEMMA3.plain_name(prefix + other))


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
    """Of EmbeddingGemma, these are 307,581,696 with its Dense layers of 2 x 768 x 3072."""
    config = {
        "vocab_size": 262_144, "hidden_size": 768, "num_hidden_layers": 24, "num_attention_heads": 3,
        "num_key_value_heads": 1, "intermediate_size": 1152, "sliding_window": 512,
    }  # fmt: skip
    sizes, dtype = GEMMA3_TEXT.read_config(config | changes), np.dtype("float32")
    model = nnx.eval_shape(lambda: GEMMA3_TEXT.build(sizes, LayerFactory(dtype, dtype)))
    assert sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model))) == count


@pytest.mark.slow
def test_a_model_of_text_and_images(tmp_path):
    need("torch")
    from transformers import AutoModel, Gemma3Config, SiglipVisionConfig

    vision = SiglipVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8
    )
    text = parity.torch_model("gemma3")
    model = AutoModel.from_config(Gemma3Config(text_config=text.config, vision_config=vision, mm_tokens_per_image=4))
    model.language_model.load_state_dict(text.state_dict())
    model.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(GOLDEN / "gemma3" / file, tmp_path / file)
    assert any("vision_tower" in name for name in load_file(tmp_path / "model.safetensors"))
    expected = lj.load_encoder(GOLDEN / "gemma3").encode(TEXTS)
    np.testing.assert_array_equal(lj.load_encoder(tmp_path).encode(TEXTS), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "embedding-gemma2"])
def test_early_exit_reads_the_blocks_below_alone(name, tmp_path):
    whole = lj.load_encoder(GOLDEN / name, pooling="mean").encode(TEXTS, layers=(0, 1, 2))
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    tensors = load_file(folder / "model.safetensors")
    # A value that is read must be finite.
    tensors |= {key: np.full_like(value, np.nan) for key, value in tensors.items() if key.startswith("layers.2.")}
    save_file(tensors, folder / "model.safetensors")
    for layer in range(3):
        found = lj.load_encoder(folder, layer=layer).encode(TEXTS)
        np.testing.assert_allclose(found, whole[layer], rtol=0, atol=1e-5 * np.abs(whole[layer]).max())
    with pytest.raises(ValueError, match=r"layers\.2\..* holds NaN"):
        lj.load_encoder(folder)


@pytest.mark.parametrize("name", [*NAMES, "embedding-gemma2"])
def test_neighbours_in_a_row_do_not_count(name, rng):
    model = parity.load(name)
    first, second = rng.integers(5, 64, (2, 1, 9)).astype(np.int32)
    packed = np.concatenate([first, second, first[:, :2]], axis=1)
    shared = parity.packed_states(model, packed, np.array([[9, 9]], np.int32), None)
    for ids, at in ((first, 0), (second, 9)):
        row = np.pad(ids, ((0, 0), (0, 11)))
        alone = parity.packed_states(model, row, np.array([[9, 0]], np.int32), None)
        for one, two in zip(alone, shared, strict=True):
            scale = np.abs(one[:, :9]).max()
            np.testing.assert_allclose(two[:, at : at + 9], one[:, :9], rtol=0, atol=1e-6 * scale)


def test_the_root_is_rounded_in_bfloat16_alone():
    for dtype, width, scale in (("float32", 768, 768**0.5), ("bfloat16", 768, 27.75), ("bfloat16", 640, 25.25)):
        sizes = replace(GEMMA3_TEXT.read_config(written("gemma3")), hidden=width, blocks=0)
        found = GEMMA3_TEXT.build(sizes, LayerFactory(np.dtype(dtype), np.dtype(dtype))).embeddings.scale
        assert found == pytest.approx(scale, rel=1e-7)


@pytest.mark.slow
def test_the_pipeline_of_embeddinggemma(tmp_path):
    """The mean, two Dense layers without a bias, and prompts, as sentence-transformers writes them."""
    torch = need("torch")
    sentence_transformers = need("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(0)
    plain = {"bias": False, "activation_function": torch.nn.Identity()}
    parts = [Transformer(str(GOLDEN / "gemma3")), Pooling(32, "mean"), Dense(32, 48, **plain), Dense(48, 24, **plain)]
    model = sentence_transformers.SentenceTransformer(modules=[*parts, Normalize()], device="cpu", prompts=PROMPTS)
    model.save(str(tmp_path / "theirs"), create_model_card=False)
    encoder = lj.load_encoder(tmp_path / "theirs")
    assert (encoder.spec.pooling, encoder.dim) == ("mean+dense+dense+normalize", 24)
    for name, prompt in PROMPTS.items():
        assert encoder.prompts[name] == prompt
        theirs = model.encode(TEXTS, prompt_name=name)
        np.testing.assert_allclose(encoder.encode(TEXTS, prompt=prompt), theirs, atol=2e-6)
    encoder.to_sentence_transformers(tmp_path / "ours")
    again = sentence_transformers.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    np.testing.assert_allclose(again.encode(TEXTS), model.encode(TEXTS), atol=2e-6)
