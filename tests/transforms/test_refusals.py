"""Errors of the fits of methods, each with its own error; test_edges.py has what they all refuse."""

import sys

import numpy as np
import pytest

from lsar_jax import Moments, pool_moments
from lsar_jax.transforms import (
    fit_cbie,
    fit_center,
    fit_identifier,
    fit_joint,
    fit_langsae,
    fit_leace,
    fit_linear_map,
    fit_lir,
    fit_lsar,
    fit_mean_direction,
    fit_outliers,
    fit_shift,
    fit_sparse_dimensions,
    fit_steering,
    fit_whitening,
    zero_dimensions,
)
from lsar_jax.transforms.methods import METHODS
from lsar_jax.transforms.methods.linear_map import linear_maps


def first(x, count):
    """The first rows of two languages."""
    return {code: x[code][:count] for code in ("de", "en")}


def without_second(x):
    return {code: Moments.from_embeddings(rows) for code, rows in x.items()}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: fit_center({}), "0 languages are given"),
        (lambda x: fit_lsar(x, 0), "rank is 0; it must be a whole number from 1 to 5 .the span"),
        (lambda x: fit_lsar({code: x["de" if code == "de" else "en"] for code in x}), "rank is 5, but .* span 1"),
        (lambda x: fit_lsar({"de": x["de"], "en": x["de"]}), "span 0 dimensions"),
        (lambda x: fit_lsar(x, 3, published=True, precise=True), "published is float32, and precise is float64; omit"),
        (lambda x: fit_lir(x, 31), "components is 31; it must be a whole number from 1 to 30 .the sentences"),
        (lambda x: fit_lir(without_second(x)), "de: the second moment was not kept; use"),
        (lambda x: fit_lir({"de": np.zeros((5, 40), np.float32)}), "the embeddings of de span 0 dimensions"),
        (lambda x: fit_joint(x, 35), "components is 35; it must be a whole number from 1 to 34 .the dimensions"),
        (lambda x: fit_joint(x, eps=0), "eps is 0; it must be a positive"),
        (lambda x: fit_joint({"de": x["de"], "en": x["en"][:1]}), "en: one embedding has no covariance"),
        # Three sentences of each vary in two directions, and the means leave 38 of 40.
        (lambda x: fit_joint(first(x, 3), 5), "components is 5, but .* differently in 4 dimensions"),
        (lambda x: fit_joint({code: rows[:1].repeat(9, 0) for code, rows in x.items()}), "in no language do the"),
        (lambda x: fit_leace({"de": x["de"], "en": x["de"]}), "the means of de, en do not differ; there is no"),
        (lambda x: fit_whitening(x, 0), "eps is 0; it must be a positive, finite number"),
        (lambda x: fit_whitening({"de": x["de"][:1]}), "all languages together: one embedding has no covariance"),
        (lambda x: fit_whitening(pool_moments(x), per_language=True), "a second moment of each language is needed"),
        (lambda x: fit_whitening({"de": np.ones((5, 3), np.float32)}), "the embeddings do not vary"),
        (lambda x: fit_outliers(x, 0), "sigma is 0; it must be"),
        (lambda x: fit_outliers(x, largest=41), "largest is 41; it must be"),
        (lambda x: zero_dimensions((40,), 40), "a dimension is 40; it must be a whole number from 0 to 39"),
        (lambda x: fit_sparse_dimensions(x, 41), "dimensions is 41; it must be a whole number from 1 to 40 .the dim"),
        (lambda x: fit_sparse_dimensions({"de": x["de"], "en": x["de"]}), "is 4, but the means of de, en differ in 0"),
        (lambda x: fit_mean_direction({"de": x["de"], "en": -x["de"]}), "the mean of all 60 embeddings is 0: no dir"),
        (lambda x: fit_steering(x, 0), "components is 0; it must be a whole number from 1 to 40"),
        (lambda x: fit_steering({code: rows[:2].repeat(9, 0) for code, rows in x.items()}, 12), "vary in 11 dimen"),
        (lambda x: fit_cbie(without_second(x)), "de: moments do not suffice; give the embeddings"),
        (lambda x: fit_cbie(x, 31), "clusters is 31; it must be a whole number from 1 to 30 .the sentences of de"),
        (lambda x: fit_cbie(x, components=29), "components is 29; it must be .* to 28 .the 30 sentences of de"),
        (lambda x: fit_cbie(x, seed=-1), "seed is -1"),
        (lambda x: fit_langsae(x, width=0), "width is 0; it must be a whole number from 1 to 1024"),
        (lambda x: fit_langsae(x, 2, 81), "active is 81; it must be a whole number from 1 to 80 .the features"),
        (lambda x: fit_langsae(x, threshold="all"), "threshold is 'all'; it must be a share"),
        (lambda x: fit_langsae(x, steps=0), "steps is 0"),
        (lambda x: fit_langsae(x, keep_error=1), "keep_error is 1"),
        (lambda x: fit_linear_map({"de": (*without_second(first(x, 9)).values(),)}), "moments do not suffice"),
        (lambda x: linear_maps({}, "en", {}), "give square ones of one width"),
        (lambda x: linear_maps({"de": np.eye(3), "fr": np.eye(2)}, "en", {}), "give square ones of one width"),
        (lambda x: fit_identifier({code: rows[:1] for code, rows in x.items()}), "do not vary within a language"),
        (lambda x: fit_identifier(x, threshold=0.0), "threshold is 0.0; it must be a number above 0"),
    ],
)
def test_fits(x, unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call(x)


@pytest.mark.parametrize("fit", [fit_shift, fit_linear_map])
@pytest.mark.parametrize(
    ("sides", "target", "message"),
    [
        (lambda a, b: [a, b], "en", "a language is "),
        (lambda a, b: {"eng": (a, b)}, "en", "'en' is the target itself; give pairs of the other languages"),
        (lambda a, b: {"de": a}, "en", r"de: expected \(embeddings in de, embeddings in en\)"),
        (lambda a, b: {"de": (a, b)}, "en", "de: .*30.*40"),
        (lambda a, b: {"de": (a, a * np.nan)}, "en", "de: the embeddings hold NaN, infinity .*, first in row 0"),
        (lambda a, b: {"de": (a, a)}, "klingon", "'klingon' is not a language code"),
    ],
)
def test_pairs(x, unchecked, fit, sides, target, message):
    with pytest.raises(ValueError, match=message):
        fit(sides(x["de"], x["fr"]), target)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("joint", {"components": 35}, "components is 35; it must be a whole number from 1 to 34 .the dimensions"),
        ("langsae", {"active": 321}, "active is 321; it must be a whole number from 1 to 320"),
        ("langsae", {"active": 81, "width": 2}, "active is 81; it must be a whole number from 1 to 80"),
        ("langsae", {"threshold": 1.5}, "threshold is 1.5; it must be a share, above 0 and at most 1"),
    ],
)
def test_options_are_checked_before_any_text_is_encoded(x, name, options, message):
    """As the fit would, with the languages and the width alone."""
    METHODS["lir"].check({"components": 40}, x, 40)
    METHODS["langsae"].check({"active": 320, "threshold": 1}, x, 40)
    with pytest.raises(ValueError, match=message):
        METHODS[name].check(options, x, 40)
    with pytest.raises(ValueError, match=next(iter(options))):
        METHODS[name](x, **options)


def test_without_optax(x, monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ImportError, match=r"LangSAE needs optax: pip install 'lsar_jax\[train\]'"):
        fit_langsae(x, 1, 3, steps=1)
