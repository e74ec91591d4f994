"""Code-switching: find the translation of a sentence in which some words are already English.

    python -m eval code-switch --data data/tatoeba --dictionaries data/dictionaries

As in the appendix of the ORACLE paper, words of a language's sentences are replaced by English translations from a
bilingual dictionary, and retrieval is tested in both directions. The paper does not say how many words are replaced.
Here, each word that the dictionary has is replaced with probability 0.3 by one of its translations, chosen uniformly,
and sentences without a replacement are dropped.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval.data.dictionaries import read_dictionary
from eval.data.tatoeba import ORACLE_8, XTREME_36, files_of, read_pairs
from eval.tasks.translations import TranslatedTexts, TranslationTask
from lsar_jax.cli.console import console
from lsar_jax.corpora.tables import Data, named_tables
from lsar_jax.languages import language_code

__all__ = ["CodeSwitch", "switch"]


@dataclass(frozen=True)
class CodeSwitch(TranslationTask):
    """Retrieval of translations on Tatoeba with English words in the other language's sentences.

    Attributes:
      data: folder of tatoeba.xxx-eng.xxx files; hub:ID; or tfds:NAME with {} for the language.
      dictionaries: folder of the dictionaries de-en.txt and so on, with a word and its translation per line.
      languages: language codes; by default, the paper's languages that have a dictionary and are in the data. Romanian
        is not among XTREME's 36 languages, but LASER's Tatoeba has it. Of a named dataset (hub: or tfds:), whose
        languages are not known before it is read, Romanian is only read if it is given here.
      rate: probability of replacing a word that has a translation.
      switch_seed: seed of the replacements.
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
        """The title of tables and figures."""
        return f"Code-switched Tatoeba, rate {self.rate}"

    def read(self) -> TranslatedTexts:
        """Reads the pairs of each language, and replaces some words by English ones."""
        if not 0 < self.rate <= 1:
            raise ValueError(f"--rate is {self.rate}; it must be above 0 and at most 1")
        codes = [language_code(code) for code in self.languages] or self._available()
        # Without any dictionaries, try the first language: its error says where to get them.
        dictionaries = {code: read_dictionary(self.dictionaries, code) for code in codes or ORACLE_8[:1]}
        result = {}
        for code, (english, other) in read_pairs(self.data, codes, self.split).items():
            # Seeded by the language, so that its sentences do not depend on the other languages.
            rng = np.random.default_rng([self.switch_seed, *code.encode()])
            switched = [switch(text, dictionaries[code], self.rate, rng) for text in other]
            kept = [i for i, (_, count) in enumerate(switched) if count]
            if not kept:
                raise ValueError(f"no word was replaced in any sentence of {code}; raise --rate, or omit the language")
            result[code] = ([english[i] for i in kept], [switched[i][0] for i in kept])
            words = sum(count for _, count in switched)
            console.print(f"{code}: replaced {words} words in {len(kept)} of {len(other)} sentences")
        return result

    def _available(self) -> list[str]:
        """Returns the paper's languages that have a dictionary and are in the data; says which lack only pairs."""
        codes = [code for code in ORACLE_8 if (self.dictionaries / f"{code}-en.txt").is_file()]
        if named_tables(self.data) is not None:
            # See languages: few datasets have Romanian.
            return [code for code in codes if code in XTREME_36]
        if not Path(self.data).is_dir():
            return codes
        known = {language_code(name) for name in files_of(Path(self.data))}
        if absent := [code for code in codes if code not in known]:
            console.print(f"{self.data} has no pairs of {', '.join(absent)}: left out, although there is a dictionary")
        if absent and len(absent) == len(codes):
            raise FileNotFoundError(f"{self.data} has pairs of {', '.join(sorted(known))}, but dictionaries of others")
        return [code for code in codes if code in known]


def switch(
    sentence: str, dictionary: Mapping[str, Sequence[str]], rate: float, rng: np.random.Generator
) -> tuple[str, int]:
    """Replaces some words of a sentence by translations; returns the new sentence and the number of replacements.

    Args:
      sentence: any text; words are runs of letters, including apostrophes inside them.
      dictionary: lower-case word -> translations.
      rate: probability of replacing a word that is in the dictionary.
      rng: source of randomness, with one draw per word in the dictionary, and one more per replacement.
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
