"""An encoder of a Flax module of the user's own, such as the one of the how-to page."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

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
    exec(MODEL, names := {"__name__": "model"})
    return names


def test_vectors_are_means_of_the_states_of_each_sentence_alone(own, rng):
    sentences = ["".join(rng.choice(list("abcdef "), size)) for size in (3, 17, 3, 17, 17, 3, 17)]
    module, tokenizer = own["Mine"](64, 32, 128, nnx.Rngs(0)), Tokenizer.from_file(str(TOKENIZER))
    encoder = lj.make_encoder(module, tokenizer, pooling="mean")
    x = encoder.encode(sentences, layers=(0, 1))
    for number, sentence in enumerate(sentences):
        ids = jnp.array([tokenizer.encode(sentence).ids], jnp.int32)
        states = module.hidden_states(ids, jnp.array([[ids.shape[1]]], jnp.int32))
        np.testing.assert_allclose(x[:, number], [np.asarray(of)[0].mean(axis=0) for of in states], atol=1e-5)
    assert (encoder.spec.id, encoder.spec.layer, encoder.spec.pooling) == ("Mine", 1, "mean")
    # A transform of this space is applied; other weights are another space.
    center = lj.transforms.fit_center({"de": x[1, :3], "en": x[1, 3:]}, source=encoder.spec)
    again = lj.make_encoder(own["Mine"](64, 32, 128, nnx.Rngs(0)), PreTrainedTokenizerFast(tokenizer_object=tokenizer))
    moved = again.with_transform(center).encode(sentences[:3], language="de")
    np.testing.assert_allclose(moved, x[1, :3] - x[1, :3].mean(axis=0), atol=1e-5)
    with pytest.raises(ValueError, match="revision"):
        lj.make_encoder(own["Mine"](64, 32, 128, nnx.Rngs(1)), tokenizer).with_transform(center)
    with pytest.raises(ValueError, match="Mine cannot be exported: there is no export of its architecture"):
        encoder.to_sentence_transformers("exported")


@pytest.mark.parametrize(
    ("correct", "wrong", "error"),
    [
        ("mask=own[:, None, :, None] == own[:, None, None, :]", "mask=None", "at layer 1, the states of a sentence"),
        ("positions_of(lengths, ids.shape[1])", "jnp.arange(ids.shape[1])[None]", "at layer 0, the states of a"),
        ("layer=layer", "layer=2", "layer is 2; it must be a whole number from 0 to 1"),
        ('pooling="mean"', 'pooling="sum"', "pooling 'sum' is not one of mean"),
    ],
)
def test_refusals(own, correct, wrong, error):
    assert correct in MODEL
    exec(MODEL.replace(correct, wrong), own)
    with pytest.raises(ValueError, match=error):
        own["make"]()


def test_load_encoder_calls_a_function_in_a_file(own, tmp_path):
    (tmp_path / "other.py").write_text("def make():\n    return 3\n")
    encoder = lj.load_encoder("model.py:make", layer=0)
    np.testing.assert_array_equal(encoder.encode(["a b c"]), own["make"](layer=0).encode(["a b c"]))
    for place, options, error in (
        ("model.py:make", {"pooling": "cls"}, r"^the encoder model\.py:make: TypeError: .*'pooling'"),
        ("model.py:make", {"dtype": "bfloat16"}, r"^the encoder model\.py:make: TypeError: .*'dtype'"),
        ("other.py:make", {}, r"^the encoder other\.py:make returned a int, not a SentenceEncoder$"),
    ):
        with pytest.raises(ValueError, match=error):
            lj.load_encoder(place, **options)
