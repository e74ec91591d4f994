"""The options of every evaluation: which methods are compared, by which scores, and what they are fitted on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lsar_jax.corpora.tables import Data
from lsar_jax.measures.compared_methods import FEW_METHODS, MethodName

__all__ = ["EVALUATED", "FitOptions"]

EVALUATED = "evaluated"


@dataclass(frozen=True)
class FitOptions:
    """Which methods are compared, and what they are fitted on.

    Attributes:
      transforms: methods to compare.
      method: fit functions in files of your own to compare, too, as FILE.py:FUNCTION.
      ranks: ranks of LSAR, each in a row of its own; by default, one less than the number of languages it is fitted on.
      components: numbers of components that LIR removes, each in a row of its own.
      zero: dimensions that the method zero zeroes, such as 588 or 588,306, each in a row of its own.
      fit_seeds: seeds of CBIE's clustering and of LangSAE; each gives its own result, and tables show their mean.
      scores: what tasks that search rank by: cosine, or csls (local scaling) against a sample of the text to fit on.
      saved: files of transforms that were fitted on this encoder, to add to the comparison; each is tested at the layer
        that it was fitted on.
      fit_on: text to fit transforms on: udhr, the Universal Declaration of Human Rights (if it is measured too,
        the other half); a folder with one text file per language, such as de.txt, and one sentence per line;
        tfds:wiki40b/{} or tfds:/a/folder/{} for prepared datasets, where {} stands for the language; hub:ID or
        hub:ID@REVISION; or, of some tasks, evaluated, for the evaluated sentences, and train, for the pairs that are
        not held out.
      fit_count: maximum number of sentences per language.
      fit_languages: languages to fit on: tested, or all that the text has. More languages give a shared method such as
        LSAR more to remove.
      parallel: parallel text of English and other languages, for the methods that are fitted on pairs, linear and
        shift: a folder of en-xx.tsv or Moses files, a prepared dataset, hub:ID, or tfds:NAME. They are tested on the
        languages that it has.
    """

    transforms: tuple[MethodName, ...] = FEW_METHODS
    method: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    components: tuple[int, ...] = (1,)
    zero: tuple[str, ...] = ()
    fit_seeds: tuple[int, ...] = (0,)
    scores: tuple[Literal["cosine", "csls"], ...] = ("cosine",)
    saved: tuple[Path, ...] = ()
    fit_on: str = "udhr"
    fit_count: int = 10_000
    fit_languages: Literal["tested", "all"] = "tested"
    parallel: Data | None = None

    @property
    def reads_text(self) -> bool:
        """Whether there is something to fit, or a bank to sample."""
        return set(self.transforms) != {"original"} or "csls" in self.scores

    @property
    def varied(self) -> dict[str, Sequence[Any]]:
        """The values of each option that methods are fitted with, each in a row of its own."""
        return {"rank": self.ranks, "components": self.components, "zero": self.zero, "seed": self.fit_seeds}
