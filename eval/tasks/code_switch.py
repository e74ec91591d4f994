"""Code-switching: find the translation of a sentence in which some words are already English.

    python -m eval code-switch --data data/tatoeba --dictionaries data/dictionaries

As in the appendix of the ORACLE paper, words of a language's sentences are replaced by English translations from a
bilingual dictionary, and retrieval is tested in both directions. The paper does not say how many words are replaced.
Here, each word that the dictionary has is replaced with probability 0.3 by one of its translations, chosen uniformly,
and sentences without a replacement are dropped.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import regex

from eval.command import command
from eval.data.dictionaries import read_dictionary
from eval.data.tatoeba import ORACLE_8, XTREME_36, files_of, read_pairs
from eval.scores.translations import translations
from eval.task import Task
from lsar_jax.console.output import console
from lsar_jax.corpora.tables import Data, named_tables
from lsar_jax.corpora.text_rules import WORD, folded
from lsar_jax.languages import language_code

__all__ = ["COMMAND", "code_switch", "switch"]

# Probability of replacing a word that has a translation.
_RATE = 0.3


def code_switch(
    data: Data = Path("data/tatoeba"), dictionaries: Path = Path("data/dictionaries"), languages: tuple[str, ...] = ()
) -> Task:
    """Retrieval of translations on Tatoeba with English words in the other language's sentences.

    Args:
      data: folder of tatoeba.xxx-eng.xxx files; hub:ID; or tfds:NAME with {} for the language.
      dictionaries: folder of the dictionaries de-en.txt and so on, with a word and its translation per line.
      languages: language codes; by default, the paper's languages that have a dictionary and are in the data. Of a
        named dataset (hub: or tfds:), Romanian, which is not among XTREME's 36, is only read if it is given here.
    """
    codes = [language_code(code) for code in languages] or _available(data, dictionaries)
    # Without any dictionaries, try the first language: its error says where to get them.
    words = {code: read_dictionary(dictionaries, code) for code in codes or ORACLE_8[:1]}
    result = {}
    for code, (english, other) in read_pairs(data, codes).items():
        # Seeded by the language, so that its sentences do not depend on the other languages.
        rng = np.random.default_rng([0, *code.encode()])
        switched = [switch(text, words[code], _RATE, rng) for text in other]
        rows = [i for i, (_, count) in enumerate(switched) if count]
        if not rows:
            raise ValueError(f"no word was replaced in any sentence of {code}; omit the language")
        result[code] = ([english[i] for i in rows], [switched[i][0] for i in rows])
        replaced = sum(count for _, count in switched)
        console.print(f"{code}: replaced {replaced} words in {len(rows)} of {len(other)} sentences")
    return translations("code-switch", f"Code-switched Tatoeba, rate {_RATE}", result)


def _available(data: Data, dictionaries: Path) -> list[str]:
    """The paper's languages that have a dictionary and are in the data; says which lack only pairs."""
    codes = [code for code in ORACLE_8 if (dictionaries / f"{code}-en.txt").is_file()]
    if named_tables(data) is not None:
        # See languages: few datasets have Romanian.
        return [code for code in codes if code in XTREME_36]
    known = {language_code(name) for name in files_of(Path(data))} if Path(data).is_dir() else set(codes)
    if absent := [code for code in codes if code not in known]:
        console.print(f"{data} has no pairs of {', '.join(absent)}: left out, although there is a dictionary")
    # Without any, the first is read: its error says which there are.
    return [code for code in codes if code in known] or codes[:1]


def switch(
    sentence: str, dictionary: Mapping[str, Sequence[str]], rate: float, rng: np.random.Generator
) -> tuple[str, int]:
    """Replaces words by translations; returns the new sentence and the number of replacements.

    Words are runs of letters with their marks, and apostrophes inside; the dictionary's are ``folded``. There is one
    draw per word that is in it, and one more per replacement.
    """
    count = 0

    def replaced(match: Any) -> str:
        nonlocal count
        translations = dictionary.get(folded(match[0]), ())
        if not translations or rng.random() >= rate:
            return match[0]
        count += 1
        return translations[int(rng.integers(len(translations)))]

    return regex.sub(rf"{WORD}(?:['\u2019]{WORD})*", replaced, sentence), count


COMMAND = command(code_switch)
