"""The contract that every transform keeps."""

import jax
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.transforms import (
    Fit,
    SparseAutoencoder,
    Step,
    Transform,
    fit_cbie,
    fit_center,
    fit_identifier,
    fit_leace,
    fit_linear_map,
    fit_lir,
    fit_lsar,
    fit_outliers,
    fit_shift,
    fit_whitening,
)
from tests.compilations import count_compilations
from tests.embeddings.made_folder import SPEC
from tests.rewriting import rewrite


def pairs(x):
    return {code: (part[:30], x["en"][:30]) for code, part in x.items() if code != "en"}


def sparse_autoencoder(x, *, source=None):
    """A step that is not affine, shared, with random weights."""
    rng = np.random.default_rng(0)
    encoder, decoder = (rng.standard_normal(shape).astype(np.float32) for shape in ((40, 80), (80, 40)))
    weights = encoder, decoder / 40, np.float32(np.arange(80) % 3 > 0)
    step = SparseAutoencoder(*map(jax.numpy.asarray, weights), 9, False)
    fit = Fit("sparse", 40, (), tuple((code, len(part)) for code, part in x.items()))
    return Transform((step,), (fit,), source)


def identified(x):
    return fit_center(x).with_identifier(fit_identifier(x))


FITS = {
    "center": fit_center,
    "lir": lambda x, **kwargs: fit_lir(x, 3, **kwargs),
    "lsar": fit_lsar,
    "outliers": lambda x, **kwargs: fit_outliers(x, largest=2, **kwargs),
    "whitening": fit_whitening,
    "whitening per language": lambda x, **kwargs: fit_whitening(x, per_language=True, **kwargs),
    "cbie": lambda x, **kwargs: fit_cbie(x, 3, 4, **kwargs),
    "leace": fit_leace,
    "shift": lambda x, **kwargs: fit_shift(pairs(x), **kwargs),
    "linear map": lambda x, **kwargs: fit_linear_map(pairs(x), center=True, **kwargs),
    "sparse autoencoder": sparse_autoencoder,
    "strength": lambda x, **kwargs: fit_center(x, **kwargs).then(fit_lir(x, 1, **kwargs)).at_strength(0.3),
    "chain": lambda x, **kwargs: fit_center(x, **kwargs).then(fit_lsar(x, 2, **kwargs)).then(fit_lir(x, 1, **kwargs)),
}
SHARED = np.zeros((), np.int32)


@pytest.fixture(params=FITS, scope="module")
def transform(request, x):
    return FITS[request.param](x, source=SPEC)


def test_mixed_batch_equals_a_call_for_each_language(transform, x, rng):
    rows = np.concatenate(list(x.values()))
    languages = [code for code, part in x.items() for _ in part]
    order = rng.permutation(len(rows))
    mixed = np.asarray(transform(rows[order], [languages[i] for i in order]))
    expected = np.concatenate([np.asarray(transform(part, code)) for code, part in x.items()])
    np.testing.assert_allclose(mixed, expected[order], atol=2e-5)


def test_as_affine_is_the_same_map(transform, x):
    own = {"cbie": "each cluster has its own map", "sparse": "each vector has its own features"}
    if why := own.get(transform.fits[0].method):
        with pytest.raises(ValueError, match=rf"\(.*\): {why}, so there is no single A and b"):
            transform.as_affine("de")
        return
    for code, part in x.items():
        matrix, offset = transform.as_affine(code)
        assert matrix.dtype == offset.dtype == np.float64
        np.testing.assert_allclose(part @ matrix.T + offset, transform(part, code), atol=5e-5)


def test_save_and_load_round_trip(transform, x, tmp_path):
    path = tmp_path / "transform.safetensors"
    transform.save(path)
    loaded = Transform.load(path)
    assert loaded.fits == transform.fits
    assert loaded.source == SPEC
    for code, part in x.items():
        np.testing.assert_array_equal(loaded(part, code), transform(part, code))


def test_then_equals_composition(x):
    first, second = fit_center(x), fit_lir(x, 2)
    chain = first.then(second)
    np.testing.assert_allclose(chain(x["de"], "de"), second(first(x["de"], "de"), "de"), atol=1e-5)
    assert repr(chain) == "Transform(center() then lir(components=2); dim 40, 6 languages)"
    np.testing.assert_array_equal(chain(x["de"], "ger"), chain(x["de"], "de"))


def test_then_of_a_shared_and_a_language_step_asks_for_the_language(x):
    chain = fit_lsar(x).then(fit_center({code: x[code] for code in ("de", "en")}))
    assert fit_lsar(x).languages is None
    assert chain.languages == ("de", "en")
    with pytest.raises(ValueError, match=r"center\(\) depends on the language; give one of de, en"):
        chain(x["de"])


def test_it_is_a_pytree_that_goes_through_jit(transform, x):
    rows = np.concatenate(list(x.values()))
    languages = [code for code, part in x.items() for _ in part]
    applied = jax.jit(lambda t, rows: t(rows, languages))(transform, rows)
    np.testing.assert_allclose(applied, transform(rows, languages), atol=2e-5)
    doubled = jax.tree.map(lambda leaf: leaf * 1, transform)
    assert doubled.fits == transform.fits


def test_all_languages_are_one_program(x):
    center = fit_center(x)
    rows = x["de"]
    center(rows, "de")
    with count_compilations() as compiled:
        for code in x:
            center(rows, code)
    assert compiled == []


def test_numpy_jax_and_other_dtypes(transform, x):
    expected = np.asarray(transform(x["de"], "de"))
    for rows in (jax.numpy.asarray(x["de"]), x["de"].astype(np.float64)):
        result = transform(rows, "de")
        assert isinstance(result, jax.Array)
        np.testing.assert_array_equal(result, expected)
    assert expected.dtype == transform(x["de"].astype(np.float16), "de").dtype == np.float32
    assert transform(x["de"][:0], "de").shape == (0, 40)


def test_vmap_over_layers(x):
    step = fit_lsar(x, 2).steps[0]
    stacked = np.stack([x["de"], 2 * x["de"]])
    result = jax.vmap(Step.__call__, in_axes=(None, 0, None))(step, stacked, SHARED)
    np.testing.assert_allclose(result[1], step(jax.numpy.asarray(2 * x["de"]), SHARED), atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "language", "message"),
    [
        (np.zeros((3, 39), np.float32), "de", r"shape \(3, 39\); the transform takes \[n, 40\]"),
        (np.zeros((3, 40), np.float32), None, "depends on the language; give one of de, en, fr"),
        (np.zeros((3, 40), np.float32), "sv", r"language 'sv' is not in center\(\); known languages are de, en"),
        (np.zeros((3, 40), np.float32), "klingon", "'klingon' is not a language code"),
        (np.zeros((3, 40), np.float32), ["de", "en"], "there are 2 languages and 3 embeddings"),
    ],
)
def test_bad_calls(x, unchecked, rows, language, message):
    with pytest.raises(ValueError, match=message):
        fit_center(x)(rows, language)


def test_what_cannot_be_chained(x):
    narrow = fit_lsar({code: rows[:, :8] for code, rows in x.items()})
    with pytest.raises(ValueError, match="the transforms differ in width: {'the first': 40, 'the second': 8}"):
        fit_lsar(x).then(narrow)
    renamed = lj.EncoderSpec("renamed", SPEC.revision, 8, "mean", "bfloat16")
    assert fit_lsar(x, source=SPEC).then(fit_lsar(x, 2, source=renamed)).source == SPEC
    assert fit_lsar(x).then(fit_lsar(x, 2, source=SPEC)).source == SPEC
    other = lj.EncoderSpec("bundled", "sha256:1", 8, "mean", "float32")
    with pytest.raises(ValueError, match="the transforms are of different embeddings"):
        fit_lsar(x, source=SPEC).then(fit_lsar(x, source=other))
    with pytest.raises(ValueError, match=r"center\(\) is already part of the transform lsar\(rank=5\) then center\(\)"):
        fit_lsar(x).then(fit_center(x)).then(fit_center(x))


def changed(name, change):
    """A change of one array of a file."""
    return lambda arrays, _: arrays.update({name: change(arrays[name])})


@pytest.mark.parametrize(
    ("fit", "change", "message"),
    [
        (fit_center, lambda _, h: h.update(format="v9"), "has format 'v9', expected"),
        (fit_center, lambda _, h: h["fits"][0].pop("dim"), "do not fit together: TypeError"),
        (fit_center, lambda _, h: h.update(fits=[]), "do not fit together: there is no"),
        (fit_center, lambda t, h: t.update(extra=t["0.shift"]), "do not fit together: there is no 'extra'"),
        (fit_center, changed("0.shift", lambda part: part[:2]), r"shift has shape \[2, 40\] .*; expected \[6, 40\]"),
        (fit_center, lambda _, h: h["fits"][0].update(languages=["de"]), r"expected \[1, 40\]"),
        (fit_center, lambda _, h: h["fits"][0]["languages"].__setitem__(0, "??"), "'[?][?]' is not a language code"),
        (fit_center, changed("0.shift", lambda part: part * np.nan), "shift .* without NaN"),
        (fit_center, changed("0.shift", np.float64), "and dtype float64; expected .* of float32"),
        (sparse_autoencoder, changed("0.decoder", lambda part: part[:-1]), r"shape \[79, 40\] .*; expected \[80, 40\]"),
        (sparse_autoencoder, changed("0.factors", lambda part: part[None]), r"shape \[1, 80\] .*; expected \[80\]"),
        (sparse_autoencoder, changed("0.active", lambda part: np.repeat(part, 2)), "do not fit together"),
        (identified, changed("identifier.axes", lambda part: part.astype(bool)), "axes has .* dtype bool; expected"),
        (identified, changed("identifier.weights", lambda part: part[:, :-1]), r"\[6, 39\].*; expected \[6, 40\]"),
        (identified, changed("identifier.unit", lambda part: part * np.nan), "the identifier in .*: unit has .* NaN"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(x, tmp_path, unchecked, fit, change, message):
    path = tmp_path / "transform.safetensors"
    fit(x).save(path)
    rewrite(path, change)
    with pytest.raises(ValueError, match=message):
        Transform.load(path)


def test_language_steps_take_further_languages(transform, x):
    few = {code: part for code, part in x.items() if code not in ("fr", "th")}
    new = {code: x[code] for code in ("th", "en", "fr")}
    fit = next(fit for fit in FITS.values() if fit(x).name == transform.name)
    first = fit(few, source=SPEC)
    if not all(made.languages or made.method == "at_strength" for made in transform.fits):
        with pytest.raises(ValueError, match=r"is one map, fitted on all its languages; fit it again with .*th"):
            first.with_languages(fit(new | {"de": x["de"], "zh": x["zh"]}))
        return
    if transform.fits[0].method not in ("shift", "linear_map"):  # which leave English as it is
        with pytest.raises(ValueError, match=r"already knows ja"):
            first.with_languages(fit(new | {"ja": x["ja"][:25]}))
        del new["en"]
    grown = first.with_languages(fit(new))
    assert [made.languages for made in grown.fits] == [made.languages for made in transform.fits]
    assert grown.fits[0].fitted_on == transform.fits[0].fitted_on
    for code, part in x.items():
        np.testing.assert_allclose(grown(part, code), transform(part, code), atol=1e-5)


def test_what_cannot_take_languages(x):
    half = {"de": x["de"], "en": x["en"]}
    center = fit_center(half, source=SPEC)
    with pytest.raises(ValueError, match=r"the methods differ: center\(\) and lir\(components=1\)"):
        center.with_languages(fit_lir({"fr": x["fr"]}))
    with pytest.raises(ValueError, match="the transforms differ in width"):
        center.with_languages(fit_center({"fr": x["fr"][:, :8]}))
    other = lj.EncoderSpec("bundled", "sha256:1", 8, "mean", "float32")
    with pytest.raises(ValueError, match="the transforms are of different embeddings"):
        center.with_languages(fit_center({"fr": x["fr"]}, source=other))
    assert center.with_languages(fit_center({"fr": x["fr"]})).source == SPEC


def test_large_calls_are_taken_in_parts(x, rng):
    # More rows than bases are gathered for at a time; what only shifts is taken whole.
    for name in ("lir", "cbie", "whitening per language", "sparse autoencoder", "center"):
        transform = FITS[name](x)
        codes = [list(x)[i] for i in rng.integers(0, 6, 3000)]
        rows = np.stack([x[code][rng.integers(0, len(x[code]))] for code in codes])
        mixed = np.asarray(transform(rows, iter(codes)))
        program = str(jax.make_jaxpr(transform.apply)(rows, transform.language_ids(codes)))
        assert ("scan[" in program) == (name != "center")
        for code in x:
            same = np.array(codes) == code
            np.testing.assert_allclose(mixed[same], transform(rows[same], code), atol=2e-5)


def test_a_shared_step_that_both_have_alike_is_kept(x):
    lsar = fit_lsar(x)
    grown = lsar.then(fit_center({"de": x["de"]})).with_languages(lsar.then(fit_center({"fr": x["fr"]})))
    assert grown.languages == ("de", "fr")
    np.testing.assert_allclose(grown(x["fr"], "fr"), lsar.then(fit_center(x))(x["fr"], "fr"), atol=1e-5)


def test_an_identifier_stays_with_the_languages_of_a_chain(x):
    center = identified(x)
    with pytest.raises(ValueError, match="the identifier may detect fr, ja, th, zh, which .* does not know"):
        center.then(fit_center({"de": x["de"] + 1, "en": x["en"] + 1}))


def test_dense_maps_by_language_take_little_memory_under_jit(rng):
    # A matrix gathered for each of 2,048 rows would take 134 MB.
    x = {code: (rng.standard_normal((200, 128)) + i).astype(np.float32) for i, code in enumerate(("de", "en", "zh"))}
    whitening = lj.transforms.fit_whitening(x, 0.1, per_language=True)
    rows = jax.ShapeDtypeStruct((2048, 128), np.float32)
    codes = ["de", "zh"] * 1024
    made = jax.jit(lambda rows: whitening(rows, codes)).lower(rows).compile()
    assert made.memory_analysis().temp_size_in_bytes < 8e6
    both = np.tile(x["de"][:2], (1024, 1))
    np.testing.assert_allclose(made(both)[1], whitening(both[1:2], "zh")[0], atol=1e-4)
