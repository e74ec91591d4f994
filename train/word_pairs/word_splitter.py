"""Splits sentences into words as they are written: by Moses' rules, Chinese, Japanese and Thai by their own tools."""

from collections.abc import Callable
from functools import cache
from typing import Any

from lsar_jax.extras import import_extra
from lsar_jax.languages import language_code, spaces_words

__all__ = ["word_splitter"]

Split = Callable[[str], list[str]]

# What separates the words of an aligned file.
SEPARATOR = "|||"


def word_splitter(language: str) -> Split:
    """Returns a function that splits a sentence of a language into words."""
    code = language_code(language).partition("-")[0]
    if code not in _SPLITTERS and not spaces_words(code):
        raise ValueError(
            f"{code} is written without spaces between words; split its words with a tool of your own, and write them "
            f"as lines of 'English words {SEPARATOR} other words'"
        )
    split = _SPLITTERS[code]() if code in _SPLITTERS else _moses(code)
    # The separator of files of word pairs cannot be a word.
    return lambda sentence: [word for word in " ".join(split(sentence)).split() if word != SEPARATOR]


@cache
def _moses(code: str) -> Split:
    moses = _tool("sacremoses").MosesTokenizer(code)
    return lambda sentence: moses.tokenize(sentence, escape=False)


@cache
def _japanese() -> Split:
    mecab, ipadic = _tool("MeCab", "mecab-python3"), _tool("ipadic")
    tagger = mecab.Tagger(f"{ipadic.MECAB_ARGS} -Owakati")
    return lambda sentence: tagger.parse(sentence).split()


def _tool(module: str, package: str = "") -> Any:
    return import_extra(module, "align", "splitting text into words", package)


_SPLITTERS: dict[str, Callable[[], Split]] = {
    "zh": lambda: _tool("rjieba").cut,
    "ja": _japanese,
    "th": lambda: _tool("pythainlp.tokenize", "pythainlp").word_tokenize,
}
