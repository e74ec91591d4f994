"""Static embeddings give the vectors of sentence-transformers and model2vec, and are as whole encoders as others."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import lsar_jax as lj
from lsar_jax.arrays import unit_rows
from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from lsar_jax.checkpoints.pickles import convert
from tests.optional import need
from tests.parity import GOLDEN, TEXTS, check_written
from tests.rewriting import edit_json, edit_tensors, move_module

NAMES = ("static", "model2vec")
WEIGHTS = "model.safetensors"


@pytest.fixture
def model2vec(tmp_path):
    return shutil.copytree(GOLDEN / "model2vec", tmp_path / "model2vec")


@pytest.fixture
def static(tmp_path):
    return shutil.copytree(GOLDEN / "static", tmp_path / "static")


def error(folder, name):
    """Largest difference from what the reference gives for the folder ``name``, whose vectors have length 1."""
    return np.abs(lj.load_encoder(folder).encode(TEXTS) - np.load(GOLDEN / name / "golden.npy")).max()


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_those_of_the_reference(name):
    encoder = lj.load_encoder(GOLDEN / name)
    assert encoder.spec.pooling == "mean+normalize"
    assert (encoder.spec.layer, encoder.dim, encoder.tokenizer.specials) == (0, 24, (0, 0))
    assert error(GOLDEN / name, name) <= 1e-6
    assert not encoder.encode("").any()
    assert lj.load_encoder(GOLDEN / name, pooling="mean").spec.pooling == "mean"


def test_special_tokens_are_left_out_and_unknown_ones_are_not(static):
    encoder = lj.load_encoder(static)
    backend, table = encoder.tokenizer.backend, load_file(static / WEIGHTS)["embedding.weight"].astype(np.float64)
    for text in TEXTS:
        ids = backend.encode(text, add_special_tokens=False).ids
        for more, least, most in (([], 0, 1e-6), ([2, 3], 1e-2, 2)):
            mean = table[ids + more].mean(axis=0) if ids else np.zeros(24)
            expected = mean / max(np.linalg.norm(mean), 1e-30)
            if ids:
                assert least <= np.abs(encoder.encode(text) - expected).max() <= most
    assert any(backend.token_to_id("[UNK]") in backend.encode(text).ids for text in TEXTS)


@pytest.mark.slow
def test_folded_rows_are_those_of_sentence_transformers(model2vec):
    """With a ``modules.json``, both count unknown tokens."""
    modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    (model2vec / "modules.json").write_text(json.dumps(modules))
    theirs = need("sentence_transformers").SentenceTransformer(str(model2vec), device="cpu").encode(TEXTS)
    ours = lj.load_encoder(model2vec)
    assert ours.spec.pooling == "mean"
    np.testing.assert_allclose(ours.encode(TEXTS), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_rows_in_other_types(model2vec, dtype):
    edit_json(model2vec / "config.json", normalize=False)
    tensors = load_file(model2vec / WEIGHTS)
    rows = (10 * tensors["embeddings"]).astype(dtype)
    edit_tensors(model2vec, {"embeddings": rows})
    encoder = lj.load_encoder(model2vec)
    [ids] = encoder.tokenizer(["the cat is here"], 99)[0]
    expected = rows[tensors["mapping"][ids]].astype(np.float64) * tensors["weights"][ids][:, None]
    np.testing.assert_allclose(encoder.encode("the cat is here"), expected.mean(axis=0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_and_batches_do_not_matter(name, rng):
    encoder = lj.load_encoder(GOLDEN / name)
    texts = [" ".join(rng.choice(list("abcdef"), rng.integers(0, 60))) for _ in range(20)] + TEXTS
    together = encoder.encode(texts)
    alone = np.stack([encoder.encode(text) for text in texts])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(texts, token_budget=99_999), alone, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_the_limit_of_the_tokenizer_is_kept(static, tmp_path):
    text = "a " * 9 + "b " * 9
    cut = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    edit_json(static / "tokenizer.json", truncation=cut)
    encoder = lj.load_encoder(static)
    assert encoder.tokenizer.max_length == 8
    np.testing.assert_array_equal(encoder.encode(text), encoder.encode("a " * 8))
    check_written(encoder, tmp_path / "written", text)


@pytest.mark.parametrize(("limit", "most"), [(..., 512), (6, 6), (None, 1 << 17)])
def test_model2vec_cuts_at_its_own_length(model2vec, limit, most):
    """First to as many characters as tokens of median length have, then to the tokens, of which unknown ones count."""
    edit_json(model2vec / "config.json", max_length=limit)
    edit_json(model2vec / "tokenizer.json", truncation=None)
    encoder, tensors = lj.load_encoder(model2vec), load_file(model2vec / WEIGHTS)
    assert encoder.tokenizer.max_length == most
    backend = Tokenizer.from_file(str(model2vec / "tokenizer.json"))
    lengths = [len(token) for token in backend.get_vocab()]
    rows = (tensors["embeddings"][tensors["mapping"]] * tensors["weights"][:, None]).astype(np.float64)
    rows[backend.token_to_id("[UNK]")] = 0
    texts = ["a b ? c d e f " * 80, "abcdef " * 100, "the cat", "a" * 7000]
    for text in texts:
        ids = backend.encode(text[: most * int(np.median(lengths))], add_special_tokens=False).ids[:most]
        total = rows[ids].sum(axis=0)
        expected = total / max(np.linalg.norm(total), 1e-30)
        np.testing.assert_allclose(encoder.encode(text), expected, rtol=0, atol=1e-6)
    assert encoder.encode_with_report(texts)[1].truncated == (0 if limit is None else 3)


def test_a_folder_of_its_own_and_a_pickle(static, tmp_path):
    expected = lj.load_encoder(static).encode(TEXTS)
    move_module(static, "0_StaticEmbedding", WEIGHTS, "tokenizer.json")
    np.testing.assert_array_equal(lj.load_encoder(static).encode(TEXTS), expected)
    torch = need("torch")
    path = static / "0_StaticEmbedding" / WEIGHTS
    torch.save({name: torch.tensor(x) for name, x in load_file(path).items()}, path.parent / "pytorch_model.bin")
    path.unlink()
    convert(str(static), tmp_path / "converted")
    np.testing.assert_array_equal(lj.load_encoder(tmp_path / "converted").encode(TEXTS), expected)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"mapping": np.arange(9)}, r"weights is F\d+ of shape \[57\]; it needs a number for each token"),
        ({"weights": np.ones((57, 1))}, r"weights is F64 of shape \[57, 1\]; it needs a number for each token"),
        ({"mapping": np.ones(57)}, r"mapping is F64 of shape \[57\]; it needs a number"),
        ({"mapping": np.full(57, 20)}, "mapping has 20; the rows of embeddings are 0 to 19"),
        ({"embeddings": np.ones(20)}, "there is no matrix embedding.weight or embeddings; the tensors are"),
        ({"mapping": np.zeros(30, int), "weights": np.ones(30)}, "has the id 56; the model embeds 0 to 29"),
        ({"linear.weight": np.ones((2, 2))}, "unexpected: linear.weight"),
    ],
)
def test_tensors_that_do_not_fit(model2vec, tensors, message):
    edit_tensors(model2vec, tensors)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(model2vec)


def test_a_zero_vector_has_a_gradient():
    """In training, a text without tokens is one; so is a place without a text."""
    gradient = jax.grad(lambda x: unit_rows(x)[:, 0].sum())(jnp.array([[0.0, 0.0], [3.0, 4.0]]))
    np.testing.assert_allclose(gradient[1], [0.128, -0.096], rtol=1e-5)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(unit_rows(jnp.zeros((2, 3))), np.zeros((2, 3)))


def test_refusals(static, model2vec):
    edit_json(model2vec / "config.json", max_length=0)
    with pytest.raises(ValueError, match=r"config.json: max_length is 0; it must be a whole number from 1"):
        lj.load_encoder(model2vec)
    with pytest.raises(ValueError, match="layer is 1; it must be a whole number from 0 to 0"):
        lj.load_encoder(static, layer=1)
    with pytest.raises(ValueError, match="has no pooler"):
        lj.load_encoder(static, pooling="pooler")
    with pytest.raises(ValueError, match="has no final norm"):
        load_weights(read_folder(static, id="static"), blocks=0, dtype="float32", final_norm=True)
    modules = json.loads((static / "modules.json").read_text())
    (static / "modules.json").write_text(json.dumps([*modules, modules[0]]))
    with pytest.raises(ValueError, match="supported modules are StaticEmbedding, then any of Dense, LayerNorm, Norm"):
        lj.load_encoder(static)
    (static / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="tokenizer.json"):
        lj.load_encoder(static, pooling="mean")
