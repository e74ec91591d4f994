"""Code-switching: find the translation of a sentence of which some words are already English.

    python -m eval code-switch --data data/tatoeba --dictionaries data/dictionaries

After the appendix of ORACLE: words of a language's sentences are replaced by an English translation from a bilingual
dictionary, their English sentences are searched, and the other way. The paper does not say how many words are
replaced. Here each word that the dictionary knows is replaced with a probability of 0.3, by any of its translations
with the same probability, and sentences without a replacement are left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval.data.dictionaries import read_dictionary
from eval.data.tatoeba import XTREME_36, read_pairs
from eval.tasks.translations import TranslatedTexts, TranslationTask
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code
from train.console import console

__all__ = ["CodeSwitch", "switch"]


@dataclass(frozen=True)
class CodeSwitch(TranslationTask):
    """Retrieval of translations on Tatoeba with English words in the other language's sentences.

    Attributes:
      data: the folder of tatoeba.xxx-eng.xxx files; or hub:ID or tfds:NAME with {} for the language.
      dictionaries: the folder of de-en.txt and others, a word and a translation a line.
      languages: codes; by default those of the paper that LASER's Tatoeba and the dictionaries have, which
        is all but Romanian.
      rate: the probability that a word with a translation is replaced.
      switch_seed: of the replacements.
    """

    name = "code-switch"

    out: Path = Path("results/code-switch")
    data: Data = Path("data/tatoeba")
    dictionaries: Path = Path("data/dictionaries")
    languages: tuple[str, ...] = ()
    rate: float = 0.3
    switch_seed: int = 0

    @property
    def title(self) -> str:
        """What tables and figures are called."""
        return f"Code-switched Tatoeba, rate {self.rate}"

    def read(self) -> TranslatedTexts:
        """Reads the pairs of each language, and replaces words by English ones."""
        if not 0 < self.rate <= 1:
            raise ValueError(f"--rate is {self.rate}; it must be over 0 and at most 1")
        paper = ("ar", "de", "es", "fr", "it", "nl", "pt", "ro")
        codes = [language_code(code) for code in self.languages] or [
            code for code in paper if code in XTREME_36 and (self.dictionaries / f"{code}-en.txt").is_file()
        ]
        # With none, the error of the first says where to get it.
        dictionaries = {code: read_dictionary(self.dictionaries, code) for code in codes or paper[:1]}
        result = {}
        for code, (english, other) in read_pairs(self.data, codes, self.split).items():
            # Of its own seed, so that a language's sentences do not depend on the others asked for.
            rng = np.random.default_rng([self.switch_seed, *code.encode()])
            switched = [switch(text, dictionaries[code], self.rate, rng) for text in other]
            kept = [i for i, (_, count) in enumerate(switched) if count]
            if not kept:
                raise ValueError(f"no sentence of {code} has a word of its dictionary replaced")
            result[code] = ([english[i] for i in kept], [switched[i][0] for i in kept])
            words = sum(count for _, count in switched)
            console.print(f"{code}: {len(kept)} of {len(other)} sentences have {words} English words")
        return result


def switch(
    sentence: str, dictionary: Mapping[str, Sequence[str]], rate: float, rng: np.random.Generator
) -> tuple[str, int]:
    """Returns a sentence with some words replaced by a translation, and how many.

    Args:
      sentence: any text; words are runs of letters, apostrophes inside them included.
      dictionary: word in lower case -> translations.
      rate: the probability that a word of the dictionary is replaced.
      rng: a draw for each such word, and one more for each replaced.
    """
    count = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal count
        translations = dictionary.get(match[0].casefold(), ())
        if not translations or rng.random() >= rate:
            return match[0]
        count += 1
        return translations[int(rng.integers(len(translations)))]

    return re.sub(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*", replaced, sentence), count
