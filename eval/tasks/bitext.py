"""Held-out parallel text: find each sentence's translation among those of the other held-out pairs.

    python -m eval bitext --data data/bitext
    python -m eval bitext --data data/bitext --fit-on train
    python -m eval bitext --data hub:mteb/bucc-bitext-mining

A seed chooses the held-out pairs from the distinct pairs; training with the same options leaves out the same pairs.
Transforms are fitted on the Universal Declaration of Human Rights, on a folder of text, or on the remaining pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from eval.tasks.translations import TranslatedTexts, TranslationTask
from lsar_jax.corpora.parallel_text import Pair, held_out, read_bitext
from lsar_jax.corpora.tables import Data

__all__ = ["Bitext"]


@dataclass(frozen=True)
class Bitext(TranslationTask):
    """Retrieval of translations on held-out pairs of any parallel text.

    Attributes:
      data: folder of en-xx.tsv files with the fields domain, English, xx; a folder of Moses files; a prepared dataset;
        hub:ID; or tfds:NAME with {} for the language.
      languages: language codes; by default, all in the data.
      held_out: number of held-out pairs per language.
      split_seed: seed that chooses the held-out pairs.
      fit_on: text to fit transforms on: udhr; train, for the pairs that are not held out; a folder with one text file
        per language; tfds:NAME/{}; or hub:ID.
    """

    name = "bitext"

    out: Path = Path("results/bitext")
    data: Data = Path("data/bitext")
    languages: tuple[str, ...] = ()
    held_out: int = 500
    split_seed: int = 0

    @property
    def title(self) -> str:
        """The title of tables and figures."""
        return f"{self.held_out} held-out pairs of {self._name}"

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
        if self.fit_on != "train":
            return super().fitted_on
        return f"{self._name} but the held-out pairs, up to {self.fit_count} a language"

    def read(self) -> TranslatedTexts:
        """Reads the held-out pairs of each language."""
        return {code: tuple(zip(*held, strict=True)) for code, (_, held) in self._split.items()}  # type: ignore[misc]

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on; with ``train``, English is pooled from the training pairs of all languages."""
        if self.fit_on != "train":
            return super().some_fit_texts(languages)
        every = self._every if self.fit_languages == "all" else self._split
        held = {english for _, pairs in every.values() for english, _ in pairs}
        train = {code: pairs for code, (pairs, _) in every.items() if code in languages}
        texts = {code: [other for _, other in pairs] for code, pairs in train.items()}
        # An English sentence may be held out with one language and not with another.
        texts["en"] = list(dict.fromkeys(e for pairs in train.values() for e, _ in pairs if e not in held))
        return {code: texts[code][: self.fit_count] for code in sorted(texts)}

    def text_languages(self) -> list[str]:
        """Returns all languages that the text to fit on has."""
        return list(self._every) if self.fit_on == "train" else super().text_languages()

    @property
    def _name(self) -> str:
        """The name of the data, without the commit of a Hub dataset, which the options record."""
        name = Path(self.data).name
        return name.partition("@")[0] if str(self.data).startswith("hub:") else name

    @cached_property
    def _split(self) -> dict[str, tuple[list[Pair], list[Pair]]]:
        """The pairs to train on and those that are held out, in the tested languages."""
        return self._parts(self.languages)

    @cached_property
    def _every(self) -> dict[str, tuple[list[Pair], list[Pair]]]:
        """The same in all languages of the data."""
        return self._parts(()) if self.languages else self._split

    def _parts(self, languages: Sequence[str]) -> dict[str, tuple[list[Pair], list[Pair]]]:
        result = {}
        for code, pairs in read_bitext(self.data, languages, "--data", split=self.split).items():
            try:
                result[code] = held_out(pairs, self.held_out, self.split_seed)
            except ValueError as error:
                raise ValueError(f"{self.data}, {code}: {error}") from error
        return result
