"""The text whose embeddings ``python -m eval geometry`` measures: the UDHR, Tatoeba, or a folder of text files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from eval.data.fit_text import fit_text
from eval.data.tatoeba import XTREME_36, read_pairs
from eval.fit_options import EVALUATED, FitOptions
from lsar_jax import corpora
from lsar_jax.console.output import console
from lsar_jax.corpora.by_language import folder_at
from lsar_jax.corpora.tables import Data

__all__ = ["MeasuredText", "read_measured", "read_text"]


class MeasuredText(NamedTuple):
    """Sentences of several languages.

    Attributes:
      texts: language -> its sentences; English has the distinct sentences of all English sides of Tatoeba.
      parallel: whether sentence i of a language translates sentence i of its English side.
      english: language -> the rows of the English text that are its English side; empty without English.
    """

    texts: dict[str, list[str]]
    parallel: bool
    english: dict[str, Int[np.ndarray, " _"]]


def read_text(text: str, data: Data, languages: Sequence[str]) -> MeasuredText:
    """Reads the text to measure, by default in all languages, on Tatoeba the 36 of XTREME.

    It is ``udhr`` for its half ``test``; ``tatoeba``; or a folder of text files for their first 10,000 sentences.
    """
    if text == "tatoeba":
        pairs = dict(sorted(read_pairs(data, languages or XTREME_36).items()))
        # The English sides overlap.
        number = {s: n for n, s in enumerate(dict.fromkeys(s for english, _ in pairs.values() for s in english))}
        texts = {code: other for code, (_, other) in pairs.items()} | {"en": list(number)}
        rows = {code: np.array([number[s] for s in english]) for code, (english, _) in pairs.items()}
        return MeasuredText(dict(sorted(texts.items())), True, rows)
    if text == "udhr":
        read = corpora.udhr("test", languages or None)
    else:
        read = corpora.text_folder(folder_at(text, "--text is udhr, tatoeba or a folder"), languages or None)
    whole = np.arange(len(read.get("en", ())))
    return MeasuredText(read, text == "udhr", {code: whole for code in read if code != "en" and "en" in read})


def read_measured(text: str, data: Data, languages: Sequence[str], options: FitOptions) -> MeasuredText:
    """Reads the text to measure, in the languages that there is text to fit on in; says which it leaves out."""
    measured = read_text(text, data, languages)
    if text != "udhr" and Path(text).resolve() == Path(options.fit_on).resolve():
        raise ValueError(f"--fit-on {options.fit_on} is the measured text; set it to evaluated, or to another text")
    if options.fit_on == EVALUATED or not options.reads_text or text == options.fit_on == "udhr":
        return measured
    there = fit_text(options.fit_on).read(list(measured.texts), 1)
    lacking = [code for code in measured.texts if code not in there]
    if not lacking:
        return measured
    console.print(f"--fit-on {options.fit_on} has no text in {', '.join(lacking)}: these are not measured either")
    # Tatoeba has English with any language, since it is what translates the others.
    left = read_text(text, data, [c for c in measured.texts if c in there and (c != "en" or text != "tatoeba")])
    if "en" in there:
        return left
    return left._replace(texts={c: sentences for c, sentences in left.texts.items() if c != "en"}, english={})
