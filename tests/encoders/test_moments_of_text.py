"""Moments of text, and languages that the device finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.mesh import data_mesh
from lsar_jax.transforms import fit_cbie, fit_center, fit_identifier, fit_lsar, fit_whitening
from tests.compilations import count_compilations
from tests.conftest import TINY
from tests.encoders.test_sentence_encoder import texts

RNG = np.random.default_rng(0)
CORPUS = {
    code: ["".join(RNG.choice(list(letters), 20)) for _ in range(30)]
    for code, letters in {"de": "abc", "en": "def", "fr": "ghi"}.items()
}
# All sentences, and the language of each.
FLAT = [text for part in CORPUS.values() for text in part]
LABELS = [code for code, part in CORPUS.items() for _ in part]


@pytest.fixture(scope="module", params=[1, 4])
def encoder(request):
    return lj.load_encoder(TINY, mesh=data_mesh(jax.devices()[: request.param]))


@pytest.fixture(scope="module")
def by_language(tiny):
    """The moments of each language."""
    return {code: tiny.moments(part, second_moment=True) for code, part in CORPUS.items()}


def test_moments_of_a_stream_are_those_of_its_embeddings(tiny, encoder):
    sentences = texts(np.random.default_rng(0), 150, 14)
    x = tiny.encode(sentences, layers=(0, 2, 3)).astype(np.float64)
    got = encoder.moments((text for text in sentences), layers=(0, 2, 3), second_moment=True)
    for layer, rows, moments in zip((0, 2, 3), x, got, strict=True):
        assert (moments.count, moments.source.layer) == (150, layer)
        np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(moments.covariance(), np.cov(rows, rowvar=False), atol=1e-5)
    last = encoder.moments(sentences)
    np.testing.assert_allclose(last.mean, x[-1].mean(axis=0), atol=1e-5)
    assert last.scatter is None


def test_refusals(tiny, unchecked, by_language):
    for encoder, call, message in (
        (tiny, lambda e: e.moments([]), "there are no embeddings"),
        (tiny, lambda e: e.encode("a", language="auto"), "no transform, tokenizer or embedding of the encoder uses"),
        (tiny.with_transform(fit_center(by_language)), lambda e: e.encode("a", language="auto"),
         r"language is 'auto', but center\(\) has no identifier; add one with"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call(encoder)


def test_the_device_finds_the_language(tiny, encoder, by_language):
    identifier = fit_identifier(by_language, threshold=np.inf, source=tiny.spec)
    assert identifier(tiny.encode(FLAT)) == LABELS
    fits = (fit_center, lambda m: fit_whitening(m, per_language=True), lambda m: fit_lsar(m).then(fit_center(m)))
    for fit in fits[: 3 if encoder.mesh.size == 1 else 1]:
        moved = encoder.with_transform(fit(by_language).with_identifier(identifier))
        np.testing.assert_allclose(moved.encode(FLAT, language="auto"), moved.encode(FLAT, language=LABELS), atol=1e-4)
    centred = encoder.with_transform(fit_center(by_language))
    np.testing.assert_allclose(centred.moments(CORPUS["fr"], language="fr").mean, 0, atol=1e-6)
    agnostic = encoder.with_transform(fit_lsar(by_language))
    np.testing.assert_array_equal(agnostic.encode(FLAT, language="auto"), agnostic.encode(FLAT))


def test_clusters_are_found_on_the_device(tiny):
    cbie = fit_cbie({code: tiny.encode(part) for code, part in CORPUS.items()}, 3, 2, source=tiny.spec)
    moved = tiny.with_transform(cbie).encode(FLAT, language=LABELS)
    np.testing.assert_allclose(moved, cbie(tiny.encode(FLAT), LABELS), atol=1e-5)


def test_warm_up_compiles_auto():
    encoder = lj.load_encoder(TINY, layer=0, mesh=data_mesh(jax.devices()[:1]))
    moments = {code: encoder.moments(part, second_moment=True) for code, part in CORPUS.items()}
    moved = encoder.with_transform(fit_center(moments).with_identifier(fit_identifier(moments)))
    moved.warm_up(language="auto", max_length=24)
    with count_compilations() as compiled:
        moved.encode(CORPUS["de"], language="auto", max_length=24)
    assert compiled == []


@pytest.mark.parametrize("devices", [1, 4])
def test_a_row_that_is_not_finite_is_named_by_its_place_in_the_input(devices):
    encoder = lj.load_encoder(TINY, mesh=data_mesh(jax.devices()[:devices]))
    [broken] = set.difference(*(set(encoder.tokenizer([text], 40, [None])[0][0].tolist()) for text in "za"))
    embedding = encoder.model.embeddings.word.embedding
    embedding[...] = embedding[...].at[broken].set(jnp.nan)
    sentences = ["a " * 30] * 3 + ["a " * 28 + "z"] + ["a " * 20] * 100
    for place in (3, 50):
        sentences[3], sentences[place] = "a " * 29, "a " * 28 + "z"
        with pytest.raises(ValueError, match=f"NaN, infinity .*, first in row {place}$"):
            encoder.moments(sentences)
