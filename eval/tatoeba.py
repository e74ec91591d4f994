"""Tatoeba: find each sentence's translation among a language's sentences, and the way back.

    python -m eval tatoeba --data data/tatoeba
    python -m eval tatoeba --data hub:mteb/tatoeba-bitext-mining
    python -m eval tatoeba --fit-on evaluated --transforms original center lsar whitening cbie

The protocol of XTREME (Hu et al., ICML 2020) and of Xie et al. 2022: the 36 languages of LASER's
Tatoeba v1, up to 1,000 pairs each, nearest by cosine, accuracy of the first, mean over languages. The
papers' numbers are those of English queries, ``en-xx``. The transforms are fitted

- on the declaration of human rights, all 50 paragraphs of each tested language that has it and of
  English, or on a folder of text; methods are compared over those languages;
- or, with ``--fit-on evaluated``, on the sentences that are searched, all of them at once: whitening and
  CBIE on each file by itself, as Hämmerl et al. 2023 do it, here with 1e-8 added to the eigenvalues (the
  paper has 1e-5); the others on all languages with one English, the 36 English sides together (Xie
  et al. have other text, 10,000 lines of OSCAR a language).

Data: the folder ``data/tatoeba/v1`` of github.com/facebookresearch/LASER (CC BY 2.0 FR),
two files a language, ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``, line i of one
translating line i of the other. Also ``hub:mteb/tatoeba-bitext-mining`` and ``tfds:tatoeba/tatoeba_{}``,
which are made of them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval.methods import Method
from eval.named import Data, named_pairs, named_tables, plain_folder
from eval.pairs import Embedded, Pairs, PairTask
from lsar_jax import EncoderSpec, corpora
from lsar_jax.languages import language_code, own_name
from lsar_jax.transforms import fit_cbie, fit_whitening

__all__ = ["ORACLE_14", "XTREME_36", "Tatoeba", "read_pairs"]

# fmt: off
XTREME_36 = (
    "af", "ar", "bg", "bn", "de", "el", "es", "et", "eu", "fa", "fi", "fr", "he", "hi", "hu", "id", "it", "ja",
    "jv", "ka", "kk", "ko", "ml", "mr", "nl", "pt", "ru", "sw", "ta", "te", "th", "tl", "tr", "ur", "vi", "zh",
)
# fmt: on


# Those of ORACLE's table of 14.
ORACLE_14 = ("ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")


@dataclass(frozen=True)
class Tatoeba(PairTask):
    """Retrieval of translations on LASER's Tatoeba v1.

    Attributes:
      data: the folder of tatoeba.xxx-eng.xxx files; or hub:ID or tfds:NAME with {} for the language.
      languages: codes; by default the 36 of XTREME.
      fit_on: udhr, the declaration of human rights; evaluated, the sentences that are searched; or a
        folder of one text file a language.
    """

    name = "tatoeba"

    out: Path = Path("results/tatoeba")
    data: Data = Path("data/tatoeba")
    languages: tuple[str, ...] = XTREME_36

    @property
    def title(self) -> str:
        """What tables and figures are called."""
        return "Tatoeba"

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on."""
        return "the evaluated sentences" if self.fit_on == "evaluated" else super().fitted_on

    def pairs(self) -> Pairs:
        """Returns the pairs of each language."""
        return read_pairs(self.data, self.languages, self.split)

    def groups(self) -> dict[str, Sequence[str]]:
        """Returns ORACLE's sets of languages, if those of XTREME are asked for; its larger one lacks Indonesian."""
        if not set(self.languages) >= set(XTREME_36):
            return {}
        return {"of ORACLE's 14": ORACLE_14, "without id": [code for code in XTREME_36 if code != "id"]}

    def pair_fit_texts(self, pairs: Pairs) -> dict[str, list[str]]:
        """Returns the text to fit on; none where it is the evaluated sentences."""
        if self.fit_on != "evaluated":
            return super().pair_fit_texts(pairs)
        if self.seen:
            raise ValueError("--seen is for other text than the evaluated sentences")
        return {}

    def methods(self, x: Embedded, seen: Sequence[str], spec: EncoderSpec) -> list[dict[str, Method]]:
        """Fits every method on the text, or on the evaluated sentences."""
        if self.fit_on != "evaluated":
            return super().methods(x, seen, spec)
        fit = {code: x["xx", code] for code in seen}
        fit["en"] = np.concatenate([x["en", code] for code in seen])
        result = []
        # Of each file by itself the two whitenings are one.
        names = [n for n in self.transforms if n != "whitening" or "language-whitening" not in self.transforms]
        for name in names:
            if name == "cbie":
                result += [{code: _cbie(x, code, seed, spec) for code in seen} for seed in self.fit_seeds]
            elif name in ("whitening", "language-whitening"):
                result.append({code: _whitening(x, code, spec) for code in seen})
            else:
                result += [dict.fromkeys(seen, method) for method in self.fit(fit, spec, (name,))]
        return result + [dict.fromkeys(seen, method) for method in self.saved_methods(spec)]


# What the outliers paper fits on the two files of a pair, each by itself.


def _cbie(x: Embedded, code: str, seed: int, spec: EncoderSpec) -> Method:
    fitted = fit_cbie({"en": x["en", code], code: x["xx", code]}, seed=seed, source=spec)
    return Method("cbie", {"components": 12, "seed": seed}, fitted)


def _whitening(x: Embedded, code: str, spec: EncoderSpec) -> Method:
    files = {"en": x["en", code], code: x["xx", code]}
    # In float64: with fewer sentences than dimensions most eigenvalues are 0, and 1e-8 is float32's rounding.
    whitening = fit_whitening(files, 1e-8, absolute=True, per_language=True, source=spec, precise=True)
    return Method("language-whitening", {"eps": 1e-8, "absolute": 1}, whitening)


def read_pairs(data: Data, languages: Sequence[str], split: str = "") -> dict[str, tuple[list[str], list[str]]]:
    """Reads the English side and the other side of each language.

    Args:
      data: the folder of the files, ``hub:ID`` or ``tfds:NAME``.
      languages: codes.
      split: of a dataset with a name; by default its only one or ``test``.

    Raises:
      FileNotFoundError: no such data.
      ValueError: none of a language, the two sides differ in their number of lines, or a line is blank.
    """
    tables = named_tables(data)
    if tables is None:
        return _files(plain_folder(data), languages)
    pairs = named_pairs(tables, languages, split)
    for code, sides in pairs.items():
        for name, lines in zip(("English", code), sides, strict=True):
            _check_not_blank(lines, f"{tables.name}, {name} of {code}")
    return pairs


def _check_not_blank(lines: Sequence[str], where: str) -> None:
    blank = next((number for number, line in enumerate(lines, 1) if not line.strip()), None)
    if blank:
        raise ValueError(f"{where}, line {blank} is blank")


def _files(folder: Path, languages: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; copy data/tatoeba/v1 of github.com/facebookresearch/LASER there, "
            "or say --data, such as hub:mteb/tatoeba-bitext-mining"
        )
    matches = (re.fullmatch(r"tatoeba\.(\w+)-eng\.\1", path.name) for path in sorted(folder.iterdir()))
    names = [match[1] for match in matches if match]
    known = {language_code(name) for name in names}
    missing = [code for code in map(language_code, languages) if code not in known]
    if missing or not languages:
        raise FileNotFoundError(
            f"{folder} has no files of {', '.join(missing)}; it has {', '.join(sorted(known)) or 'none'}"
        )
    pairs = {}
    for language in languages:
        own = own_name(language, names, str(folder))
        stem = folder / f"tatoeba.{own}-eng"
        english, other = (corpora.lines(f"{stem}.{side}") for side in ("eng", own))
        if len(english) != len(other):
            raise ValueError(f"{stem}.*: {len(english)} English lines and {len(other)} lines of {language_code(own)}")
        _check_not_blank(english, f"{stem}.eng")
        _check_not_blank(other, f"{stem}.{own}")
        pairs[language_code(language)] = (english, other)
    return pairs
