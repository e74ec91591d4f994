"""Published checkpoints have the vectors of sentence-transformers and the states of transformers."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from tests.optional import need
from tests.parity import TEXTS
from tests.published import published

pytestmark = pytest.mark.slow

MINILM, STATIC = "all-MiniLM-L6-v2", "wordllama"
LONG = ["the cat sat on the mat, and the dog " * 60, "word " * 255, "word " * 254, "word " * 253]
# Entries of unit vectors; float32 has a spacing of 6e-8 below 1.
ATOL = 1e-6


@pytest.fixture(scope="module")
def texts():
    several = lj.corpora.udhr("test", ["en", "de", "ru", "zh", "ar"])
    return [*TEXTS, *LONG, *(text for paragraphs in several.values() for text in paragraphs[:3])]


@pytest.fixture(scope="module")
def encoder():
    return lj.load_encoder(published(MINILM))


def theirs(folder, texts):
    # Static embeddings would be added in float16 there.
    model = need("sentence_transformers").SentenceTransformer(str(folder), device="cpu").float()
    return model.encode(texts, normalize_embeddings=True)


def test_vectors_are_those_of_sentence_transformers(encoder, texts):
    assert (encoder.spec.layer, encoder.spec.pooling, encoder.dim) == (6, "mean+normalize", 384)
    np.testing.assert_allclose(encoder.encode(texts), theirs(published(MINILM), texts), rtol=0, atol=ATOL)
    # Long texts are cut to 256 tokens, with the two special ones.
    vectors, report = encoder.encode_with_report(LONG)
    assert report.truncated == 2
    np.testing.assert_allclose(vectors[1], vectors[2], rtol=0, atol=ATOL)
    assert np.abs(vectors[2] - vectors[3]).max() > 10 * ATOL


def test_layers_are_those_of_transformers(texts):
    torch = need("torch")
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(published(MINILM)).eval()
    tokenizer = AutoTokenizer.from_pretrained(published(MINILM))
    given = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        states = model(**given, output_hidden_states=True).hidden_states
    mask = given["attention_mask"][..., None]
    means = [((state * mask).sum(1) / mask.sum(1)).numpy() for state in states]
    ours = lj.load_encoder(published(MINILM), pooling="mean").encode(texts, layers=range(7))
    for mine, other in zip(ours, means, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=ATOL * np.abs(other).max())
    early = lj.load_encoder(published(MINILM), layer=3)
    assert len(early.model.blocks) == 3
    np.testing.assert_allclose(early.encode(texts), means[3], rtol=0, atol=ATOL * np.abs(means[3]).max())


def test_static_embeddings(texts):
    static = lj.load_encoder(published(STATIC))
    assert (static.spec.layer, static.spec.pooling, static.dim) == (0, "mean", 256)
    vectors = static.encode(texts, normalize=True)
    np.testing.assert_allclose(vectors, theirs(published(STATIC), texts), rtol=0, atol=ATOL)
    rows = load_file(published(STATIC) / "model.safetensors")["embedding.weight"].astype(np.float64)
    ids, truncated = static.tokenizer(texts, 4096)
    means = np.stack([rows[each].mean(axis=0) if each.size else np.zeros(256) for each in ids])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, means / np.where(lengths, lengths, 1), rtol=0, atol=ATOL)
    assert truncated == 0
