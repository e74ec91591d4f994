"""Folders that we write load elsewhere and give our vectors."""

import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from tokenizers import Tokenizer

import lsar_jax as lj
from tests.optional import need
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import edit_json

CASES = [
    ("bert", {}),
    ("bert", {"layer": 2, "pooling": "max"}),
    ("bert", {"layer": 0}),
    ("bert", {"pooling": "pooler"}),
    ("bert", {"param_dtype": "bfloat16"}),
    ("xlm-roberta", {}),
    ("xlm-roberta", {"layer": 1, "pooling": "cls"}),
    ("xlm-sinusoidal", {}),
    ("labse", {}),
    ("distilbert", {}),
    ("static", {}),
    pytest.param(("eurobert", {"pooling": "last"}), marks=pytest.mark.slow),
    ("qwen3", {}),
    pytest.param(("qwen3-both", {"pooling": "mean"}), marks=pytest.mark.slow),
    pytest.param(("llama", {}), marks=pytest.mark.slow),
    pytest.param(("qwen2", {"pooling": "mean"}), marks=pytest.mark.slow),
    pytest.param(("ministral3", {"pooling": "mean"}), marks=pytest.mark.slow),
    pytest.param(("modernbert", {}), marks=pytest.mark.slow),
    pytest.param(("gemma2", {}), marks=pytest.mark.slow),
    pytest.param(("gemma3", {}), marks=pytest.mark.slow),
    pytest.param(("gemma3-causal", {"pooling": "last"}), marks=pytest.mark.slow),
    pytest.param(("gte", {"layer": 2}), marks=pytest.mark.slow),
    pytest.param(("nomic_bert", {}), marks=pytest.mark.slow),
    pytest.param(("jina-v3", {}), marks=pytest.mark.slow),
    pytest.param(("embedding-gemma2", {}), marks=pytest.mark.slow),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]} {case[1]}", scope="module")
def encoder(request):
    name, arguments = request.param
    return lj.load_encoder(GOLDEN / name, **arguments)


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("new") / "deep" / "written"
    encoder.to_sentence_transformers(folder)
    return folder


def test_it_loads_here(encoder, folder):
    again = lj.load_encoder(folder)
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert again.spec.layer == encoder.spec.layer == len(again.model.blocks)


def test_it_loads_in_sentence_transformers(encoder, folder):
    theirs = need("sentence_transformers").SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), theirs, atol=1e-5)


def test_a_shared_transform_becomes_a_dense(tmp_path, rng):
    encoder = lj.load_encoder(GOLDEN / "bert")
    x = {code: (rng.standard_normal((50, 32)) + i).astype(np.float32) for i, code in enumerate(("de", "en", "fr"))}
    moved = encoder.with_transform(lj.transforms.fit_lsar(x).then(lj.transforms.fit_whitening(x, 0.1)))
    moved.to_sentence_transformers(tmp_path / "written")
    expected = moved.encode(TEXTS)
    again = lj.load_encoder(tmp_path / "written")
    assert again.spec.pooling == "mean+dense"
    np.testing.assert_allclose(again.encode(TEXTS), expected, rtol=0, atol=1e-4)
    theirs = need("sentence_transformers").SentenceTransformer(str(tmp_path / "written"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, expected, rtol=0, atol=1e-4)


def sparse():
    """A shared transform that is not affine."""
    step = lj.transforms.SparseAutoencoder(jnp.ones((32, 40)), jnp.ones((40, 32)), jnp.ones(40), 4, False)
    return lj.Transform((step,), (lj.transforms.Fit("sparse", 32, (), ()),))


NEEDS_LANGUAGE = "its transform depends on the language or the nearest cluster, which no layer of sentence-transf"


@pytest.mark.parametrize(
    ("name", "arguments", "fit", "message"),
    [
        ("laser2", {}, None, "laser2 cannot be exported: there is no export of its architecture"),
        ("xlm", {}, None, "xlm cannot be exported: it embeds the language, which sentence-transformers does not"),
        (
            "bert",
            {"pooling": "mean_no_special"},
            None,
            "has no pooling mean_no_special; it has cls, max, mean, mean_sqrt_len, weighted_mean, last",
        ),
        ("static", {"pooling": "max"}, None, "sentence-transformers has no pooling max; it has mean"),
        ("model2vec", {}, None, "model2vec cannot be exported: it leaves unknown tokens out, as model2vec does"),
        ("m2m-100", {}, None, "m2m-100 cannot be exported: there is no export of its architecture"),
        ("bert", {}, lj.transforms.fit_center, NEEDS_LANGUAGE),
        ("bert", {}, lambda x: lj.transforms.fit_cbie(x, 2, 3), NEEDS_LANGUAGE),
        (
            "bert",
            {},
            lambda _: sparse(),
            r"sparse\(\): each vector has its own features, so there is no single A and b",
        ),
    ],
)
def test_what_cannot_be_written_says_why(tmp_path, rng, name, arguments, fit, message):
    encoder = lj.load_encoder(GOLDEN / name, **arguments)
    if fit:
        x = {code: rng.standard_normal((50, 32)).astype(np.float32) for code in ("de", "en")}
        encoder = encoder.with_transform(fit(x))
    with pytest.raises(ValueError, match=message):
        encoder.to_sentence_transformers(tmp_path / "written")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over(tiny, tmp_path):
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(FileExistsError, match="already exists and will not be overwritten"):
        tiny.to_sentence_transformers(tmp_path)
    with pytest.raises(FileExistsError, match="already exists without modules.json and will not be overwritten"):
        tiny.to_sentence_transformers(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_folder_is_replaced_as_a_whole(tiny, tmp_path, monkeypatch):
    folder = tmp_path / "written"
    (tmp_path / "link").symlink_to(folder)
    tiny.to_sentence_transformers(folder, overwrite=True)  # nothing is there
    moved = tiny.with_transform(lj.transforms.fit_outliers({"en": tiny.encode(TEXTS)}))
    moved.to_sentence_transformers(tmp_path / "link", overwrite=True)
    np.testing.assert_allclose(lj.load_encoder(folder).encode(TEXTS), moved.encode(TEXTS), atol=1e-5)
    assert {path.name for path in tmp_path.iterdir()} == {"written", "link"}
    # Nothing else is deleted with it.
    for name in (".git", "README.md", "1_Pooling/notes"):
        (folder / name).write_text("theirs")
        with pytest.raises(FileExistsError, match=f"{name} is not of an export, and would be deleted; move it"):
            tiny.to_sentence_transformers(folder, overwrite=True)
        (folder / name).unlink()  # still there
    # The old folder stays until the new one is complete.
    kept = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr("lsar_jax.checkpoints.export._write_tensors", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tiny.to_sentence_transformers(folder, overwrite=True)
    assert sorted(path.name for path in folder.iterdir()) == kept
    assert {path.name for path in tmp_path.iterdir()} == {"written", "link"}


def test_lower_case_is_kept_in_the_tokenizer(tmp_path):
    source = shutil.copytree(GOLDEN / "labse", tmp_path / "source")
    edit_json(source / "sentence_bert_config.json", do_lower_case=True)
    tokenizer = source / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"lowercase": true', '"lowercase": false'))
    encoder = lj.load_encoder(source)
    encoder.to_sentence_transformers(tmp_path / "written")
    plain, written = (Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (source, tmp_path / "written"))
    ids = encoder.tokenizer(["AbC"], 20)[0][0].tolist()
    assert plain.encode("AbC").ids != written.encode("AbC").ids == ids
    assert lj.load_encoder(tmp_path / "written").tokenizer(["AbC"], 20)[0][0].tolist() == ids
    # Nor does the length of an earlier call stay.
    encoder.to_sentence_transformers(tmp_path / "after")
    before, after = (lj.load_encoder(tmp_path / name).spec for name in ("written", "after"))
    assert before.same_space(after)
