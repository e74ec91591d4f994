"""Tasks whose transforms are fitted on text that the user chooses."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from eval.data.fit_text import fit_texts, text_languages
from eval.methods import OF_FILES, OF_PAIRS, Method, MethodName, fit_files, fit_pairs
from eval.task import Embedded, Task, Texts, languages_of
from lsar_jax import EncoderSpec
from lsar_jax.cli.console import console
from lsar_jax.corpora.parallel_text import Pair, read_bitext
from lsar_jax.corpora.tables import Data

__all__ = ["FitLanguages", "FittedTask"]

FitLanguages = Literal["tested", "all"]

# Groups of the two sides of the parallel text.
_PAIRS = "fit"


@dataclass(frozen=True)
class FittedTask(Task):
    """A task whose transforms are fitted on text chosen by the user.

    Attributes:
      fit_on: text to fit transforms on: udhr, which is all paragraphs of the Universal Declaration of Human Rights; a
        folder with one text file per language, such as de.txt, and one sentence per line; tfds:wiki40b/{} or
        tfds:/a/folder/{} for prepared datasets, where {} stands for the language; or hub: and the id of a dataset on
        the Hub, such as hub:wikimedia/wikipedia, optionally followed by @ and a revision.
      fit_count: maximum number of sentences per language.
      fit_languages: languages to fit on: tested, or all that the text has. More languages give a shared method such as
        LSAR more to remove.
      parallel: parallel text of English and other languages, for the methods that are fitted on pairs, linear and
        shift: a folder of en-xx.tsv or Moses files, a prepared dataset, hub:ID, or tfds:NAME. They are tested on the
        languages that it has.
    """

    fit_on: str = "udhr"
    fit_count: int = 10_000
    fit_languages: FitLanguages = "tested"
    parallel: Data | None = None

    # Whether methods can be fitted on the evaluated sentences, and whether a method is tested on some languages only.
    fits_evaluated: ClassVar[bool] = False
    tests_some: ClassVar[bool] = False

    @abstractmethod
    def codes(self) -> Sequence[str]:
        """Returns the codes of the languages to fit on."""

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
        if self.fits_evaluated and self.fit_on == "evaluated":
            return "the evaluated sentences"
        return "udhr all" if self.fit_on == "udhr" else f"{self.fit_on}, up to {self.fit_count} a language"

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on.

        Raises:
          ValueError: a language has no text.
        """
        found = self.some_fit_texts([*self.codes(), *self.further_codes(self.codes())])
        missing = [code for code in self.codes() if code not in found]
        if missing:
            raise ValueError(f"--fit-on {self.fit_on} has no text in {', '.join(missing)}; omit these languages")
        return found

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on, in those of the given languages that have text."""
        return fit_texts(self.fit_on, languages, self.fit_count)

    def further_codes(self, tested: Collection[str]) -> list[str]:
        """Returns the languages to fit on that are not tested."""
        if self.fit_languages == "tested":
            return []
        return [code for code in self.text_languages() if code not in tested]

    def text_languages(self) -> list[str]:
        """Returns all languages that the text to fit on has."""
        if self.fits_evaluated and self.fit_on == "evaluated":
            raise ValueError("--fit-languages all cannot be combined with --fit-on evaluated; omit one of them")
        return text_languages(self.fit_on)

    def fitted_languages(self, fit: Mapping[str, Sequence[str]]) -> int:
        """Returns the number of languages to fit on."""
        return len(fit) or len(set(self.codes()))

    def lacking(self, name: MethodName) -> str:
        """Returns why a method cannot be fitted here, as the end of a sentence; empty if it can."""
        if name in OF_PAIRS:
            if self.fit_on == "evaluated":
                return "which is fitted on parallel text; it cannot be combined with --fit-on evaluated"
            return "" if self.parallel is not None else "which is fitted on parallel text; name some with --parallel"
        why = super().lacking(name)
        if not why or name not in OF_FILES or not self.fits_evaluated:
            return why
        return "" if self.fit_on == "evaluated" else "which whitens the evaluated sentences; add --fit-on evaluated"

    def text_of(self, method: Method) -> str:
        """Returns the name, in results, of the text that a method was fitted on; empty if it was not fitted."""
        fitted_here = method.name in OF_PAIRS and not any(saved is method for saved in self._saved.values())
        return f"{self.parallel}, up to {self.fit_count} a language" if fitted_here else super().text_of(method)

    def pair_texts(self) -> Texts:
        """Returns both sides of the parallel text, in the tested languages that it has.

        Raises:
          FileNotFoundError: the parallel text does not exist.
          ValueError: it has none of the tested languages, or lacks one in a task that tests every method on all.
        """
        pairs = self.pairs_to_fit
        sides = {f"{_PAIRS} {side}": n for n, side in enumerate(("en", "xx"))}
        return {(group, code): [pair[n] for pair in some] for group, n in sides.items() for code, some in pairs.items()}

    @cached_property
    def pairs_to_fit(self) -> dict[str, list[Pair]]:
        """The parallel text in the tested languages that it has; empty if no method is fitted on pairs."""
        if self.parallel is None or not set(self.transforms) & OF_PAIRS.keys():
            return {}
        every = read_bitext(self.parallel, (), "--parallel")
        wanted = [code for code in self.codes() if code != "en"]
        pairs = {code: every[code][: self.fit_count] for code in wanted if every.get(code)}
        lacking = [code for code in wanted if code not in pairs]
        if not pairs or (lacking and not self.tests_some):
            raise ValueError(
                f"--parallel {self.parallel} has {', '.join(every)}, but not {', '.join(lacking)}; "
                + ("test other languages" if not pairs else "omit these languages, or the methods linear and shift")
            )
        if lacking:
            console.print(f"--parallel {self.parallel} has no pairs of {', '.join(lacking)}: no map is tested on these")
        return pairs

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on the embeddings of the fitting texts, or of the two sides of the parallel text."""
        pairs = {
            code: (value, x[f"{_PAIRS} en", code]) for (group, code), value in x.items() if group == f"{_PAIRS} xx"
        }
        return super().methods(x, spec) + [fit_pairs(name, pairs, spec) for name in self.transforms if name in OF_PAIRS]

    def fit_evaluated(
        self, x: Embedded, by_language: Mapping[str, Float[np.ndarray, "_ dim"]], spec: EncoderSpec
    ) -> list[Method]:
        """Fits methods on the evaluated sentences.

        Whitening and CBIE are fitted on each file by itself, as in Hämmerl et al. 2023.

        Args:
          x: the embeddings of each file.
          by_language: language -> embeddings of its evaluated sentences, for all other methods.
          spec: spec of the embeddings.
        """
        names = [n for n in self.transforms if n != "whitening" or "language-whitening" not in self.transforms]
        result: list[Method] = []
        for name in names:
            if name in OF_FILES:
                result += fit_files(name, x, languages_of(x), seeds=self.fit_seeds, source=spec)
            else:
                result += self.fit(by_language, spec, (name,))
        return result + self.saved_methods(spec)
