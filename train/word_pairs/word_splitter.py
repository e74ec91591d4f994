"""Splits sentences into words as they are written: by Moses' rules, Chinese, Japanese and Thai by their own tools."""

from collections.abc import Callable
from functools import cache, partial

import regex

from lsar_jax.extras import import_extra
from lsar_jax.languages import language_code, spaces_words

__all__ = ["word_splitter"]

Split = Callable[[str], list[str]]

# What separates the words of an aligned file.
SEPARATOR = "|||"
# A joiner, or a mark that is no letter by itself, after a letter or another mark.
_ACCENT = r"(?<=[\p{L}\p{M}\p{Join_Control}])(?!\p{Alphabetic})[\p{M}\p{Join_Control}]"
_tool = partial(import_extra, extra="align", what="splitting text into words")


def word_splitter(language: str) -> Split:
    """Returns a function that splits a sentence of a language into words."""
    code = language_code(language).partition("-")[0]
    spaced = spaces_words(language)
    if not spaced and code not in _SPLITTERS:
        raise ValueError(
            f"{code} is written without spaces between words; split its words with a tool of your own, and write them "
            f"as lines of 'English words {SEPARATOR} other words'"
        )
    split = _moses(code) if spaced else _SPLITTERS[code]()
    # No word has white space of any kind, so that every aligner counts the same words, nor is one the separator.
    return lambda sentence: [word for word in " ".join(split(sentence)).split() if word != SEPARATOR]


@cache
def _moses(code: str) -> Split:
    moses = _tool("sacremoses").MosesTokenizer(code)

    def split(sentence: str) -> list[str]:
        # Moses separates joiners and most accents from their letters; it sees letters in their place.
        text = regex.sub(_ACCENT, lambda of: f"MARK{ord(of[0]):x}Q", sentence)
        words = moses.tokenize(text, escape=False)
        return [regex.sub("MARK([0-9a-f]{3,5})Q", lambda of: chr(int(of[1], 16)), word) for word in words]

    return split


@cache
def _japanese() -> Split:
    mecab, ipadic = _tool("MeCab", package="mecab-python3"), _tool("ipadic")
    tagger = mecab.Tagger(f"{ipadic.MECAB_ARGS} -Owakati")
    return lambda sentence: tagger.parse(sentence).split()


_SPLITTERS: dict[str, Callable[[], Split]] = {
    "zh": lambda: _tool("rjieba").cut,
    "ja": _japanese,
    "th": lambda: _tool("pythainlp.tokenize", package="pythainlp").word_tokenize,
}
