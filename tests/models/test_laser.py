"""LASER: token ids of the original tools, the network end to end, damaged files."""

import json
import shutil
from unittest.mock import Mock

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax import extras
from lsar_jax.tokens import laser as laser_text
from tests.optional import need
from tests.parity import GOLDEN, TEXTS


@pytest.fixture(params=["laser1", "laser2"])
def name(request):
    return request.param


def cases(name):
    """Text, language and the ids of laserembeddings 1.1.2 or laser_encoders 0.0.2; see .ci/make_golden.py."""
    return json.loads((GOLDEN / name / "golden_ids.json").read_text())


def test_token_ids_equal_the_original_tools(name):
    tokenizer = lj.load_encoder(GOLDEN / name).tokenizer
    assert tokenizer.uses_language is (name == "laser1")
    for text, language, expected in cases(name):
        [ids], cut = tokenizer([text], 2048, [language])
        assert ids.tolist() == expected
        assert cut == 0
    every = [ids for _, _, ids in cases(name)]
    assert all(ids[-1] == 2 for ids in every)
    # The golden ids would not show a tokenizer that knows no piece, or every one.
    unknown = np.mean(np.concatenate(every) == 3)
    assert 0 < unknown < 0.5


def test_token_ids_equal_laserembeddings():
    original = need("laserembeddings.preprocessing")
    folder = GOLDEN / "laser1"
    bpe = original.BPE(str(folder / "bpe.codes"), str(folder / "bpe.vocab"))
    dictionary = json.loads((folder / "dictionary.json").read_text())
    encoder = lj.load_encoder(folder)
    for language, texts in lj.corpora.udhr().items():
        reference = original.Tokenizer(language)
        for text, ids in zip(texts[:5], encoder.tokenizer(texts[:5], 2048, [language] * 5)[0], strict=True):
            # It leaves control characters to LASER's own scripts.
            pieces = bpe.encode_tokens(reference.tokenize(laser_text._printable(text))).split()
            assert ids.tolist() == [*(dictionary.get(piece, 3) for piece in pieces), 2], language


def test_encode(name):
    encoder = lj.load_encoder(GOLDEN / name)
    assert (encoder.spec.pooling, encoder.spec.layer, encoder.dim) == ("max", 3, 32)
    together = encoder.encode(TEXTS)
    alone = np.stack([encoder.encode(text) for text in TEXTS])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)
    assert encoder.encode(TEXTS, layers=(1, 2, 3)).shape == (3, len(TEXTS), 32)
    assert encoder.encode(TEXTS, layers=(0,)).shape == (1, len(TEXTS), 12)
    with pytest.raises(ValueError, match=r"layers \(0, 3\) have widths \[12, 32\]; encode each alone"):
        encoder.encode(TEXTS, layers=(0, 3))
    assert lj.load_encoder(GOLDEN / name, layer=0).dim == 12
    # Control characters become spaces, and a long sentence is cut before its end.
    one, two = encoder.tokenizer(["the\u200bcat\x07", "the cat "], 100, ["en", "en"])[0]
    assert one.tolist() == two.tolist()
    [ids], cut = encoder.tokenizer(["a b c " * 50], 10, ["en"])
    assert (len(ids), ids[-1], cut) == (10, 2, 1)


def test_files_that_are_missing(tmp_path, name):
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    (folder / ("bpe.codes" if name == "laser1" else "sentencepiece.model")).unlink()
    with pytest.raises(FileNotFoundError, match=r"neither sentencepiece.model .LASER2. nor bpe.codes .LASER1."):
        lj.load_encoder(folder)
    (folder / "dictionary.json").unlink()
    with pytest.raises(FileNotFoundError, match="there is no dictionary.json"):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("bpe.codes", b"a b 3\na\n", "bpe.codes, line 2: 'a' is not a pair of pieces"),
        ("bpe.vocab", b"piece\n", "bpe.vocab, line 1: 'piece' is not a piece and its count"),
        ("dictionary.json", b'{"a": 100000}', "the id of 'a' is 100000; it must be a whole number from 0 to"),
        ("sentencepiece.model", b"not a model", "sentencepiece.model is not a SentencePiece model"),
    ],
)
def test_files_that_are_damaged(tmp_path, file, content, message):
    folder = shutil.copytree(GOLDEN / ("laser2" if file.startswith("sentence") else "laser1"), tmp_path / "laser")
    (folder / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_what_is_missing_is_named(monkeypatch):
    with pytest.raises(FileNotFoundError, match="laser2 is not on the Hub: convert laser2.pt, with laser2.spm in its"):
        lj.load_encoder("laser2")
    monkeypatch.setattr(extras.importlib, "import_module", Mock(side_effect=ImportError))
    with pytest.raises(ImportError, match=r"LASER's tokenizer needs sentencepiece: pip install 'lsar_jax\[laser\]'"):
        lj.load_encoder(GOLDEN / "laser2")


def test_the_words_are_of_the_language_without_its_script(monkeypatch):
    asked = []
    words = laser_text._words
    monkeypatch.setattr(laser_text, "_words", lambda language: asked.append(language) or words(language))
    encoder = lj.load_encoder(GOLDEN / "laser1")
    encoder.encode(["我哋今日食飯"] * 5, language=["zh_TW", "cmn", "yue", "wuu", "sr-Latn"])
    assert asked == ["zh", "zh", "zh", "zh", "sr"]
    assert words("zh")("我哋今日食飯") != words("en")("我哋今日食飯")
