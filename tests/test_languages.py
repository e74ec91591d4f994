"""Every code of a language is an alias of one."""

import pytest

from lsar_jax.languages import canonical_keys, language_code, own_name


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("de", "de"), ("deu", "de"), ("ger", "de"), ("deu_1996", "de"), ("deu_Latn", "de"), ("de-AT", "de"),
        ("zh", "zh"), ("cmn", "zh"), ("cmn_hans", "zh"), ("zho_Hans", "zh"), ("zh-Hant", "zh-Hant"),
        ("zh_TW", "zh-Hant"),
        ("zh-CN", "zh"), ("yue", "yue"),
        ("arb", "ar"), ("pes", "fa"), ("swh", "sw"), ("ekk", "et"), ("por_PT", "pt"), ("iw", "he"),
        ("tgl", "tl"), ("fil", "tl"), ("sr-Latn", "sr-Latn"), ("sr_Cyrl", "sr"), ("X-Web", "x-web"), (" EN ", "en"),
    ],
)  # fmt: skip
def test_aliases(code, expected):
    assert language_code(code) == expected
    assert language_code(expected) == expected


@pytest.mark.parametrize("code", ["", "german", "xx", "de_", "und", "123", "zz"])
def test_what_is_no_language(code):
    with pytest.raises(ValueError, match="language"):
        language_code(code)


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
