"""Tatoeba: find each sentence's translation among a language's sentences, in both directions.

    python -m eval tatoeba --data data/tatoeba
    python -m eval tatoeba --data hub:mteb/tatoeba-bitext-mining
    python -m eval tatoeba --fit-on evaluated --transforms original center lsar whitening sample-whitening cbie
    python -m eval tatoeba --transforms original largest zero --zero 15 15,297
    python -m eval tatoeba --transforms original linear shift --parallel data/sentences

The protocol is that of XTREME (Hu et al., ICML 2020) and Xie et al. 2022: 36 languages of LASER's Tatoeba v1, up to
1,000 pairs each, and the accuracy of the nearest neighbour by cosine, averaged over languages. The papers report
English queries, ``en-xx``. Transforms are fitted

- on the Universal Declaration of Human Rights (all 50 paragraphs in English and in each tested language that has it)
  or on a folder of text; methods are compared over those languages;
- or, with ``--fit-on evaluated``, on the evaluated sentences: whitening and CBIE on each file separately, as in
  Hämmerl et al. 2023, but with 1e-8 added to the eigenvalues (the paper adds 1e-5); ``sample-whitening`` is the
  whitening of their code, which adds 1e-5. The other methods are fitted on all languages together, with the 36 English
  sides pooled as one language (Xie et al. fit on other text, 10,000 lines of OSCAR per language).

``eval.data.tatoeba`` documents the files and where to get them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval.data.tatoeba import ORACLE_14, XTREME_36, read_pairs
from eval.methods import Method
from eval.task import Embedded
from eval.tasks.translations import TranslatedTexts, TranslationTask
from lsar_jax import EncoderSpec
from lsar_jax.corpora.tables import Data

__all__ = ["Tatoeba"]


@dataclass(frozen=True)
class Tatoeba(TranslationTask):
    """Retrieval of translations on LASER's Tatoeba v1.

    Attributes:
      data: folder of tatoeba.xxx-eng.xxx files; hub:ID; or tfds:NAME with {} for the language.
      languages: language codes; by default, the 36 of XTREME.
      fit_on: text to fit transforms on: udhr, for the Universal Declaration of Human Rights; evaluated, for the
        evaluated sentences; a folder with one text file per language; tfds:NAME/{}; or hub:ID.
    """

    name = "tatoeba"
    fits_evaluated = True

    out: Path = Path("results/tatoeba")
    data: Data = Path("data/tatoeba")
    languages: tuple[str, ...] = XTREME_36

    @property
    def title(self) -> str:
        """The title of tables and figures."""
        return "Tatoeba"

    def read(self) -> TranslatedTexts:
        """Reads the pairs of each language."""
        return read_pairs(self.data, self.languages, self.split)

    def groups(self) -> dict[str, Sequence[str]]:
        """Returns ORACLE's two sets of languages, if all of XTREME's are tested; the larger set lacks Indonesian."""
        if not set(self.languages) >= set(XTREME_36):
            return {}
        return {"of ORACLE's 14": ORACLE_14, "without id": [code for code in XTREME_36 if code != "id"]}

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on; empty if transforms are fitted on the evaluated sentences."""
        if self.fit_on != "evaluated":
            return super().fit_texts()
        _ = self.further_codes(self.pairs)
        if self.seen:
            raise ValueError("--seen cannot be combined with --fit-on evaluated; omit one of them")
        return {}

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on the fitting text, or on the evaluated sentences."""
        if self.fit_on != "evaluated":
            return super().methods(x, spec)
        codes = self.fitted_codes
        fit = {code: x["xx", code] for code in codes}
        fit["en"] = np.concatenate([x["en", code] for code in codes])
        return self.fit_evaluated(x, fit, spec)
