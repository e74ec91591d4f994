"""Held-out parallel text: find the translations of some pairs among those of the others.

    python -m eval bitext --data data/bitext
    python -m eval bitext --data data/bitext --fit-on train
    python -m eval bitext --data hub:mteb/bucc-bitext-mining

The held-out pairs are drawn from the distinct ones with a seed, and training leaves out the same. Transforms are
fitted on the declaration of human rights, on a folder of text, or on the pairs that are left.
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
      data: the folder of en-xx.tsv files: domain, English, xx; or of Moses files, or prepared; or hub:ID or tfds:NAME
        with {} for the language.
      languages: codes; by default all that the folder has.
      held_out: pairs of each language that are searched.
      split_seed: of the choice of these pairs.
      fit_on: udhr, a folder of one text file a language, or train, the pairs that are not held out.
    """

    name = "bitext"

    out: Path = Path("results/bitext")
    data: Data = Path("data/bitext")
    languages: tuple[str, ...] = ()
    held_out: int = 500
    split_seed: int = 0

    @property
    def title(self) -> str:
        """What tables and figures are called."""
        return f"{self.held_out} held-out pairs of {self._name}"

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on, as results name it."""
        if self.fit_on != "train":
            return super().fitted_on
        return f"{self._name} but the held-out pairs, up to {self.fit_count} a language"

    def read(self) -> TranslatedTexts:
        """Reads the held-out pairs of each language."""
        return {code: tuple(zip(*held, strict=True)) for code, (_, held) in self._split.items()}  # type: ignore[misc]

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on; for ``train``, English is that of all the other pairs."""
        if self.fit_on != "train":
            return super().some_fit_texts(languages)
        held = {english for _, pairs in self._split.values() for english, _ in pairs}
        train = {code: pairs for code, (pairs, _) in self._split.items() if code in languages}
        texts = {code: [other for _, other in pairs] for code, pairs in train.items()}
        # An English sentence may be held out with one language and not with another.
        texts["en"] = list(dict.fromkeys(e for pairs in train.values() for e, _ in pairs if e not in held))
        return {code: texts[code][: self.fit_count] for code in sorted(texts)}

    @property
    def _name(self) -> str:
        """The name of the data; of the Hub without the commit, which is among the options."""
        name = Path(self.data).name
        return name.partition("@")[0] if str(self.data).startswith("hub:") else name

    @cached_property
    def _split(self) -> dict[str, tuple[list[Pair], list[Pair]]]:
        result = {}
        for code, pairs in read_bitext(self.data, self.languages, "--data", split=self.split).items():
            try:
                result[code] = held_out(pairs, self.held_out, self.split_seed)
            except ValueError as error:
                raise ValueError(f"{self.data}, {code}: {error}") from error
        return result
