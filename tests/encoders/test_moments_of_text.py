"""Moments of text, and languages that the device finds."""

import copy
import threading
import time
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.mesh import data_mesh
from lsar_jax.transforms import fit_cbie, fit_center, fit_identifier, fit_lsar, fit_whitening
from tests.conftest import TINY
from tests.encoders.test_sentence_encoder import texts


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    alphabets = {"de": "abc", "en": "def", "fr": "ghi"}
    return {code: ["".join(rng.choice(list(letters), 20)) for _ in range(30)] for code, letters in alphabets.items()}


@pytest.mark.parametrize("devices", [1, 4])
def test_moments_of_a_stream_are_those_of_its_embeddings(tiny, devices):
    encoder = tiny if devices == 1 else lj.load_encoder(str(TINY))
    sentences = texts(np.random.default_rng(0), 150, 14)
    x = tiny.encode(sentences, layers=(0, 2, 3)).astype(np.float64)
    got = encoder.moments((text for text in sentences), layers=(0, 2, 3), second_moment=True)
    for rows, moments in zip(x, got, strict=True):
        assert moments.count == 150
        np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(moments.covariance(), np.cov(rows, rowvar=False), atol=1e-5)
    last = encoder.moments(sentences)
    np.testing.assert_allclose(last.mean, x[-1].mean(axis=0), atol=1e-5)
    assert last.scatter is None


def test_moments_after_a_transform(tiny, corpus):
    x = {code: tiny.encode(part) for code, part in corpus.items()}
    centred = tiny.with_transform(fit_center(x, source=tiny.spec))
    np.testing.assert_allclose(centred.moments(corpus["fr"], language="fr").mean, 0, atol=1e-6)


def test_refusals(tiny, unchecked):
    with pytest.raises(ValueError, match="there are no embeddings"):
        tiny.moments([])
    with pytest.raises(ValueError, match="sentences is a single str; give a list or an iterator of str"):
        tiny.moments("a")


@pytest.mark.parametrize("devices", [1, 4])
def test_the_device_finds_the_language(tiny, corpus, devices):
    encoder = tiny if devices == 1 else lj.load_encoder(str(TINY))
    moments = {code: tiny.moments(part, second_moment=True) for code, part in corpus.items()}
    identifier = fit_identifier(moments, threshold=np.inf, source=tiny.spec)
    flat = [text for part in corpus.values() for text in part]
    labels = [code for code, part in corpus.items() for _ in part]
    assert identifier(tiny.encode(flat)) == labels
    for fit in (fit_center, lambda m: fit_whitening(m, per_language=True), lambda m: fit_lsar(m).then(fit_center(m))):
        moved = encoder.with_transform(fit(moments).with_identifier(identifier))
        np.testing.assert_allclose(moved.encode(flat, language="auto"), moved.encode(flat, language=labels), atol=1e-4)
    agnostic = encoder.with_transform(fit_lsar(moments))
    np.testing.assert_array_equal(agnostic.encode(flat, language="auto"), agnostic.encode(flat))


def test_clusters_are_found_on_the_device(tiny, corpus):
    x = {code: tiny.encode(part) for code, part in corpus.items()}
    cbie = fit_cbie(x, 3, 2, source=tiny.spec)
    moved = tiny.with_transform(cbie)
    flat = [text for part in corpus.values() for text in part]
    labels = [code for code, part in corpus.items() for _ in part]
    np.testing.assert_allclose(moved.encode(flat, language=labels), cbie(tiny.encode(flat), labels), atol=1e-5)


def test_auto_is_refused_where_it_means_nothing(tiny, corpus):
    with pytest.raises(ValueError, match="no transform, tokenizer or embedding of this encoder uses it"):
        tiny.encode(["a"], language="auto")
    x = {code: tiny.encode(part) for code, part in corpus.items()}
    with pytest.raises(ValueError, match=r"language is 'auto', but center\(\) has no identifier; add one with"):
        tiny.with_transform(fit_center(x)).encode(["a"], language="auto")


def test_warm_up_compiles_auto(tiny, corpus):
    from tests.compilations import count_compilations

    x = {code: tiny.encode(part) for code, part in corpus.items()}
    moved = tiny.with_transform(fit_center(x).with_identifier(fit_identifier(x)))
    moved.warm_up(auto=True, max_length=24)
    with count_compilations() as compiled:
        moved.encode(corpus["de"], language="auto", max_length=24)
    assert compiled == []


def test_sharded_embeddings_are_summed_where_they_are(rng):
    mesh = data_mesh(jax.devices()[:2])
    x = rng.standard_normal((64, 8)).astype(np.float32)
    from lsar_jax.mesh import split

    placed = jax.device_put(x, split(mesh))
    np.testing.assert_allclose(lj.Moments.from_embeddings(placed).mean, x.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("devices", [1, 4])
def test_a_row_that_is_not_finite_is_named_by_its_place_in_the_input(devices):
    encoder = lj.load_encoder(TINY, mesh=data_mesh(jax.devices()[:devices]))
    [broken] = set(encoder.tokenizer(["z"], 40, [None])[0][0].tolist()) - set(
        encoder.tokenizer(["a"], 40, [None])[0][0].tolist()
    )
    embedding = encoder.model.embeddings.word.embedding
    embedding[...] = embedding[...].at[broken].set(jnp.nan)
    # The long sentences come first, and leave their bucket last.
    sentences = ["a " * 30] * 3 + ["a " * 20 + "z"] + ["a"] * 200 + ["z"] + ["a"] * 50
    with pytest.raises(ValueError, match="NaN, infinity .*, first in row 3$"):
        encoder.moments(sentences)
    with pytest.raises(ValueError, match="NaN, infinity .*, first in row 203$"):
        encoder.moments(sentences[:3] + sentences[4:])


def test_slow_programs_give_the_same_bits(tiny, rng, monkeypatch):
    """Several programs compile at a time, but batches are added in their order, so that digests do not change."""
    sentences = [" ".join(["the dog barks"] * int(words)) for words in rng.integers(1, 9, 1000)]
    cold = copy.copy(tiny)
    cold._known = defaultdict(set)
    compile = type(tiny)._compile
    slow = []

    def compile_slowly(*args):
        assert threading.current_thread().name.startswith("compile")
        slow.append(args)
        time.sleep(0.2 / len(slow))
        compile(*args)

    monkeypatch.setattr(type(tiny), "_compile", compile_slowly)
    first = cold.moments(sentences, second_moment=True)
    assert len(slow) >= 3
    second = cold.moments(sentences, second_moment=True)
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.scatter, second.scatter)
