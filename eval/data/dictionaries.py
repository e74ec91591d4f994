"""Bilingual dictionaries of single words, in MUSE's format.

``de-en.txt`` has a word and one translation per line, as published by Conneau et al., "Word translation without
parallel data", ICLR 2018 (github.com/facebookresearch/MUSE).
"""

from pathlib import Path

from lsar_jax import corpora
from lsar_jax.corpora.by_language import named_files
from lsar_jax.corpora.text_rules import folded, separated

__all__ = ["read_dictionary"]

_SOURCE = "get it from github.com/facebookresearch/MUSE"


def read_dictionary(folder: Path, code: str) -> dict[str, list[str]]:
    """Reads the English translations of each word of a language, ``folded``, from ``{code}-en.txt``."""
    path = named_files(folder, [r"(.*)-en\.txt"], [code], "dictionary {}-en.txt", _SOURCE)[code]
    words: dict[str, list[str]] = {}
    for number, line in enumerate(corpora.lines(path), 1):
        # MUSE separates the two by a space or a tab; a translation of several words must follow a tab.
        parts = line.split("\t") if "\t" in line else separated(line)
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise ValueError(f"{path}, line {number} is not a word and its translation: {line!r:.60}")
        word, translation = (folded(part.strip()) for part in parts)
        if translation not in (known := words.setdefault(word, [])):
            known.append(translation)
    return words
