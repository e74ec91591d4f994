"""The text whose embeddings ``python -m eval geometry`` measures: the UDHR, Tatoeba, or a folder of text files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int

from eval.data.tatoeba import XTREME_36, read_pairs
from lsar_jax import corpora
from lsar_jax.corpora.tables import Data

__all__ = ["MeasuredText", "read_text"]


@dataclass(frozen=True)
class MeasuredText:
    """Sentences of several languages.

    Attributes:
      texts: language -> its sentences; those of Tatoeba in English are the different ones of all English sides.
      parallel: whether sentence i of a language translates sentence i of its English side.
      sides: language -> its English side; empty if that is all of the English text.
    """

    texts: dict[str, list[str]]
    parallel: bool
    sides: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def only(self, codes: Collection[str]) -> "MeasuredText":
        """Returns the text in those of the languages that it has."""
        texts = {code: text for code, text in self.texts.items() if code in codes}
        sides = {code: side for code, side in self.sides.items() if code in codes}
        if sides and "en" in texts:
            texts["en"] = _different(sides)
        return MeasuredText(texts, self.parallel, sides)

    def english_rows(self) -> dict[str, Int[np.ndarray, " _"]]:
        """Returns the rows of the English text that are the English side of each other language; none without it."""
        if "en" not in self.texts:
            return {}
        numbers = {text: number for number, text in enumerate(self.texts["en"])}
        whole = np.arange(len(self.texts["en"]))
        return {
            code: np.array([numbers[text] for text in self.sides[code]]) if self.sides else whole
            for code in self.texts
            if code != "en"
        }


def read_text(text: str, data: Data, languages: Sequence[str]) -> MeasuredText:
    """Reads the text to measure.

    Args:
      text: ``udhr`` for its half ``test``; ``tatoeba``; or a folder of text files for their first 10,000 sentences.
      data: Tatoeba's pairs, as for ``read_pairs``.
      languages: language codes; by default, all that the text has, and the 36 of XTREME on Tatoeba.

    Raises:
      FileNotFoundError: the text does not exist, or lacks a language.
      ValueError: a language is unknown, or a file has the wrong format.
    """
    if text == "udhr":
        return MeasuredText(corpora.udhr("test", languages or None), parallel=True)
    if text == "tatoeba":
        pairs = read_pairs(data, languages or XTREME_36)
        sides = {code: english for code, (english, _) in pairs.items()}
        texts = {code: other for code, (_, other) in pairs.items()} | {"en": _different(sides)}
        return MeasuredText(dict(sorted(texts.items())), parallel=True, sides=sides)
    if not Path(text).is_dir():
        raise FileNotFoundError(f"--text {text} is not udhr, tatoeba or a folder of text files")
    return MeasuredText(corpora.text_folder(text, languages or None), parallel=False)


def _different(sides: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns each sentence of the sides once, because they overlap."""
    return list(dict.fromkeys(sentence for side in sides.values() for sentence in side))
