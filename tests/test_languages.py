"""Every code of a language is an alias of one."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pytest

import lsar_jax as lj
from lsar_jax.languages import canonical_keys, language_code, own_name
from lsar_jax.transforms.scikit_learn import LanguageRemover


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("de", "de"), ("deu", "de"), ("ger", "de"), ("deu_1996", "de"), ("deu_Latn", "de"), ("de-AT", "de"),
        ("zh", "zh"), ("cmn", "zh"), ("cmn_hans", "zh"), ("zho_Hans", "zh"), ("zh-Hant", "zh-Hant"),
        ("zh_TW", "zh-Hant"),
        ("zh-CN", "zh"), ("yue", "yue"),
        ("arb", "ar"), ("pes", "fa"), ("swh", "sw"), ("ekk", "et"), ("por_PT", "pt"), ("iw", "he"),
        ("nor", "no"), ("nob", "no"), ("nno", "nn"), ("kor_Hang", "ko"), ("prs", "prs"), ("twi", "tw"),
        ("acm_Arab", "acm"), ("tgl", "tl"), ("fil", "tl"), ("sr-Latn", "sr-Latn"), ("sr_Cyrl", "sr"),
        ("X-Web", "x-web"), (" EN ", "en"),
        # Names of Wikipedias, which XLM has with an underscore.
        ("als", "sq"), ("bat-smg", "sgs"), ("be-tarask", "be"), ("be-x-old", "be"), ("bh", "bho"), ("cbk-zam", "cbk"),
        ("eml", "egl"), ("fiu-vro", "vro"), ("map-bms", "jv"), ("mo", "ro"), ("nds-nl", "nds"), ("roa-rup", "rup"),
        ("roa-tara", "nap"), ("sh", "sr-Latn"), ("simple", "en"), ("sr-ec", "sr"), ("sr-el", "sr-Latn"),
        ("zh-classical", "lzh"), ("zh-min-nan", "nan"), ("zh-yue", "yue"),
    ],
)  # fmt: skip
def test_aliases(code, expected):
    assert language_code(code) == language_code(code.replace("-", "_").upper()) == expected
    assert language_code(expected) == expected


def test_flores():
    nllb = pytest.importorskip("transformers.models.nllb.tokenization_nllb").FAIRSEQ_LANGUAGE_CODES
    names = {*nllb, "arb_Latn", "min_Arab", "sat_Olck"}
    codes = {name: language_code(name) for name in names}
    assert len(set(codes.values())) == len(names) == 205
    # Only these are not written in the usual script of their language.
    assert {name for name in names if codes[name] != language_code(name[:3])} == {
        "ace_Arab", "arb_Latn", "bjn_Arab", "crh_Latn", "kas_Deva", "knc_Arab", "min_Arab", "sat_Beng", "taq_Tfng",
        "tzm_Tfng", "zho_Hant",
    }  # fmt: skip
    assert all(language_code(code) == code for code in codes.values())


@pytest.mark.parametrize(
    ("code", "why"),
    [
        *((code, "is not a language code; use BCP 47") for code in
          ("", "german", "xx", "de_", "123", "zz", "en-deu", "de_cmn", "map-bmt")),
        *((code, "is a family of languages; name one") for code in ("fiu", "roa", "BAT", "map_Latn", "art", "nai-US")),
        *((code, "does not name a language; use x-NAME") for code in ("mul", "mis", "zxx", "und", "und-Latn")),
    ],
)  # fmt: skip
def test_what_is_no_language(code, why):
    with pytest.raises(ValueError, match=f"'{code}' {why}"):
        language_code(code)


def test_families_that_corpora_take_for_languages():
    # Tatoeba's Berber and Wikipedia's Nahuatl; UD has qtd, for text in Turkish and German.
    assert [language_code(code) for code in ("ber", "nah", "qtd", "art-x-name")] == ["ber", "nah", "qtd", "art-x-name"]


@pytest.mark.parametrize("key", [math.nan, np.float64("nan"), None, 3, True, b"de", ("de",), Path("nan")], ids=repr)
def test_languages_are_strings(key):
    x = np.ones((2, 2), np.float32)
    for use in (
        lambda: language_code(key),
        lambda: own_name(key, ["nan", "de"], "FLORES"),
        lambda: canonical_keys({"en": 1, key: 2}),
        lambda: lj.transforms.fit_center({"en": x, key: x}),
    ):
        with pytest.raises(ValueError, match="is not a string such as 'de'"):
            use()


@pytest.mark.parametrize("missing", [math.nan, None, pandas.NA], ids=repr)
@pytest.mark.parametrize("form", [list, partial(np.array, dtype=object), pandas.Series, pandas.Categorical])
def test_rows_without_a_language_are_named(missing, form, tiny, unchecked):
    codes, x = form(["de", "en"] * 3 + [missing, "de"]), np.random.default_rng(0).normal(size=(8, 4))
    center = lj.transforms.fit_center({"de": x[:2], "en": x[2:]})
    for use in (
        lambda: LanguageRemover().fit(x, language=codes),
        lambda: center(x, codes),
        lambda: tiny.encode(["a"] * 8, language=codes),
        lambda: tiny.moments(["a"] * 8, language=codes),
    ):
        with pytest.raises(ValueError, match="row 6: a language is (nan|None|<NA>), which is not a string .*missing"):
            use()


@pytest.mark.parametrize(
    "form", [np.array, pandas.Series, pandas.Categorical, pyarrow.array, lambda codes: pyarrow.chunked_array([codes])]
)
def test_rows_have_languages_in_any_form_and_under_any_code(form, tiny, unchecked):
    codes, x = ["de", "eng", "deu", "en"] * 2, np.random.default_rng(0).normal(size=(8, tiny.dim))
    center = LanguageRemover("center").fit(x, language=form(codes)).transform_
    assert center.fits[0].fitted_on == (("de", 4), ("en", 4))
    np.testing.assert_array_equal(center(x, form(codes)), center(x, ["de", "en"] * 4))
    with pytest.raises(ValueError, match="row 3: 'german' is not a language code"):
        center(x, form(["de", "en", "de", "german"] * 2))
    encoder = tiny.with_transform(lj.transforms.fit_center({"de": x[:4], "en": x[4:]}))
    moved = (encoder.encode(["a", "b"], language=languages) for languages in (form(["de", "en"]), ["de", "en"]))
    np.testing.assert_array_equal(*moved)


def test_keys_are_sorted_and_unique():
    assert list(canonical_keys({"zho": 1, "deu": 2, "en": 3})) == ["de", "en", "zh"]
    with pytest.raises(ValueError, match="'pt-BR' and 'por' are the same language, 'pt'"):
        canonical_keys({"pt-BR": 1, "por": 2})


def test_a_name_of_ones_own():
    # XLM has a row for als, which is Albanian (sq) to langcodes, beside that of sq.
    names = ["als", "sq", "zh_classical", "zh"]
    codes = {"als": "als", "sq": "sq", "sqi": "sq", "alb": "sq", "cmn": "zh", "zh_classical": "zh_classical"}
    assert {code: own_name(code, names, "XLM") for code in codes} == codes
    with pytest.raises(ValueError, match="language 'sqi' matches als and alb in XLM; name one of them"):
        own_name("sqi", ["als", "alb"], "XLM")
    with pytest.raises(ValueError, match="language 'de' is not in XLM; known languages are als, sq"):
        own_name("de", ["als", "sq"], "XLM")
