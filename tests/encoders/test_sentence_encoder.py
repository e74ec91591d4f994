"""Order, batches, devices and bad text: a sentence's vector is its own."""

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from unicodedata import normalize

import jax
import numpy as np
import pytest
from flax import nnx

import lsar_jax as lj
from lsar_jax.encoders import pipeline
from lsar_jax.encoders.options import encode_call
from lsar_jax.encoders.program import compiled as compiled_for
from lsar_jax.mesh import data_mesh
from tests.compilations import count_compilations

LETTERS = np.array(list("abcdefghij "))


def texts(rng, n, longest=38):
    """Strings of 0 to ``longest`` letters: a token each in the tiny tokenizer."""
    return ["".join(rng.choice(LETTERS, size)) for size in rng.integers(0, longest, n)]


def relative(x, y):
    return (np.linalg.norm(x - y, axis=-1) / np.linalg.norm(y, axis=-1)).max()


@pytest.fixture(scope="module")
def corpus():
    return texts(np.random.default_rng(0), 150)


@pytest.fixture(scope="module")
def short(corpus):
    """Short sentences, for what does not depend on the lengths."""
    return [text[:6] for text in corpus[:60]]


@pytest.fixture(scope="module")
def four(tiny_folder):
    """The tiny encoder on four devices; jax makes their mesh with Explicit axes."""
    return lj.load_encoder(tiny_folder, mesh=jax.make_mesh((4,), ("data",)))


@pytest.fixture(scope="module")
def alone(tiny, corpus):
    """Each sentence encoded by itself."""
    return np.stack([tiny.encode(text) for text in corpus])


def test_a_vector_does_not_depend_on_neighbours_or_order(tiny, corpus, alone, rng):
    together = tiny.encode(corpus)
    assert together.shape == (150, 32)
    assert together.dtype == np.float32
    assert relative(together, alone) <= 1e-5
    order = rng.permutation(len(corpus))
    assert relative(tiny.encode([corpus[i] for i in order]), alone[order]) <= 1e-5


def test_the_same_input_gives_the_same_bytes(tiny, corpus):
    many = corpus * 15  # two chunks of the stream, and both row counts
    first = tiny.encode(many)
    np.testing.assert_array_equal(tiny.encode(iter(many)), first)
    np.testing.assert_array_equal(np.asarray(tiny.encode(many, output="jax")), first)


def test_one_device_equals_four(four, corpus, alone, monkeypatch):
    seen, run = [], pipeline.run_batch
    monkeypatch.setattr(pipeline, "run_batch", lambda *args: seen.append(run(*args)) or seen[-1])
    assert relative(four.encode(corpus), alone) <= 1e-5
    # Rows are split over the devices.
    assert all(len(part.sharding.device_set) == 4 for part, _ in seen)
    assert {shard.data.shape[1] for shard in seen[0][0].addressable_shards} == {seen[0][0].shape[1] // 4}


@pytest.mark.parametrize(("count", "split"), [(148, True), (150, False)])
def test_where_a_result_on_the_devices_lies(four, corpus, alone, count, split):
    for sentences in (corpus[:count], iter(corpus[:count])):
        result = four.encode(sentences, output="jax")
        assert len(result.sharding.device_set) == 4
        assert {shard.data.shape[0] for shard in result.addressable_shards} == {count // 4 if split else count}
        assert relative(np.asarray(result), alone[:count]) <= 1e-5


def test_layers_come_from_one_pass(tiny, tiny_folder, short):
    stacked = tiny.encode(short, layers=iter((3, 0, 2)))
    assert stacked.shape == (3, 60, 32)
    for row, layer in zip(stacked, (3, 0, 2), strict=True):
        shallow = lj.load_encoder(str(tiny_folder), layer=layer, mesh=tiny.mesh)
        assert len(shallow.model.blocks) == layer
        assert relative(row, shallow.encode(short)) <= 1e-6


def test_a_mixed_stream_has_six_programs(tiny_folder, corpus):
    # Encoders share programs: without those that other tests compiled, only warm_up can have compiled them.
    jax.clear_caches()
    compiled_for.cache_clear()
    encoder = lj.load_encoder(str(tiny_folder), mesh=data_mesh(jax.devices()[:1]))
    with count_compilations() as compiled:
        encoder.encode(corpus * 7)
        encoder.encode(corpus[:50])
        assert len(compiled) == 3  # eight rows, two, and one
    assert encoder.warm_up() == len(pipeline.batch_sizes(encoder, encode_call(encoder, {})).shapes(40))
    with count_compilations() as compiled:
        for text in corpus[:20]:
            encoder.encode(text)
        assert compiled == []
        encoder.encode(corpus, layers=(1,))
        assert compiled


def test_threads_share_an_encoder(tiny, four, corpus, alone):
    expected = {limit: tiny.encode(corpus[:30], max_length=limit) for limit in (10, 40)}
    calls = [(tiny, corpus[:30], {"max_length": limit}) for limit in (10, 40)] + [(four, corpus, {"output": "jax"})]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda call: call[0].encode(call[1], **call[2]), calls * 6))
    for short, long, many in zip(results[::3], results[1::3], results[2::3], strict=True):
        np.testing.assert_array_equal(short, expected[10])
        np.testing.assert_array_equal(long, expected[40])
        assert relative(np.asarray(many), alone) <= 1e-5


def test_shapes_of_none_and_one(tiny):
    assert tiny.encode([]).shape == (0, 32)
    assert tiny.encode([], output="jax").shape == (0, 32)
    assert tiny.encode([], layers=(0, 1)).shape == (2, 0, 32)
    assert tiny.encode("abc").shape == (32,)
    assert tiny.encode("abc", layers=(0, 1)).shape == (2, 32)
    np.testing.assert_array_equal(tiny.encode(x for x in ["a bc", "a d"]), tiny.encode(["bc", "d"], prompt="a "))


@pytest.mark.parametrize(
    "text", ["", " ", "\x00\x01\x07\x1b[0m", "\ufeff\u200b\u2028", "a" * 100_000, "😀" * 100_000, "\U0010ffff"]
)
def test_any_string_has_a_finite_vector(tiny, bundled, text):
    assert np.isfinite(tiny.encode(text)).all()
    assert np.isfinite(bundled.encode(text, max_length=16)).all()


def test_truncation_is_counted_and_logged(tiny, caplog):
    sentences = ["a" * 8, "a" * 9, "a" * 80]
    x, report = tiny.encode_with_report(sentences, max_length=10)
    assert (report.sentences, report.truncated, report.tokens) == (3, 2, 30)
    assert caplog.records == []
    np.testing.assert_array_equal(x[2], x[0])
    with caplog.at_level(logging.WARNING, logger="lsar_jax"):
        tiny.encode(sentences, max_length=10)
    assert caplog.messages == ["2 of 3 sentences were truncated to 10 tokens"]
    assert tiny.encode_with_report(["a" * 80])[1].tokens == 40


def test_decomposed_text_is_counted(tiny):
    # NFC itself decomposes the last one.
    text = ["Việt", normalize("NFD", "Việt"), "đê\u0300u", "가", "\u1100\u1161", "abc", "", "\u0958"]
    assert tiny.encode_with_report(iter(text))[1].decomposed == 4


def test_report_counts_padding(tiny):
    _, report = tiny.encode_with_report(["a" * 6, "a" * 3])
    assert (report.tokens, report.padded_tokens) == (8 + 5, 16)
    # Five rows of 16 sentences: two batches of two rows, and one of one row.
    _, report = tiny.encode_with_report(["a" * 6] * 70)
    assert (report.tokens, report.padded_tokens) == (70 * 8, 5 * 128)


REFUSED = [
    (["fine", "lone \udc80 surrogate"], {}, "sentence 1 has the lone surrogate U.DC80 at character 5"),
    (["fine", None], {}, "sentence 1 is of type NoneType, not a str"),
    (b"bytes", {}, "sentences must be a str or an ordered iterable of str, not a bytes"),
    (np.array([["a", "b"], ["c", "d"]]), {}, r"an ordered iterable of str, not a ndarray of shape \(2, 2\)"),
    ({"a": "b"}, {}, "must be a str or an ordered iterable of str, not a dict"),
    ({"a", "b"}, {}, "must be a str or an ordered iterable of str, not a set"),
    (5, {}, "not a int"),
    (["a"], {"normalize": 1}, "normalize is 1; it must be True or False"),
    (["a"], {"show_progress": "yes"}, "show_progress is 'yes'; it must be True or False"),
    (["a"], {"language": {"de"}}, "language is {'de'}; give one code"),
    (["a"], {"max_length": 8.5}, "max_length is 8.5; it must be a whole number"),
    (["abc"], {"layers": (4,)}, "a layer is 4; it must be a whole number from 0 to 3"),
    (["abc"], {"layers": ()}, r"layers is \(\); give one or more, such as layers=\(3,\)"),
    (["abc"], {"max_length": 2}, "max_length is 2; it must be"),
    (["abc"], {"token_budget": 0}, "token_budget is 0; it must be a whole number from 1"),
    (["abc"], {"prompt": "a" * 50 + ":"}, "the prompt 'aaa.* leaves no room in 40 tokens"),
    (["abc"], {"output": "torch"}, "output 'torch' is not one of numpy, jax"),
    (["abc"], {"language": ["de"]}, "no transform, tokenizer or embedding of the encoder uses it"),
]


@pytest.mark.parametrize(("sentences", "arguments", "message"), REFUSED)
def test_what_is_refused(tiny, unchecked, sentences, arguments, message):
    with pytest.raises(ValueError, match=message):
        tiny.encode(sentences, **arguments)


@pytest.fixture(scope="module")
def by_language(tiny):
    rng = np.random.default_rng(5)
    return {code: tiny.encode(texts(rng, 20)) for code in ("de", "en", "zh")}


def test_transform_on_the_device_equals_the_transform_after(tiny, corpus, short, by_language):
    center, lsar = (fit(by_language, source=tiny.spec) for fit in (lj.transforms.fit_center, lj.transforms.fit_lsar))
    chain = center.then(lsar)
    # Sentences of all lengths, which are packed in another order than that of the input.
    languages = ["de", "zh", "deu"] * 50
    encoder = tiny.with_transform(chain)
    expected = np.asarray(chain(tiny.encode(corpus), languages))
    np.testing.assert_allclose(encoder.encode(corpus, language=languages), expected, atol=1e-5)
    moved = encoder.encode(short, language="zh")
    np.testing.assert_allclose(moved, np.asarray(chain(tiny.encode(short), "zh")), atol=1e-5)
    assert encoder.spec.transform == "center() then lsar(rank=2)"
    twice = tiny.with_transform(center).with_transform(lsar)
    np.testing.assert_array_equal(twice.encode(short, language="zh"), moved)
    assert encoder.warm_up(max_length=8) > 0
    unit = encoder.encode(short, language="zh", normalize=True)
    np.testing.assert_allclose(unit, moved / np.linalg.norm(moved, axis=1, keepdims=True), atol=1e-5)


def test_what_was_fitted_on_transformed_vectors_stays_there(tiny, by_language):
    lsar = lj.transforms.fit_lsar(by_language, source=tiny.spec)
    moved = tiny.with_transform(lsar)
    second = lj.transforms.fit_center(by_language, source=moved.spec)
    assert moved.with_transform(second).spec.transform == "lsar(rank=2) then center()"
    assert lsar.then(second).name == "lsar(rank=2) then center()"
    with pytest.raises(ValueError, match="was fitted on"):
        tiny.with_transform(second)


def test_transform_of_another_encoder_is_refused(tiny, tiny_folder, by_language, unchecked):
    lsar = lj.transforms.fit_lsar(by_language, source=tiny.spec)
    center = tiny.with_transform(lj.transforms.fit_center(by_language))
    narrow = lj.transforms.fit_lsar({code: x[:, :8] for code, x in by_language.items()})
    for call, message in (
        (lambda: lj.load_encoder(tiny_folder, layer=2).with_transform(lsar), "was fitted on"),
        (lambda: tiny.with_transform(narrow), "takes width 8, but the encoder bert has width 32"),
        (lambda: tiny.with_transform(lsar).encode(["abc"], layers=(2,)), "belongs to layer 3"),
        (lambda: center.encode(["abc"]), "depends on the language; give one of de, en, zh"),
        (lambda: center.encode(["abc"], language=["de", "en"]), "there are languages for 2 of 1 sentences"),
        (lambda: center.encode(["abc"], language=["auto"]), "'auto' is not a language code"),
        (lambda: center.encode(["abc"], language=[5]), "a language is 5, which is not a string"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_token_budget_bounds_a_batch(tiny, corpus, alone, monkeypatch):
    seen, run = [], pipeline.run_batch
    monkeypatch.setattr(pipeline, "run_batch", lambda *args: seen.append(args[2].shape) or run(*args))
    many = corpus * 3
    assert relative(tiny.encode(many, token_budget=1024)[:150], alone) <= 1e-5
    assert (8, 128) in seen
    seen.clear()
    assert relative(tiny.encode(many, token_budget=256)[:150], alone) <= 1e-5
    assert set(seen) == {(2, 128)}


@pytest.mark.parametrize("total", [True, False])
def test_progress_says_what_is_done(tiny, corpus, capsys, all_progress, total):
    batches = []
    tiny.encode(corpus if total else iter(corpus), show_progress=batches.append)
    assert sum(batches) == 150
    tiny.encode(corpus if total else iter(corpus), show_progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(batches) > 1
    last = r"encoded 150 of 150 sentences \(100%\)" if total else r"encoded 150 sentences, [\d,]+ a second"
    assert re.fullmatch(last, lines[-1])


def test_a_parameter_that_is_replaced_counts(tiny_folder, short):
    other = lj.load_encoder(tiny_folder)
    before, words = other.encode(short), other.model.embeddings.word
    words.embedding = nnx.Param(words.embedding.get_value()[::-1])
    assert relative(other.encode(short), before) > 0.1
    words.embedding = nnx.Param(words.embedding.get_value()[::-1])
    np.testing.assert_array_equal(other.encode(short), before)
