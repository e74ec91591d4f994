"""Transforms in scikit-learn: its own checks of estimators, pipelines, and the languages of rows."""

import numpy as np
import pandas
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import lsar_jax as lj
from lsar_jax.transforms.scikit_learn import LanguageRemover

CODES = np.tile(["de", "en", "fr"], 40)
TOPIC = np.repeat([0, 1], 60)


class Alternating(LanguageRemover):
    """As scikit-learn's checks know no languages, each second row is German; they also set options of wrong types."""

    def __init__(self, method="lsar", options=None):
        self.method = method
        self.options = options

    def fit(self, X, y=None, language=None):
        rows = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
        return super().fit(X, y, [("de", "en")[row % 2] for row in range(rows)])


@pytest.fixture
def x(rng):
    place = {code: 4 * rng.normal(size=8) for code in ("de", "en", "fr")}
    return rng.normal(size=(120, 8)) + 3 * TOPIC[:, None] * np.eye(8)[0] + np.stack([place[code] for code in CODES])


def test_checks_of_scikit_learn():
    why = {"check_fit2d_1sample": "says that there is one language, where it looks for words on samples"}
    results = check_estimator(Alternating(), expected_failed_checks=why, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(why)
    assert sum(result["status"] == "passed" for result in results) > 40


def test_it_fits_what_the_library_fits(x):
    remover = LanguageRemover("lir", {"components": 2})
    moved = remover.fit_transform(x, language=CODES)
    lir = lj.transforms.fit_lir({code: x[code == CODES] for code in ("de", "en", "fr")}, 2)
    assert remover.transform_.digests == lir.digests
    np.testing.assert_array_equal(moved.astype(np.float32), lir(x, CODES.tolist()))
    assert moved.dtype == x.dtype
    assert remover.transform(x.astype(np.float32), "de").dtype == np.float32


def test_what_is_wrong_is_said(x):
    for method, language, message in (
        ("lsar", None, "language is None; give the code of each of the 120 rows: fit"),
        ("lsar", "de", "language is 'de'; give the code"),
        ("lsar", CODES[:5], "language is array.*; give the code of each of the 120 rows"),
        ("pca", CODES, "method 'pca' is not one of center, mean, lir, lsar"),
    ):
        with pytest.raises(ValueError, match=message):
            LanguageRemover(method).fit(x, language=language)


def test_steps_of_a_pipeline_are_set_and_cloned(x):
    steps = make_pipeline(LanguageRemover("mean"), LogisticRegression())
    fitted = sklearn.clone(steps).set_params(languageremover__method="lsar", languageremover__options={"rank": 1})
    fitted.fit(x, TOPIC, languageremover__language=CODES)
    lsar = fitted[0].transform_
    assert lsar.name == "lsar(rank=1)"
    # A transform that is fitted is a step as it is.
    step = make_pipeline(FunctionTransformer(lsar), LogisticRegression())
    np.testing.assert_array_equal(sklearn.clone(step).fit(x, TOPIC).predict(x), fitted.predict(x))


def test_tables_go_in_and_come_out(x):
    table = pandas.DataFrame(x, [f"row {n}" for n in range(len(x))], [f"d{n}" for n in range(8)])
    fitted = LanguageRemover().fit(table, language=pandas.Series(CODES)).transform_
    step = FunctionTransformer(fitted, feature_names_out="one-to-one")
    for remover, options in ((LanguageRemover(), {"language": pandas.Series(CODES)}), (step, {})):
        moved = remover.set_output(transform="pandas").fit_transform(table, **options)
        np.testing.assert_allclose(moved, fitted(x), atol=1e-5)
        assert list(moved.index) == list(table.index)
        assert list(remover.get_feature_names_out()) == list(moved.columns) == list(table.columns)
    nullable = table.astype("Float64")
    np.testing.assert_array_equal(fitted(nullable), fitted(table))
    nullable.iloc[3, 1] = pandas.NA
    with pytest.raises(ValueError, match="1 of 120 rows holds NaN or infinity, the first is row 3"):
        fitted(nullable)


def test_a_method_that_needs_the_language_takes_the_routing(x):
    remover = LanguageRemover("center")
    with pytest.raises(ValueError, match=r"center\(\) depends on the language; give one of de, en, fr"):
        remover.fit(x, language=CODES).transform(x)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = remover.set_fit_request(language=True).set_transform_request(language=True)
        scores = cross_val_score(make_pipeline(routed, LogisticRegression()), x, TOPIC, params={"language": CODES})
    assert scores.mean() > 0.85
