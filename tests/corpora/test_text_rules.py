"""Marks belong to their letters in every script; aligners separate at ASCII spaces; no character is cut."""

import pytest

from lsar_jax.corpora.parallel_text import distinct
from lsar_jax.corpora.text_rules import separated, shortened, text_key

# Two words that differ in one mark: a vowel, a tone, an accent.
MARKED = (
    "की का", "কি কা", "กี กา", "ไม้ ไม่", "ကိ ကာ", "தி தா", "ma\u0301 ma\u0300", "ọ̀ ọ́", "שָׁ שִׁ", "كَ كُ", "か\u3099 か",
    "កិ កី", "ກີ ກິ", "ཀི ཀུ", "\ua98f\ua9b6 \ua98f\ua9b8", "ކަ ކާ",
)  # fmt: skip


@pytest.mark.parametrize("words", MARKED)
def test_texts_that_differ_in_a_mark_are_no_copies(words):
    one, other = words.split()
    assert text_key(one) != text_key(other)
    pairs = [("a b", one), ("c d", other), ("e f", f"{one}, 3!")]
    assert distinct(pairs) == pairs[:2]


@pytest.mark.parametrize(
    "same",
    [
        "Ma\u0301! \u00b7 ma\u0301 1 M\u00c1", "क\u093c \u0958 क\u093c?",
        "ab a\u00adb \u200eab a\u034fb a\u17b4b \ufeffab",
        "Α\u0345\u0301 α\u0301\u0345", "\u2764\ufe0fa a",
    ],
)  # fmt: skip
def test_copies(same):
    assert len({text_key(text) for text in same.split() if text_key(text)}) == 1


def test_what_separates_words():
    words = ["10\u00a0000", "a\u3000b\u0085c\x1fd", "\u2009e", "\u202f"]
    assert separated(f" {words[0]}\t {' '.join(words[1:])}\t") == words


@pytest.mark.parametrize("character", ["🇩🇪", "👨‍👩‍👧", "👍🏽", "क्षि", "กำ", "e\u0301", "각", "x"])
def test_no_character_is_cut(character):
    for before in range(len(character)):
        text = "y" * before + character * 40
        shown = shortened(text, 30)
        assert shown.endswith("…")
        assert 30 - len(character) < len(shown) <= 30
        assert (len(shown) - 1 - before) % len(character) == 0
        assert text.startswith(shown[:-1])
        assert shortened(text, len(text)) == text
