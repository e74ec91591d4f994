"""Tasks on translated pairs: find each sentence's translation among the other language's sentences.

The score is the accuracy of the nearest neighbour by cosine, in both directions, with means over languages. A method
that depends on the language is tested on the languages that it was fitted on. The original embeddings, and transforms
that are the same for all languages, are tested on all languages; those that were not fitted on are also reported
separately.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eval.figures.plots import rank_curves
from eval.fitted_task import FittedTask
from eval.methods import Method
from eval.metrics import find_own
from eval.resampling import Queries
from eval.results import Result, by_method
from eval.score import Score
from eval.task import Embedded, Texts
from lsar_jax import EncoderSpec
from lsar_jax.cli.console import console
from lsar_jax.corpora.tables import Data, check_split
from lsar_jax.languages import language_code

__all__ = ["TranslatedTexts", "TranslationTask"]

# Language -> (English sentences, their translations), line by line.
TranslatedTexts = Mapping[str, tuple[Sequence[str], Sequence[str]]]

_DIRECTIONS = (("en", "xx"), ("xx", "en"))


@dataclass(frozen=True)
class TranslationTask(FittedTask):
    """Retrieval of translations, from and into English.

    Attributes:
      data: pairs of sentences.
      seen: languages that transforms may be fitted on; by default, all for which there is text to fit on.
      split: split of a named dataset, hub:ID or tfds:NAME; by default, its only split, or else test.
    """

    tests_some = True

    data: Data = ""
    seen: tuple[str, ...] = ()
    split: str = ""

    @abstractmethod
    def read(self) -> TranslatedTexts:
        """Reads the pairs of each language.

        Raises:
          FileNotFoundError: the data do not exist.
          ValueError: the data have the wrong format.
        """

    def groups(self) -> dict[str, Sequence[str]]:
        """Returns named sets of languages to report additional means for; by default none."""
        return {}

    @cached_property
    def pairs(self) -> TranslatedTexts:
        """The pairs of each language."""
        check_split(self.data, self.split)
        return self.read()

    @cached_property
    def fitted_codes(self) -> list[str]:
        """The tested languages that transforms are fitted on."""
        fit = self.fit_texts() if self.fits else {}
        return [code for code in self.pairs if not fit or code in fit]

    def codes(self) -> list[str]:
        """Returns the languages to fit on, English included."""
        return [*self.fitted_codes, "en"]

    def texts(self) -> Texts:
        """Returns both sides of each language's pairs."""
        result: dict[tuple[str, str], Sequence[str]] = {}
        for code, (english, other) in self.pairs.items():
            result |= {("en", code): list(english), ("xx", code): list(other)}
        return result

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on, in English and in the seen languages that have any.

        Raises:
          ValueError: there is no text in English, or none in any seen language.
        """
        return self._fit_texts

    @cached_property
    def _fit_texts(self) -> Mapping[str, Sequence[str]]:
        wanted = [language_code(code) for code in self.seen] or list(self.pairs)
        unknown = [code for code in wanted if code not in self.pairs]
        if unknown:
            raise ValueError(f"--seen has {', '.join(unknown)}, but there are pairs only for {', '.join(self.pairs)}")
        found = self.some_fit_texts([*wanted, "en", *self.further_codes([*self.pairs, "en"])])
        if len(found) < 2 or "en" not in found:
            raise ValueError(
                f"--fit-on {self.fit_on} has text in {', '.join(found) or 'none'} of the languages; it must have text "
                "in English and in at least one other"
            )
        if lacking := [code for code in wanted if code not in found]:
            console.print(
                f"--fit-on {self.fit_on} has no text in {', '.join(lacking)}: transforms are not fitted on these "
                "languages, and those that depend on the language are not tested on them either"
            )
        return found

    def moved(self, x: Embedded, method: Method) -> Embedded:
        """Returns both transformed sides of the languages that the method can be tested on."""
        tested = {code for code in self.pairs if method.takes(code)}
        return super().moved({key: value for key, value in x.items() if key[1] in tested}, method)

    def checked(self, texts: Texts) -> Texts:
        """Returns the texts; says which languages a saved transform is not tested on, as it was not fitted on them."""
        for path, lacking in self.untaken(texts).items():
            if "en" in lacking or len(lacking) == len(self.pairs):
                return super().checked(texts)
            console.print(f"{path} was not fitted on {', '.join(lacking)}; its rows leave them out")
        return texts

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields the accuracy of each language and direction, and the means.

        Means are taken over the languages with parallel text to fit on, over the seen languages, over all tested
        languages, over the unseen languages if there are any,
        and over each of the ``groups`` whose languages were all tested.
        """
        tested = [code for side, code in x if side == "xx"]
        seen = [code for code in self.fitted_codes if code in tested]
        mapped = [code for code in self.pairs_to_fit if code in tested]
        means = {f"mean over {len(codes)}": codes for codes in (mapped, seen, tested) if codes}
        if unseen := [code for code in tested if code not in seen]:
            means[f"mean over {len(unseen)} unseen"] = unseen
        means |= {f"mean {name}": list(codes) for name, codes in self.groups().items() if set(codes) <= set(tested)}
        for query, candidate in _DIRECTIONS:
            hits, values = {}, {}
            for code in tested:
                hits[code] = find_own(x[query, code], x[candidate, code])
                values[code] = 100 * float(hits[code].mean())
                name = f"{query if query == 'en' else code}-{candidate if candidate == 'en' else code} accuracy"
                yield Score(name, values[code], [code], len(hits[code]), Queries(100.0 * hits[code]))
            for name, codes in means.items():
                parts = [hits[code] for code in codes]
                strata = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
                queries = Queries(100.0 * np.concatenate(parts), strata)
                # The mean of the accuracies, in the order of the languages.
                value = float(np.mean([values[code] for code in codes]))
                yield Score(f"{query}-{candidate} {name}", value, codes, len(strata), queries)

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns the means over the seen languages, over those of each saved transform, and over all tested ones."""
        taken = [[code for code in self.fitted_codes if method.takes(code)] for method in self._saved.values()]
        several = [self.fitted_codes, *taken, self.pairs_to_fit, self.pairs]
        counts = [count for count in dict.fromkeys(map(len, several)) if count]
        return [f"{query}-{candidate} mean over {count}" for count in counts for query, candidate in _DIRECTIONS]

    def draw(self, results: Sequence[Result]) -> None:
        """Draws accuracy against rank, if a method was fitted with several ranks."""
        metric = self.shown(results)[0]
        table = by_method(results)
        panels = {
            f"layer {layer}": {label: row[layer, metric] for label, row in table.items() if (layer, metric) in row}
            for layer in self.layers
        }
        rank_curves(panels, f"{metric}, %", f"{self.title} ({self.encoder})", self.out / "ranks.png")
