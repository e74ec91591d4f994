"""GTE: its two names, what its config may say, and proof that its parity tests can fail."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.models.architectures import GTE, NEW
from lsar_jax.models.rotary import Rotary
from tests import parity

CONFIG = json.loads((parity.GOLDEN / "gte" / "config.json").read_text())
# As gte-multilingual-base has it on disk.
OLD = {name: value for name, value in CONFIG.items() if name != "rope_parameters"} | {
    "model_type": "new", "rope_theta": 20.0, "rope_scaling": {"factor": 8.0, "type": "ntk"},
    "position_embedding_type": "rope", "layer_norm_type": "layer_norm", "pack_qkv": True, "pack_upgate_proj": True,
    "logn_attention_scale": False, "logn_attention_clip1": False, "unpad_inputs": True,
    "use_memory_efficient_attention": True,
}  # fmt: skip


def other_half_activated(model, case):
    for block in model.blocks:
        block.feed.fused = "gate_up"


def base_as_given(model, case):
    for block in model.blocks:
        parity.set_attention(block, rotary=Rotary(20.0, 8 ** (2 / 8)))


def base_without_scaling(model, case):
    for block in model.blocks:
        parity.set_attention(block, rotary=Rotary(160.0))


def linear_scaling(model, case):
    for block in model.blocks:
        parity.set_attention(block, rotary=Rotary(20.0, 8.0))


def no_token_type(model, case):
    model.embeddings.token_type.embedding[...] *= 0


def no_embedding_norm(model, case):
    model.embeddings.norm = None


def no_bias(model, case):
    model.blocks[1].attention.inputs.bias[...] *= 0


def tanh_gelu(model, case):
    for block in model.blocks:
        block.feed.activation = "gelu_new"


def wrong_epsilon(model, case):
    for block in model.blocks:
        block.feed_norm.epsilon = 1e-12


def norms_exchanged(model, case):
    for block in model.blocks:
        block.attention_norm, block.feed_norm = block.feed_norm, block.attention_norm


def values_first(model, case):
    for block in model.blocks:
        for leaf in (block.attention.inputs.kernel, block.attention.inputs.bias):
            leaf[...] = jnp.roll(leaf[...], 32, axis=-1)


def unmasked_padding(model, case):
    return np.full_like(case["lengths"], case["ids"].shape[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        other_half_activated, base_as_given, base_without_scaling, linear_scaling, no_token_type, no_embedding_norm,
        no_bias, tanh_gelu, wrong_epsilon, norms_exchanged, values_first, unmasked_padding,
    ],
)  # fmt: skip
def test_parity_fails_for_a_planted_mistake(mistake):
    model, case = parity.load("gte"), parity.golden("gte")
    lengths = mistake(model, case)
    assert parity.errors(model, case, lengths).max() > max(10 * parity.BLOCK, parity.MODEL)


def test_both_spellings_of_the_config():
    sizes = GTE.read_config(CONFIG)
    assert sizes.rotary == Rotary(160.0, 8 ** (2 / 8))
    assert NEW.read_config(OLD) == GTE.read_config(OLD) == sizes
    # arctic-embed-m-v2 does not scale.
    assert GTE.read_config(OLD | {"rope_scaling": None, "rope_theta": 160000}).rotary == Rotary(160000.0)


def test_ntk_scaling_by_its_formula():
    """The angle of plane i at position p is ``p (20 * 8)^(-2 i / 8) / 8^(2 / 8)``."""
    position = jnp.array([[39]], jnp.int32)
    angle = 39 * (20 * 8.0) ** (-np.arange(4) / 4) / 8 ** (2 / 8)
    turned = NEW.read_config(OLD).rotary(jnp.ones((1, 1, 1, 8)), position)[0, 0, 0]
    expected = np.concatenate([np.cos(angle) - np.sin(angle), np.cos(angle) + np.sin(angle)])
    np.testing.assert_allclose(turned, expected, atol=2e-5)


def test_a_checkpoint_of_the_older_name(tmp_path):
    folder = shutil.copytree(parity.GOLDEN / "gte", tmp_path / "new")
    (folder / "config.json").write_text(json.dumps(OLD))
    encoder = lj.load_encoder(folder)
    assert encoder.spec.pooling == "cls"
    np.testing.assert_array_equal(encoder.encode("abc"), lj.load_encoder(parity.GOLDEN / "gte").encode("abc"))
    encoder.to_sentence_transformers(tmp_path / "written")
    assert json.loads((tmp_path / "written" / "config.json").read_text())["model_type"] == "gte"


def test_no_segment_embeddings(tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = shutil.copytree(parity.GOLDEN / "gte", tmp_path / "gte")
    (folder / "config.json").write_text(json.dumps(CONFIG | {"type_vocab_size": 0}))
    tensors = load_file(folder / "model.safetensors")
    del tensors["embeddings.token_type_embeddings.weight"]
    save_file(tensors, folder / "model.safetensors")
    assert lj.load_encoder(folder, layer=0).model.embeddings.token_type is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pack_qkv": False}, "pack_qkv is False in config.json; only True is supported"),
        ({"logn_attention_scale": True}, "logn_attention_scale is True in config.json; only False is supported"),
        ({"layer_norm_type": "rms_norm"}, "layer_norm_type is 'rms_norm' in config.json; only 'layer_norm'"),
        ({"position_embedding_type": "absolute"}, "position_embedding_type is 'absolute' in config.json; only 'rope'"),
        ({"rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.5}}, "mixed_b is 0.5 in config.json; only None"),
        ({"rope_scaling": {"type": "ntk", "factor": 0}}, "factor of rope_scaling is 0 in config.json"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic' in config.json"),
        ({"rope_theta": None}, "rope_theta is None in config.json; it must be a positive number"),
        ({"num_attention_heads": 32}, "hidden size 32 does not give 32 heads an even width"),
        ({"num_attention_heads": 0}, "heads is 0; it must be a whole number"),
        ({"type_vocab_size": None}, "config.json lacks whole numbers for type_vocab_size"),
    ],
)
def test_configs_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        NEW.read_config(OLD | change)
