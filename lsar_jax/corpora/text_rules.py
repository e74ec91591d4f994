"""Rules of text for all scripts: words, copies of a sentence, what separators separate, and where to cut."""

import re
from itertools import takewhile
from unicodedata import normalize

import regex

__all__ = ["WORD", "folded", "separated", "shortened", "text_key"]

#: A run of letters. The marks after a letter, such as accents and vowels of Devanagari, belong to it; so do joiners.
WORD = r"(?:[\p{L}\p{Nl}][\p{M}\p{Join_Control}]*)+"


def folded(text: str) -> str:
    """Returns text in lower case, with letters and accents composed (NFC), so that equal words are equal strings."""
    return normalize("NFC", normalize("NFD", text).casefold())


def text_key(text: str) -> str:
    """Returns a key that is the same for texts that differ only in case, digits, punctuation or invisible characters.

    Combining marks count, whether composed or not.

    Example:
      >>> from lsar_jax.corpora.text_rules import text_key
      >>> text_key("Ma\u0301, 1!") == text_key("m\u00c1") != text_key("m\u00c0")
      True
    """
    return " ".join(regex.findall(WORD, regex.sub(r"[\p{Cf}\p{DI}]+", "", folded(text))))


def separated(line: str) -> list[str]:
    """Returns what ASCII spaces and tabs separate, as aligners count words; other white space is part of a word."""
    return re.findall(r"[^ \t]+", line)


def shortened(text: str, most: int) -> str:
    """Returns a line of up to ``most`` characters; longer text ends in an ellipsis, and no syllable or emoji is cut."""
    if len(text := " ".join(text.split())) <= most:
        return text
    ends = takewhile(lambda end: end < most, (grapheme.end() for grapheme in regex.finditer(r"\X", text)))
    return text[: max(ends, default=0)].rstrip() + "…"
