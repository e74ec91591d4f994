"""Tatoeba: find each English sentence's translation among a language's sentences.

    python -m eval tatoeba --data data/tatoeba

The protocol of XTREME (Hu et al., ICML 2020) and of Xie et al. 2022: the 36 languages of LASER's
Tatoeba v1, up to 1,000 pairs each, English queries, candidates in the other language,
nearest by cosine, accuracy of the first, mean over languages. The transforms are fitted on the
declaration of human rights, all 50 paragraphs of each tested language that has it and of
English; methods are compared over those languages.

Data: the folder ``data/tatoeba/v1`` of github.com/facebookresearch/LASER (CC BY 2.0 FR),
two files a language, ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``, line i of one
translating line i of the other.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.encode import encode_all, open_encoder, print_latency
from eval.figures import bars
from eval.methods import Method, MethodName, fit_methods
from eval.metrics import accuracy
from eval.results import Result, by_method, console, print_table, result, write_results
from lsar_jax import EncoderSpec, corpora
from lsar_jax.languages import language_code
from lsar_jax.retrieval import nearest

__all__ = ["XTREME_36", "Tatoeba", "read_pairs"]

# fmt: off
XTREME_36 = (
    "af", "ar", "bg", "bn", "de", "el", "es", "et", "eu", "fa", "fi", "fr", "he", "hi", "hu", "id", "it", "ja",
    "jv", "ka", "kk", "ko", "ml", "mr", "nl", "pt", "ru", "sw", "ta", "te", "th", "tl", "tr", "ur", "vi", "zh",
)
# fmt: on


@dataclass(frozen=True)
class Tatoeba:
    """English to X retrieval on LASER's Tatoeba v1.

    Attributes:
      data: the folder of ``tatoeba.xxx-eng.xxx`` files.
      encoder: bundled, a folder, or a Hub id.
      revision: of a Hub id.
      pooling: mean, cls or max; by default the checkpoint's own.
      layers: hidden-state layers to test; 0 is the embedding output.
      transforms: methods to compare.
      ranks: of LSAR; by default one less than there are fitted languages.
      components: of LIR.
      languages: codes; by default the 36 of XTREME.
      max_length: tokens at most of a sentence.
      out: folder for the JSON lines and the figure.
    """

    data: Path = Path("data/tatoeba")
    encoder: str = "bundled"
    revision: str | None = None
    pooling: str | None = None
    layers: tuple[int, ...] = (8, 12)
    transforms: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")
    ranks: tuple[int, ...] = ()
    components: tuple[int, ...] = (1,)
    languages: tuple[str, ...] = XTREME_36
    max_length: int = 128
    out: Path = Path("results/tatoeba")

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints a table, writes ``results.jsonl`` and a figure."""
        pairs = read_pairs(self.data, self.languages)
        declared = corpora.udhr()
        fitted = sorted(set(pairs) & set(declared))
        if not fitted:
            raise ValueError(f"none of {', '.join(pairs)} has a text to fit on")
        texts = {f"fit {code}": declared[code] for code in [*fitted, "en"]}
        for code, (english, other) in pairs.items():
            texts |= {f"en {code}": english, f"xx {code}": other}
        encoder = open_encoder(self.encoder, self.layers, self.revision, self.pooling)
        embeddings = encode_all(encoder, texts, self.layers, self.max_length)
        print_latency(encoder, pairs[next(iter(pairs))][0][0], self.max_length)

        results: list[Result] = []
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            x = {key: value[index] for key, value in embeddings.items()}
            methods = fit_methods(
                {code: x[f"fit {code}"] for code in [*fitted, "en"]},
                self.transforms,
                ranks=self.ranks,
                components=self.components,
                source=spec,
            )
            for method in methods:
                tested = fitted if method.transform else list(pairs)
                results += self._score(method, x, tested, fitted, spec)
        self._report(results, len(fitted))
        return results

    def _score(
        self,
        method: Method,
        x: Mapping[str, Float[np.ndarray, "vector dim"]],
        tested: list[str],
        fitted: list[str],
        spec: EncoderSpec,
    ) -> list[Result]:
        """One result a language; the mean over the fitted ones, and over all where they differ."""
        values, seconds = {}, {}
        for code in tested:
            started = time.perf_counter()
            _, found = nearest(method(x[f"en {code}"], "en"), method(x[f"xx {code}"], code))
            values[code] = accuracy(np.asarray(found)[:, 0], np.arange(len(found)))
            seconds[code] = time.perf_counter() - started

        def entry(metric: str, codes: list[str]) -> Result:
            return result(
                task="tatoeba",
                languages=codes,
                spec=spec,
                max_length=self.max_length,
                method=method,
                fitted_on="udhr all",
                metric=metric,
                value=float(np.mean([values[code] for code in codes])),
                n=sum(len(x[f"en {code}"]) for code in codes),
                seconds=sum(seconds[code] for code in codes),
            )

        means = [fitted] if len(tested) == len(fitted) else [fitted, tested]
        return [entry(f"en-{code} accuracy", [code]) for code in tested] + [
            entry(f"en-xx mean over {len(codes)}", codes) for codes in means
        ]

    def _report(self, results: list[Result], fitted: int) -> None:
        table = by_method(results)
        means = sorted({r.metric for r in results if " mean " in r.metric})
        print_table(
            "Tatoeba, English queries, accuracy in percent",
            ["method", *(f"{metric}, layer {layer}" for layer in self.layers for metric in means)],
            [
                [label, *(row.get((layer, metric), "") for layer in self.layers for metric in means)]
                for label, row in table.items()
            ],
        )
        write_results(results, self.out / "results.jsonl")
        metric = f"en-xx mean over {fitted}"
        bars(
            {f"layer {layer}": {label: row[layer, metric] for label, row in table.items()} for layer in self.layers},
            ylabel="accuracy, %",
            title=f"Tatoeba, English to {fitted} languages ({self.encoder})",
            path=self.out / "methods.png",
        )
        console.print(f"wrote results.jsonl and methods.png to {self.out}")


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
