"""An encoder of a Flax module of the user's own, as the how-to page shows it."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tokenizers import Tokenizer

import lsar_jax as lj

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "tests" / "golden" / "bert" / "tokenizer.json"
PAGE = (ROOT / "docs" / "how-to" / "own-architecture.md").read_text(encoding="utf-8")
[MODEL] = re.findall(r"```python\n(# model\.py\n.*?)```", PAGE, re.S)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The file of the page, beside a tokenizer, in the current folder; what it defines."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    names = {"__name__": "model"}
    exec(MODEL, names)
    return names


def module_of(own, seed=0):
    return own["Mine"](64, 32, 128, nnx.Rngs(seed))


def test_vectors_are_means_of_the_states_of_each_sentence_alone(own, rng):
    sentences = ["".join(rng.choice(list("abcdef "), size)) for size in (3, 17, 3, 17, 17, 3, 17)]
    module, tokenizer = module_of(own), Tokenizer.from_file(str(TOKENIZER))
    encoder = lj.make_encoder(module, tokenizer, pooling="mean")
    x = encoder.encode(sentences, layers=(0, 1))
    for number, sentence in enumerate(sentences):
        ids = jnp.array([tokenizer.encode(sentence).ids], jnp.int32)
        states = module.hidden_states(ids, jnp.array([[ids.shape[1]]], jnp.int32))
        expected = np.stack([np.asarray(layer)[0].mean(axis=0) for layer in states])
        np.testing.assert_allclose(x[:, number], expected, atol=1e-5)
    assert (encoder.spec.id, encoder.spec.layer, encoder.spec.pooling) == ("Mine", 1, "mean")
    # Other weights are another space; the same ones are the same.
    spaces = [lj.make_encoder(module_of(own, seed), tokenizer).spec.revision for seed in (0, 1)]
    assert spaces[0] == encoder.spec.revision != spaces[1]
    with pytest.raises(ValueError, match="Mine cannot be exported: there is no export of its architecture"):
        encoder.to_sentence_transformers("exported")


def test_a_transform_and_a_tokenizer_of_transformers(own):
    from transformers import PreTrainedTokenizerFast

    encoder = lj.make_encoder(module_of(own), PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER)), layer=0)
    x = {"de": encoder.encode(["a b", "c"]), "en": encoder.encode(["d e f", "a"])}
    center = lj.transforms.fit_center(x, source=encoder.spec)
    moved = encoder.with_transform(center).encode(["a b", "c"], language="de")
    np.testing.assert_allclose(moved, x["de"] - x["de"].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "correct", "wrong"),
    [
        (1, "mask=own[:, None, :, None] == own[:, None, None, :]", "mask=None"),  # sentences see each other
        (0, "positions_of(lengths, ids.shape[1])", "jnp.arange(ids.shape[1])[None]"),  # places in the row
    ],
)
def test_a_module_that_mixes_the_sentences_of_a_row_is_refused(own, layer, correct, wrong):
    assert correct in MODEL
    exec(MODEL.replace(correct, wrong), own)
    with pytest.raises(ValueError, match=f"at layer {layer}, the states of a sentence depend on what else is in its"):
        own["make"]()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"layer": 2}, "layer is 2; it must be a whole number from 0 to 1"),
        ({"pooling": "sum"}, "pooling 'sum' is not one of mean"),
    ],
)
def test_options_are_checked(own, options, error):
    with pytest.raises(ValueError, match=error):
        lj.make_encoder(module_of(own), Tokenizer.from_file(str(TOKENIZER)), **options)


def test_load_encoder_calls_a_function_in_a_file(own, tmp_path):
    encoder = lj.load_encoder("model.py:make", layer=0)
    assert (encoder.spec.layer, encoder.spec.revision) == (0, own["make"]().spec.revision)
    np.testing.assert_array_equal(encoder.encode(["a b c"]), own["make"](layer=0).encode(["a b c"]))
    (tmp_path / "other.py").write_text("def make():\n    return 3\n")
    for place, options, error in (
        ("model.py:make", {"pooling": "cls"}, r"^the encoder model\.py:make: TypeError: .*'pooling'"),
        ("model.py:make", {"dtype": "bfloat16"}, r"^the encoder model\.py:make: TypeError: .*'dtype'"),
        ("other.py:make", {}, r"^the encoder other\.py:make returned a int, not a SentenceEncoder$"),
        ("none.py:make", {}, r"^the encoder none\.py:make: FileNotFoundError"),
    ):
        with pytest.raises(ValueError, match=error):
            lj.load_encoder(place, **options)
