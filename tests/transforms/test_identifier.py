"""Languages of unlabelled embeddings: against float64, by construction, through a transform."""

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax import Moments
from lsar_jax.moments import pool_moments
from lsar_jax.transforms import Transform, fit_center, fit_lsar, fit_whitening
from lsar_jax.transforms.identifier import fit_identifier, oas_shrinkage
from tests.transforms.conftest import CODES


def together(x):
    return np.concatenate(list(x.values())), [code for code, rows in x.items() for _ in rows]


def shrunk_covariance(x):
    """The pooled moments and the covariance that the identifier uses, in float64."""
    pooled = pool_moments(x)
    covariance = pooled.within / (pooled.count - len(x))
    shrinkage = float(oas_shrinkage(covariance, pooled.count - len(x)))
    assert 0 < shrinkage < 1
    return pooled, (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / 40 * np.eye(40)


@pytest.mark.parametrize("precise", [False, True])
def test_equals_linear_discriminant_analysis(x, rng, precise):
    rows, _ = together(x)
    pooled, covariance = shrunk_covariance(x)
    inverse = np.linalg.inv(covariance)
    unseen = rows + 3 * rng.standard_normal(rows.shape).astype(np.float32)
    distance = [np.einsum("nd,de,ne->n", unseen - m, inverse, unseen - m) for m in pooled.means]
    expected = [CODES[index] for index in np.argmin(distance, axis=0)]
    assert fit_identifier(x, precise=precise)(unseen) == expected


def test_shrinkage_is_scikit_learns(rng):
    from sklearn.covariance import oas

    rows = rng.standard_normal((30, 50)) * np.geomspace(1, 20, 50)
    rows -= rows.mean(axis=0)
    covariance = rows.T @ rows / 30
    np.testing.assert_allclose(oas_shrinkage(covariance.astype(np.float32), 30), oas(rows)[1], rtol=1e-4)
    assert float(oas_shrinkage(np.eye(4, dtype=np.float32), 30)) == 1


def test_large_offsets_and_tiny_scales_do_not_matter(x):
    swapped = {"de": x["en"], "en": x["en"]}
    assert fit_identifier(x).accuracy(swapped) == {"de": 0.0, "en": 100.0}
    for scale, offset in ((1, 0), (1e-15, 0), (1, 1e4)):
        moved = {code: (rows * np.float64(scale) + offset) for code, rows in x.items()}
        assert fit_identifier(moved, precise=True).accuracy(moved) == dict.fromkeys(CODES, 100.0)


def test_auto_is_the_language_that_is_found(x):
    rows, labels = together(x)
    moments = {code: Moments.from_embeddings(part, second_moment=True) for code, part in x.items()}
    for fit in (fit_center, lambda m: fit_whitening(m, per_language=True), lambda m: fit_lsar(m).then(fit_center(m))):
        transform = fit(moments).with_identifier(fit_identifier(moments))
        np.testing.assert_allclose(transform(rows, "auto"), transform(rows, labels), atol=1e-5)
        np.testing.assert_allclose(transform(rows, "auto"), fit(moments)(rows, labels), atol=1e-5)
    # A shared transform needs none.
    np.testing.assert_array_equal(fit_lsar(x)(rows, "auto"), fit_lsar(x)(rows))


def test_auto_asks_before_the_first_step(x):
    rows, labels = together(x)
    second = fit_center({code: 2 * rows for code, rows in x.items()})
    chain = fit_center(x).with_identifier(fit_identifier(x)).then(second)
    np.testing.assert_allclose(chain(rows, "auto"), chain(rows, labels), atol=1e-5)
    with pytest.raises(ValueError, match="chain the transforms first, then add an identifier to the chain"):
        fit_center(x).then(second.with_identifier(fit_identifier(x)))


def test_new_languages_leave_the_identifier_behind(x):
    few = {code: rows for code, rows in x.items() if code != "zh"}
    grown = fit_center(few).with_identifier(fit_identifier(few)).with_languages(fit_center({"zh": x["zh"]}))
    with pytest.raises(ValueError, match=r"language is 'auto', but center\(\) has no identifier"):
        grown(x["zh"], "auto")
    again = grown.with_identifier(fit_identifier(x))
    np.testing.assert_allclose(again(x["zh"], "auto"), again(x["zh"], "zh"), atol=1e-5)


def on(revision):
    return {"source": lj.EncoderSpec("a", revision, 8, "mean", "float32")}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: i(x["de"][:2, :3]), r"shape \(2, 3\); the identifier takes \[n, 40\]"),
        (lambda x, i: i.accuracy({"sv": x["de"]}), "language 'sv' is not in the identifier"),
        (lambda x, i: i.accuracy({"de": x["de"][:0]}), "the shape of de is .0, 40."),
        (lambda x, i: fit_lsar(x).with_identifier(i), r"lsar\(rank=5\) is the same for all languages"),
        (lambda x, i: fit_center({"de": x["de"]}).with_identifier(i), "may detect en, fr, ja, th, zh, which"),
        (lambda x, i: fit_center({"de": x["de"][:, :8]}).with_identifier(i), "the parts differ in width"),
        (lambda x, _: fit_center(x, **on("1")).with_identifier(fit_identifier(x, **on("2"))), "different embeddings"),
    ],
)
def test_refusals(x, unchecked, call, message):
    identifier = fit_identifier(x)
    with pytest.raises(ValueError, match=message):
        call(x, identifier)


def test_novelty_is_the_distance_between_the_languages_relative_to_all(x, rng):
    rows, _ = together(x)
    identifier = fit_identifier(x, precise=True)
    pooled, covariance = shrunk_covariance(x)
    inverse, level = np.linalg.inv(covariance), np.trace(covariance) / 40
    means = pooled.means
    # The part of a difference that lies, under this metric, in the span of the differences between the means.
    spread = (means - means.mean(axis=0)).T
    projection = spread @ np.linalg.pinv(spread.T @ inverse @ spread, rcond=1e-9) @ spread.T @ inverse
    off = rows[:, None] - means
    nearest = np.einsum("nld,de,nle->nl", off, inverse, off).argmin(axis=1)
    off = off[np.arange(len(rows)), nearest]
    inside = off @ projection.T
    expected = np.einsum("nd,de,ne->n", inside, inverse, inside) / 5 / ((off**2).mean(axis=1) / level)
    np.testing.assert_allclose(identifier.novelty(rows), expected, rtol=1e-3)
    # Text that is further from its mean in all directions is no more novel.
    further = means[nearest] + 3 * off
    same = np.array(identifier(further)) == np.array(identifier(rows))
    assert same.mean() > 0.9
    np.testing.assert_allclose(identifier.novelty(further)[same], expected[same], rtol=1e-3)


def without_french(x):
    """Five languages, and French, whose mean lies in the directions in which those differ, but near none of them."""
    known = {code: rows for code, rows in x.items() if code != "fr"}
    means = {code: rows.mean(axis=0) for code, rows in known.items()}
    french = x["fr"] - x["fr"].mean(axis=0) + 2 * means["de"] - means["zh"]
    return known, french


def test_a_language_that_was_not_fitted_on_is_unknown(x):
    known, french = without_french(x)
    identifier = fit_identifier(known)
    assert np.mean([code == "und" for code in identifier(french)]) > 0.95
    rows, labels = together(known)
    found = identifier(rows)
    assert np.mean(np.array(found) == np.array(labels)) > 0.95
    assert identifier.novelty(french).min() > np.median(identifier.novelty(rows))
    assert "und" not in fit_identifier(known, threshold=np.inf)(french)


def test_unknown_languages_are_told(x, tmp_path, caplog):
    known, french = without_french(x)
    center = fit_center(known).with_identifier(fit_identifier(known, threshold=5.0))
    center.save(tmp_path / "t")
    for transform in (center, Transform.load(tmp_path / "t")):
        assert transform.identifier.threshold == 5.0
        caplog.clear()
        transform(french, "auto")
        unknown = sum(code == "und" for code in transform.identifier(french))
        told = f"{unknown} of {len(x['fr'])} vectors are in none of the languages that the identifier knows"
        assert told in caplog.text
    assert transform.identifier.novelty(french)[0] == pytest.approx(center.identifier.novelty(french)[0], rel=1e-5)


def test_an_encoder_counts_unknown_languages(tiny, caplog):
    texts = {"de": ["abc ab", "bca", "cab b", "aab c", "bbc"], "en": ["hij h", "jih", "ihh j", "jjh i", "hhi"]}
    moments = {code: tiny.moments(lines, second_moment=True) for code, lines in texts.items()}
    new = ["def ed", "fed", "eef d", "ddf"]
    identifiers = (fit_identifier(moments, threshold=threshold) for threshold in (1e-6, np.inf))
    strict, never = (tiny.with_transform(fit_center(moments).with_identifier(one)) for one in identifiers)
    strict.encode(new, language="auto")
    assert "4 of 4 sentences are in none of the languages that the identifier knows" in caplog.text
    for encoder, language, unknown in ((strict, "auto", 4), (strict, "de", 0), (never, "auto", 0)):
        assert encoder.encode_with_report(new, language=language)[1].unknown == unknown
