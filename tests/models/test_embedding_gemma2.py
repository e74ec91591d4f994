"""EmbeddingGemma 2: an input for each block, heads of two widths, and a projection that comes after the pooling."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.checkpoints.pickles import convert
from tests import parity
from tests.optional import need
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import edit_json, edit_tensors, write_modules

TINY = GOLDEN / "embedding-gemma2"


@pytest.fixture
def folder(tmp_path):
    """A folder as sentence-transformers writes it, whose pooling takes the projected states."""
    folder = shutil.copytree(TINY, tmp_path / "folder")
    (folder / "3_Normalize").mkdir()
    edit_json(folder / "1_Pooling" / "config.json", embedding_dimension=24, pooling_mode="mean")
    write_modules(folder, "Transformer", "Pooling", "Normalize")
    return folder


def test_the_projection_comes_after_the_pooling(folder):
    plain, encoder = (lj.load_encoder(path) for path in (TINY, folder))
    assert (plain.spec.pooling, encoder.spec.pooling) == ("mean+dense", "mean+dense+normalize")
    assert (plain.dim, encoder.dim) == (24, 24)
    states = lj.load_encoder(folder, pooling="mean").encode(TEXTS)
    expected = states @ load_file(folder / "model.safetensors")["embedding_projection.weight"].T
    np.testing.assert_allclose(plain.encode(TEXTS), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-5)


def test_projections_that_are_refused(folder):
    edit_json(folder / "1_Pooling" / "config.json", pooling_mode="max")
    with pytest.raises(ValueError, match="projects each token; the pooling cannot be 'max'; set pooling to"):
        lj.load_encoder(folder)
    edit_tensors(folder, {"embedding_projection.weight": ...})
    with pytest.raises(ValueError, match=r"has no matrix embedding_projection\.weight; set pooling to"):
        lj.load_encoder(folder)
    assert lj.load_encoder(folder, pooling="max").dim == 32


@pytest.mark.slow
def test_vectors_are_those_of_sentence_transformers(folder):
    expected = need("sentence_transformers").SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(lj.load_encoder(folder).encode(TEXTS), expected, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_inner_layers_in_transformers(tmp_path):
    with pytest.raises(ValueError, match="block 1 attends to a window"):
        lj.load_encoder(TINY, layer=1, final_norm=True).to_sentence_transformers(tmp_path / "one")
    folder = shutil.copytree(TINY, tmp_path / "tiny")
    heads = {block: {"head_dim": 24, "num_key_value_heads": 1} for block in "012"}
    edit_json(folder / "config.json", layer_types=["full_attention"] * 3, per_layer_config=heads)
    tensors, rng = load_file(folder / "model.safetensors"), np.random.default_rng(0)
    for name in [name for name in tensors if "self_attn" in name]:
        shape = tensors[name.replace("layers.0", "layers.2").replace("layers.1", "layers.2")].shape
        tensors[name] = rng.normal(0, 0.2, shape).astype(np.float32)
    save_file(tensors, folder / "model.safetensors")
    parity.check_written(lj.load_encoder(folder, layer=2, final_norm=True), tmp_path / "two")


@pytest.mark.slow
def test_a_pickle_keeps_its_projection(tmp_path):
    torch = need("torch")
    folder = shutil.copytree(TINY, tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save(parity.torch_model("embedding-gemma2").state_dict(), folder / "pytorch_model.bin")
    convert(str(folder), tmp_path / "converted")
    expected = lj.load_encoder(TINY).encode(TEXTS)
    np.testing.assert_array_equal(lj.load_encoder(tmp_path / "converted").encode(TEXTS), expected)
