"""XLM: a language per sentence, in its embeddings and in its tokenizer."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.checkpoints.checkpoint import read_folder
from tests import parity
from tests.parity import GOLDEN
from tests.rewriting import edit_json, edit_tensors


@pytest.fixture(scope="module")
def encoder():
    return lj.load_encoder(GOLDEN / "xlm")


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(GOLDEN / "xlm", tmp_path / "xlm")


@pytest.mark.parametrize("name", ["xlm", "m2m-100"])
def test_a_language_per_sentence(name):
    encoder = lj.load_encoder(GOLDEN / name)
    assert encoder.languages == ({"de": 0, "en": 1, "zh": 2} if name == "xlm" else None)
    assert encoder.uses_language
    assert encoder.needs_language
    mixed = encoder.encode(["a b c"] * 120, language=["de", "eng_Latn", "deu", "en-GB"] * 30)
    for row, code in enumerate(("deu_Latn", "en")):
        np.testing.assert_allclose(mixed[row], encoder.encode("a b c", language=code), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(mixed[row], mixed[row + 2], rtol=1e-5, atol=1e-6)
    assert np.abs(mixed[0] - mixed[1]).max() > 0.01


def test_a_stream_of_languages(encoder):
    n = 2048 + 70
    codes = ["de", "en", "en"] * (n // 3) + ["de"] * (n % 3)
    texts = ["ab" if i % 2 else "abcabcabcab" for i in range(n)]
    expected = encoder.encode(texts, language=codes)
    got = encoder.encode((text for text in texts), language=(code for code in codes))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("language", "message"),
    [
        (None, "xlm embeds the language, .*; give language=, one of de, en, zh"),
        ("fr", "language 'fr' is not in xlm; known languages are de, en, zh"),
        (["de"], "there are languages for 1 of 2 sentences; give one for each"),
        (["de"] * 3, "there are languages for 3 of 2 sentences; give one for each"),
        (iter(["de"] * 3), "there are languages for 3 of 2 sentences"),
    ],
)
def test_languages_that_are_refused(encoder, unchecked, language, message):
    with pytest.raises(ValueError, match=message):
        encoder.encode(["abc", "d"], language=language)


def test_token_ids_equal_transformers(encoder):
    from transformers import XLMTokenizer

    reference = XLMTokenizer.from_pretrained(GOLDEN / "xlm")
    tokenizer = encoder.tokenizer
    assert tokenizer.specials == (1, 1)
    for text in [*parity.TEXTS[:5], "Élan of the café", "the theme"]:
        [ids], _ = tokenizer([text], 40, ["en"])
        assert ids.tolist() == reference(text, truncation=True, max_length=40)["input_ids"]


def test_without_language_embeddings_the_language_is_for_the_words_only():
    encoder = lj.load_encoder(GOLDEN / "xlm-sinusoidal")
    assert encoder.languages is None
    np.testing.assert_array_equal(encoder.encode("abc"), encoder.encode("abc", language="en"))
    for text, code in (("今天天气很好", "zh"), ("วันนี้อากาศดี", "th")):
        assert len(encoder.tokenizer([text], 40, [code])[0][0]) > 2
    # ja needs a tool that no registry has.
    with pytest.raises(ImportError, match="XLM needs KyTea with Mykytea-python, which is not installed, to split 'ja'"):
        encoder.encode("abc", language="ja")


def test_sinusoids_that_the_checkpoint_does_not_carry(tmp_path):
    folder = shutil.copytree(GOLDEN / "xlm-sinusoidal", tmp_path / "xlm")
    stored = load_file(folder / "model.safetensors")["position_embeddings.weight"]
    edit_tensors(folder, {"position_embeddings.weight": ...})
    computed = read_folder(folder, id="x").tensors["position_embeddings.weight"].rows(0, 40)
    np.testing.assert_allclose(computed, stored, atol=1e-6)
    assert np.isfinite(lj.load_encoder(folder).encode("abc")).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lang2id": {"de": 3}}, "lang2id must map languages to rows 0 to 2 of the language embeddings"),
        ({"n_langs": 4, "lang2id": {"de": 3}}, "lang_embeddings.weight is .3, 32., the config says .4, 32."),
        ({"use_lang_emb": False}, "unexpected: lang_embeddings.weight"),
    ],
)
def test_config_that_is_not_understood(folder, changes, message):
    edit_json(folder / "config.json", **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_the_first_checkpoints_had_no_model_type(folder):
    edit_json(folder / "config.json", model_type=..., vocab_size=..., n_words=64)
    expected = lj.load_encoder(GOLDEN / "xlm").encode("abc", language="de")
    np.testing.assert_array_equal(lj.load_encoder(folder).encode("abc", language="de"), expected)
    (folder / "merges.txt").unlink()
    with pytest.raises(FileNotFoundError, match="there is no merges.txt in"):
        lj.load_encoder(folder)


def test_varieties_of_a_language_keep_their_names(folder):
    edit_json(folder / "config.json", lang2id={"sq": 0, "als": 1, "zh_classical": 2})
    assert lj.load_encoder(folder).languages == {"sq": 0, "als": 1, "lzh": 2}
