"""Arrays, sentences and languages of the wrong kind: refused with one line that says what is expected."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lsar_jax as lj

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def fitted():
    x = {code: np.random.default_rng(i).standard_normal((9, 6)).astype("f") for i, code in enumerate(("de", "en"))}
    center = lj.transforms.fit_center(x).with_identifier(lj.transforms.fit_identifier(x))
    return center, lj.transforms.fit_lsar(x)


GOOD = np.random.default_rng(7).standard_normal((4, 6))


def with_value(value):
    x = GOOD.copy()
    x[2, 3] = value
    return x


BAD = {
    "NaN": (with_value(np.nan), "1 of 4 rows holds NaN or infinity, the first is row 2"),
    "infinity": (with_value(-np.inf), "1 of 4 rows holds NaN or infinity, the first is row 2"),
    "too large": (with_value(1e300), "1 of 4 rows holds a value that float32 cannot hold, the first is row 2"),
    "bool": (GOOD > 0, "must be a numpy or jax array of floats, not a numpy.ndarray of bool"),
    "int": (GOOD.astype(int), "not a numpy.ndarray of int64"),
    "complex": (GOOD.astype(complex), "not a numpy.ndarray of complex128"),
    "object": (GOOD.astype(object), "not a numpy.ndarray of object"),
    "strings": (GOOD.astype(str), "not a numpy.ndarray of <U"),
    "list": (GOOD.tolist(), "not a builtins.list"),
    "one vector": (GOOD[0], r"the shape of .* is \(6,\); expected \[n, dim\]"),
    "no width": (GOOD[:, :0], r"the shape of .* is \(4, 0\)"),
    "masked": (np.ma.array(GOOD, mask=np.eye(4, 6)), "not a numpy.ma.*MaskedArray"),
    "three axes": (GOOD[None], r"the shape of .* is \(1, 4, 6\)"),
}


@pytest.mark.parametrize("kind", BAD)
def test_wherever_embeddings_are_given(fitted, kind):
    bad, message = BAD[kind]
    center, lsar = fitted
    good = GOOD.astype(np.float32)
    calls = {
        "transform": lambda: lsar(bad),
        "transform of a language": lambda: center(bad, "de"),
        "transform that detects": lambda: center(bad, "auto"),
        "identifier": lambda: center.identifier(bad),
        "queries": lambda: lj.retrieval.nearest(bad, good),
        "candidates": lambda: lj.retrieval.nearest(good, bad),
        "mining": lambda: lj.mining.mine(good, bad, k=1),
        "whitening of samples": lambda: lj.transforms.whiten_samples(bad),
    }
    for call in calls.values():
        with pytest.raises(ValueError, match=message):
            call()
    # The moments say it in words of their own.
    with pytest.raises(ValueError, match=r"^en: [^\n]*$"):
        lj.transforms.fit_lsar({"de": good, "en": bad})


def test_a_result_beyond_float32_is_refused(rng):
    whitening = lj.transforms.fit_whitening({"de": 0.01 * rng.standard_normal((50, 8)).astype(np.float32)})
    long = np.full((3, 8), 3e38, np.float32)
    long[:2] = 1
    with pytest.raises(ValueError, match="transformed by whitening.*: 1 of 3 rows holds .* the first is row 2"):
        whitening(long)


def test_nothing_is_checked_under_jit(fitted):
    bad = jnp.asarray(BAD["NaN"][0], jnp.float32)
    moved = jax.jit(lambda t, x: t(x))(fitted[1], bad)
    assert np.isnan(moved[2]).any()
    assert np.isfinite(moved[:2]).all()


@pytest.mark.parametrize("length", [1e-37, 1e-40])
def test_vectors_whose_digits_are_lost_are_refused(length, rng):
    short = (rng.standard_normal((5, 48)) * length).astype(np.float32)
    unit = rng.standard_normal((5, 48)).astype(np.float32)
    short[3:] = unit[3:]
    for one, other in ((short, unit), (unit, short)):
        with pytest.raises(ValueError, match=r"3 of 5 vectors \(the first is row 0\) are too short for float32"):
            lj.retrieval.nearest(one, other)
    # A zero vector is none of them.
    short[:3] = 0
    assert np.asarray(lj.retrieval.nearest(short, unit)[0])[0, 0] == 0


@pytest.mark.parametrize("offset", [0, 1e4, 1e8])
@pytest.mark.parametrize("second", ["float64", "float32 and float64"])
def test_moments_of_float64_are_exact(offset, second, rng):
    x = rng.standard_normal((3000, 12)) + offset
    blocks = [x] if second == "float64" else [(x[:1000] - offset).astype(np.float32), x[1000:]]
    moments = lj.Moments.from_blocks(blocks, second_moment=True)
    whole = np.concatenate(blocks, dtype=np.float64)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-12, atol=1e-6)
    expected = np.cov(whole.T)
    np.testing.assert_allclose(moments.covariance(), expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("offset", [0, 1e3, 1e8])
def test_a_transform_says_that_digits_are_lost(offset, rng, caplog):
    x = {code: rng.standard_normal((50, 12)) + offset for code in ("de", "en")}
    center = lj.transforms.fit_center(x)
    moved = center(x["de"], "de")
    assert ("offset is so large" in caplog.text) == (offset == 1e8)
    if offset < 1e8:
        np.testing.assert_allclose(moved, x["de"] - x["de"].mean(axis=0), atol=1e-3)
        # A first dimension that varies much does not hide the offset of the second.
        scale, offsets = np.ones((2, 12))
        scale[0], offsets[1] = 1e6, 1e8
        center(x["de"] * scale + offsets, "de")
        assert "embeddings: the offset is so large" in caplog.text


@pytest.mark.parametrize("output", ["numpy", "jax"])
@pytest.mark.parametrize(("layer", "pooling"), [(0, "mean"), (3, "mean"), (3, "last")])
def test_an_overflow_is_an_error_that_names_its_sentence_alone(tiny, output, layer, pooling):
    tiny = dataclasses.replace(tiny, pooling=pooling)
    broken = dataclasses.replace(tiny)
    broken.model = jax.tree.map(lambda x: x, tiny.model)
    words = broken.model.embeddings.word.embedding
    words[...] = words[...].at[tiny.tokenizer.backend.encode("z").ids[1]].set(3e38)
    options = {"output": output, "layers": (layer,)}
    # One packed row holds them all.
    with pytest.raises(ValueError, match="the embeddings hold NaN or infinity, for example in row 2"):
        broken.encode(["abc", "a b", "a z b", "c"], **options)
    np.testing.assert_array_equal(broken.encode(["abc"], **options), tiny.encode(["abc"], **options))


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-19, 1.0, 1e18, 1e25, 1e37])
def test_the_size_of_vectors_does_not_change_the_order(scale, rng):
    queries, candidates = (rng.standard_normal((n, 48)) for n in (60, 200))
    products = queries @ candidates.T
    order = np.argsort(-products, axis=1)[:, :5]
    small = [(x * scale).astype(np.float32) for x in (queries, candidates)]
    cosines = products / np.linalg.norm(candidates, axis=1)
    for side in (queries.astype(np.float32), small[0]):
        found = lj.retrieval.nearest(side, small[1])[1]
        np.testing.assert_array_equal(np.asarray(found)[:, 0], cosines.argmax(axis=1))
    ranks = lj.retrieval.candidate_ranks(*small, order, metric="dot")
    np.testing.assert_array_equal(ranks, np.tile(np.arange(5), (60, 1)))
    if scale > 1e18:
        return  # the products themselves are beyond float32
    scores, found = lj.retrieval.nearest(*small, k=5, metric="dot")
    np.testing.assert_array_equal(found, order)
    if scale > 1e-20:
        expected = np.take_along_axis(products, order, 1) * scale**2
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5 * scale**2)


def test_digits_that_cosines_lose_are_told(rng, caplog):
    x = rng.standard_normal((50, 12))
    lj.retrieval.nearest(x + 10, x)
    lj.retrieval.nearest(x + 1e5, x, metric="dot")
    lj.transforms.fit_identifier({"de": x, "en": x + 1})(x + 1e3)
    assert not caplog.text
    lj.retrieval.nearest(x + 1e3, x)
    assert "queries: the offset is so large" in caplog.text


WRONG = [["de"]], np.array([["de"]]), np.array("de"), ["de", 5], "klingon", [None, "de"], 5, {"de"}, {"de": 1}, b"de"


@pytest.mark.parametrize("language", WRONG)
@pytest.mark.parametrize("name", ["center", "lsar"])
def test_languages_that_are_none(name, language, rng):
    x = {code: rng.standard_normal((2, 8)).astype(np.float32) for code in ("de", "en")}
    transform = getattr(lj.transforms, f"fit_{name}")(x)
    with pytest.raises(ValueError, match="language"):
        transform(x["de"], language)
    with pytest.raises(ValueError, match="language"):
        transform.as_affine(language)


def test_moments_without_vectors_are_refused():
    with pytest.raises(ValueError, match="the count is -5"):
        lj.Moments(-5, np.zeros(4))
