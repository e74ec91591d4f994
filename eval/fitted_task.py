"""Tasks whose transforms are fitted on text that the user chooses."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from eval.data.fit_text import fit_texts, text_languages
from eval.task import Task

__all__ = ["FitLanguages", "FittedTask"]

FitLanguages = Literal["tested", "all"]


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
    """

    fit_on: str = "udhr"
    fit_count: int = 10_000
    fit_languages: FitLanguages = "tested"

    @abstractmethod
    def codes(self) -> Sequence[str]:
        """Returns the codes of the languages to fit on."""

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
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
        return text_languages(self.fit_on)

    def fitted_languages(self, fit: Mapping[str, Sequence[str]]) -> int:
        """Returns the number of languages to fit on."""
        return len(fit) or len(set(self.codes()))
