"""Tatoeba: find each English sentence's translation among a language's sentences.

    python -m eval tatoeba --data data/tatoeba
    python -m eval tatoeba --fit-on evaluated --transforms original center lsar whitening cbie

The protocol of XTREME (Hu et al., ICML 2020) and of Xie et al. 2022: the 36 languages of LASER's
Tatoeba v1, up to 1,000 pairs each, English queries, candidates in the other language,
nearest by cosine, accuracy of the first, mean over languages. The transforms are fitted

- on the declaration of human rights, all 50 paragraphs of each tested language that has it and of
  English; methods are compared over those languages;
- or, with ``--fit-on evaluated``, on the sentences that are searched, all of them at once: whitening and
  CBIE on each file by itself, as Hämmerl et al. 2023 do it, here with 1e-8 added to the eigenvalues (the
  paper has 1e-5); the others on all languages with one English, the 36 English sides together (Xie
  et al. have other text, 10,000 lines of OSCAR a language).

Data: the folder ``data/tatoeba/v1`` of github.com/facebookresearch/LASER (CC BY 2.0 FR),
two files a language, ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``, line i of one
translating line i of the other.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from eval.methods import Method
from eval.metrics import accuracy
from eval.results import Result
from eval.task import Task
from lsar_jax import EncoderSpec, corpora
from lsar_jax.languages import language_code
from lsar_jax.retrieval import nearest
from lsar_jax.transforms import fit_cbie, fit_whitening

__all__ = ["XTREME_36", "Tatoeba", "read_pairs"]

Embedded = Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]]

# fmt: off
XTREME_36 = (
    "af", "ar", "bg", "bn", "de", "el", "es", "et", "eu", "fa", "fi", "fr", "he", "hi", "hu", "id", "it", "ja",
    "jv", "ka", "kk", "ko", "ml", "mr", "nl", "pt", "ru", "sw", "ta", "te", "th", "tl", "tr", "ur", "vi", "zh",
)
# fmt: on


@dataclass(frozen=True)
class Tatoeba(Task):
    """English to X retrieval on LASER's Tatoeba v1.

    Attributes:
      data: the folder of tatoeba.xxx-eng.xxx files.
      languages: codes; by default the 36 of XTREME.
      fit_on: the declaration of human rights, or the evaluated sentences.
      seed: of CBIE.
    """

    name = "tatoeba"

    out: Path = Path("results/tatoeba")
    data: Path = Path("data/tatoeba")
    languages: tuple[str, ...] = XTREME_36
    fit_on: Literal["udhr", "evaluated"] = "udhr"
    seed: int = 0

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on."""
        return "udhr all" if self.fit_on == "udhr" else "the evaluated sentences"

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints a table, writes ``results.jsonl`` and a figure."""
        pairs = read_pairs(self.data, self.languages)
        declared = corpora.udhr() if self.fit_on == "udhr" else {}
        fitted = sorted(set(pairs) & set(declared)) if declared else list(pairs)
        if not fitted:
            raise ValueError(f"none of {', '.join(pairs)} has a text to fit on")
        texts = {("fit", code): declared[code] for code in [*fitted, "en"]} if declared else {}
        for code, (english, other) in pairs.items():
            texts |= {("en", code): english, ("xx", code): other}
        encoder = self.prepare(len({*fitted, "en"}))
        embeddings = self.encode(encoder, texts)

        results: list[Result] = []
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            x = {key: value[index] for key, value in embeddings.items()}
            if declared:
                fit = {code: x["fit", code] for code in [*fitted, "en"]}
            else:
                fit = {code: x["xx", code] for code in fitted}
                fit["en"] = np.concatenate([x["en", code] for code in fitted])
            for name in self.transforms:
                if not declared and name in ("whitening", "language-whitening", "cbie"):
                    each = [self._of_files(name, x, code, spec) for code in pairs]
                    results += self._score(each, x, list(pairs), fitted, spec)
                    continue
                for method in self.fit(fit, spec, (name,)):
                    results += self._score([method] * len(pairs), x, list(pairs), fitted, spec)
        means = sorted({r.metric for r in results if " mean " in r.metric})
        self.report(results, "Tatoeba, English queries", means, _mean(fitted))
        return results

    def _of_files(self, name: str, x: Embedded, code: str, spec: EncoderSpec) -> Method:
        """Fits whitening or CBIE on the two files of a pair, each by itself."""
        files = {"en": x["en", code], code: x["xx", code]}
        if name == "cbie":
            return Method("cbie", {"components": 12, "seed": self.seed}, fit_cbie(files, seed=self.seed, source=spec))
        # In float64: with fewer sentences than dimensions most eigenvalues are 0, and 1e-8 is float32's rounding.
        whitening = fit_whitening(files, 1e-8, absolute=True, per_language=True, source=spec, precise=True)
        return Method("language-whitening", {"eps": 1e-8, "absolute": 1}, whitening)

    def _score(
        self, methods: list[Method], x: Embedded, languages: list[str], fitted: list[str], spec: EncoderSpec
    ) -> list[Result]:
        """One result a language; the mean over the fitted ones, and over all where they differ.

        A method is tested where it was fitted, the original everywhere.
        """
        by_language = dict(zip(languages, methods, strict=True))
        tested = fitted if methods[0].transform else languages
        values, seconds = {}, {}
        for code in tested:
            method = by_language[code]
            started = time.perf_counter()
            _, found = nearest(method(x["en", code], "en"), method(x["xx", code], code))
            values[code] = accuracy(np.asarray(found)[:, 0], np.arange(len(found)))
            seconds[code] = time.perf_counter() - started

        def entry(metric: str, codes: list[str]) -> Result:
            value = float(np.mean([values[code] for code in codes]))
            queries = sum(len(x["en", code]) for code in codes)
            return self.result(spec, methods[0], codes, metric, value, queries, sum(seconds[code] for code in codes))

        means = [fitted] if len(tested) == len(fitted) else [fitted, tested]
        return [entry(f"en-{code} accuracy", [code]) for code in tested] + [
            entry(_mean(codes), codes) for codes in means
        ]


def _mean(languages: list[str]) -> str:
    return f"en-xx mean over {len(languages)}"


def read_pairs(folder: Path, languages: tuple[str, ...] | list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Reads the English side and the other side of each language.

    Raises:
      FileNotFoundError: no such folder, or no files of a language.
      ValueError: the two sides differ in their number of lines.
    """
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; copy data/tatoeba/v1 of github.com/facebookresearch/LASER there, "
            "or say --data"
        )
    names = {}
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(r"tatoeba\.(\w+)-eng\.\1", path.name)
        if match:
            names[language_code(match[1])] = match[1]
    wanted = [language_code(code) for code in languages]
    missing = [code for code in wanted if code not in names]
    if missing or not wanted:
        raise FileNotFoundError(
            f"{folder} has no files of {', '.join(missing)}; it has {', '.join(sorted(names)) or 'none'}"
        )
    pairs = {}
    for code in wanted:
        stem = folder / f"tatoeba.{names[code]}-eng"
        english, other = (corpora.lines(f"{stem}.{side}") for side in ("eng", names[code]))
        if len(english) != len(other):
            raise ValueError(f"{stem}.*: {len(english)} English lines and {len(other)} lines of {code}")
        pairs[code] = (english, other)
    return pairs
