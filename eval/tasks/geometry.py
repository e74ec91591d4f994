"""The geometry of embeddings after each method: anisotropy, isotropy, outliers, and remaining language information.

    python -m eval geometry                                   # the UDHR, which comes with the library
    python -m eval geometry --text tatoeba                    # 36 languages and English, fitted on the UDHR
    python -m eval geometry --text tatoeba --fit-on evaluated # fitted on the measured sentences
    python -m eval geometry --text tatoeba --transforms original --layers 8     # Hämmerl et al. 2023, Table 1
    python -m eval geometry --text data/wiki --transforms original --layers 12  # their Tables 2 and 3: ar.txt, en.txt
    python -m eval geometry --text tatoeba --pair en de       # their Figure 3
    python -m eval geometry --xquad data/xquad-r              # adds language preference, questions and answers

On the UDHR, one half of the paragraphs is measured; methods are fitted on the other half, or on the text of
``--fit-on``. The measures are:

- the exact mean cosine of two sentences within a language, across languages and overall, and the mean cosine of 10,000
  random pairs within each language;
- the same of a sentence in English and one in another language; on Tatoeba, each language has its own English side;
- the mean of each outlier dimension and its contribution to that cosine, in the original embeddings;
- IsoScore;
- NMI between k-means clusters and languages, and the accuracy of a linear language probe;
- the share of the ten nearest neighbours that are in the query's language, beside that language's share of the pool;
- the correlation between URIEL's syntactic similarity to English and the cosine with English's mean, for the part of
  the language means that LSAR removes and for the part that it leaves (Xie et al. 2022).

``dimensions.jsonl`` lists the outliers and the largest contributions for each language and layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from eval.anisotropy import ByLanguage, Contributions, mean_contributions, of_pairs, outliers, within
from eval.data.measured_text import MeasuredText, read_text
from eval.data.typology import syntactic_distances, syntax_correlation
from eval.data.xquad import XQUAD_R
from eval.figures.embedding_space import draw_pair, draw_space
from eval.figures.layers import draw_layers
from eval.figures.removed import syntax
from eval.fitted_task import FittedTask
from eval.methods import ALL_METHODS, Method, MethodName
from eval.metrics import language_nmi, language_probe, own_share
from eval.results import Result, write_results
from eval.score import Score
from eval.task import Embedded, Encoded, Task, Texts, languages_of
from eval.tasks.answer_preference import AnswerPreference
from lsar_jax import EncoderSpec, SentenceEncoder, corpora
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import encode_all
from lsar_jax.corpora.sentence_filters import check_count
from lsar_jax.corpora.tables import Data
from lsar_jax.geometry import anisotropy_by_language, isoscore
from lsar_jax.languages import language_code
from lsar_jax.transforms import fit_identifier

__all__ = ["Geometry"]

# The groups of the texts to fit on and to measure.
_FIT, _MEASURED = "fit", "measured"


@dataclass(frozen=True)
class Geometry(FittedTask):
    """Measures and figures of the embedding space before and after each method.

    Attributes:
      layers: layers at which methods are compared; figures show the first.
      text: the text to measure: udhr; tatoeba; or a folder with one text file per language, such as de.txt, and one
        sentence per line, of which the first 10,000 are measured.
      data: folder of tatoeba.xxx-eng.xxx files; hub:ID; or tfds:NAME with {} for the language.
      languages: language codes; by default, all in the text.
      fit_on: text to fit transforms on: udhr, for the Universal Declaration of Human Rights (if it is also measured,
        the half of its paragraphs that is not); evaluated, for the measured sentences; a folder with one text file per
        language; tfds:NAME/{}; or hub:ID. Languages without such text are left out.
      pair: codes of two languages to draw alone, by t-SNE; by default, none.
      xquad: folder of XQuAD-R, for language preference and the figure of questions and answers; for these, methods are
        always fitted on the UDHR.
      uriel: path of lang2vec's distances2.zip; by default, cosine distances are computed from the features in
        lang2vec's wheel.
      seeds: seeds of k-means.
    """

    name = "geometry"
    fits_evaluated = True

    transforms: tuple[MethodName, ...] = ALL_METHODS
    out: Path = Path("results/geometry")
    text: str = "udhr"
    data: Data = Path("data/tatoeba")
    languages: tuple[str, ...] = ()
    pair: tuple[str, str] | None = None
    xquad: Path | None = None
    uriel: Path | None = None
    seeds: tuple[int, ...] = (0, 1, 2)

    # Rows of the printed tables, by title.
    _tables: dict[str, list[list[str | float]]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _encoded: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def title(self) -> str:
        """The title of tables."""
        return f"{len(self._text.texts)} languages; cosines, shares and scores from 0 to 1, the probe in percent"

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
        return "udhr fit" if self.text == self.fit_on == "udhr" else super().fitted_on

    def lacking(self, name: MethodName) -> str:
        """Returns why a method cannot be fitted here, as the end of a sentence; empty if it can."""
        return "which geometry cannot fit; omit it" if name == "sample-whitening" else super().lacking(name)

    def codes(self) -> list[str]:
        """Returns the measured languages."""
        return list(self._text.texts)

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on; empty if transforms are fitted on the measured sentences."""
        return self._fit_texts

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on, in those of the given languages that have text."""
        if not self.text == self.fit_on == "udhr":
            return super().some_fit_texts(languages)
        check_count(self.fit_count)
        known = corpora.udhr("fit")
        return {code: known[code][: self.fit_count] for code in languages if code in known}

    def texts(self) -> Texts:
        """Returns the texts to measure."""
        if len(self._text.texts) < 3:
            raise ValueError(f"the languages are {', '.join(self._text.texts)}; geometry needs at least three")
        # Read the other files now, so that errors in them appear before encoding.
        _ = self._pair, self._syntax, self._answers and (self._answers.questions, self._answers.pair_texts())
        return {(_MEASURED, code): text for code, text in self._text.texts.items()}

    def encode(self, encoder: SentenceEncoder, texts: Texts) -> Encoded:
        """Returns the embeddings at the layers to compare; the measured ones at all layers are kept for the curves."""
        every = tuple(range(encoder.spec.layer + 1))
        languages = languages_of(texts)
        fit = {key: text for key, text in texts.items() if key[0] == _FIT}
        measured = {key: text for key, text in texts.items() if key not in fit}
        # Programs are compiled for a choice of layers, so that a short text to fit on is best encoded at all of them.
        short = sum(map(len, fit.values())) <= sum(map(len, measured.values()))
        given = texts if short else measured
        whole = encode_all(encoder, given, every, self.max_length, languages, self.cache)
        self._encoded["encoder"] = encoder
        self._encoded["measured"] = {code: whole[_MEASURED, code] for _, code in measured}
        chosen = {key: x[list(self.layers)] for key, x in whole.items()}
        if short:
            return chosen
        return chosen | encode_all(encoder, fit, self.layers, self.max_length, languages, self.cache)

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on the fitting text, or on the measured sentences."""
        return self.fit(_of(x, _MEASURED), spec) if self.fit_on == "evaluated" else super().methods(x, spec)

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields all measures of transformed embeddings."""
        test = _of(x, _MEASURED)
        own = {code: within(rows) for code, rows in test.items()}
        values = self._measures(test, own)
        row = f"{spec.layer} {_short(method)}"
        self._add(self.title, ["", *values], [row, *(f"{value:.3f}" for value in values.values())])
        languages, count = list(test), sum(map(len, test.values()))
        for name, value in values.items():
            yield Score(name, value, languages, count)
        for code, contributions in own.items():
            drawn, exact = contributions.anisotropy
            yield Score(f"cosine within {code}", exact, [code], len(test[code]))
            yield Score(f"drawn within {code}", drawn, [code], len(test[code]))
        if method.transform is None:
            self._add_languages(test, own, spec.layer)
        if english := self._english(test):
            yield from self._with_english(test, english, method, spec)

    def layer_scores(self, x: Embedded, methods: Sequence[Method], spec: EncoderSpec) -> Iterator[tuple[Method, Score]]:
        """Yields the accuracy of language identification and the correlations with syntax; draws the first layer."""
        test, fit = _of(x, _MEASURED), _of(x, _FIT)
        if fit:
            yield from self._identified(fit, test, spec)
        if self._syntax is not None:
            yield from self._typology(methods, test, spec, *self._syntax)
        if spec.layer == self.layers[0]:
            english, title = self._english(test), f"layer {spec.layer} ({self.encoder})"
            draw_space(methods, test, english, title, self.out)
            if self._pair is not None:
                # On Tatoeba, the English side is that of the other language.
                a, b = self._pair
                sides = {one: english[other] if one == "en" else test[one] for one, other in ((a, b), (b, a))}
                draw_pair(methods, sides, title, self.out)

    def measure(self, encoder: SentenceEncoder | None = None) -> list[Result]:
        """Encodes, fits, transforms and measures; the language preference of answers comes last."""
        results = super().measure(encoder)
        if self._answers is not None:
            answers = self._answers.measure(self._encoded["encoder"])
            results += [replace(result, options=self.options) for result in answers]
        return results

    def report(self, results: Sequence[Result]) -> None:
        """Prints tables, draws all layers, and writes ``results.jsonl``."""
        draw_layers(self._encoded["measured"], self.encoder, self.out)
        for title, (columns, *rows) in self._tables.items():
            print_table(title, [f"{column}" for column in columns], rows)
        if self._answers is not None:
            self._answers.report(results)
        write_results(results, self.out / "results.jsonl")
        console.print(f"wrote results and figures to {self.out}")

    @cached_property
    def _answers(self) -> AnswerPreference | None:
        if self.xquad is None:
            return None
        shared = {one.name: getattr(self, one.name) for one in fields(Task)}
        # The means of its languages span fewer directions.
        shared["ranks"] = tuple(rank for rank in self.ranks if rank < len(XQUAD_R))
        return AnswerPreference(**shared, parallel=self.parallel, data=self.xquad)

    @cached_property
    def _pair(self) -> tuple[str, str] | None:
        """The codes of the two languages to draw alone."""
        if self.pair is None:
            return None
        a, b = map(language_code, self.pair)
        if a == b or not {a, b} <= set(self._text.texts):
            raise ValueError(
                f"--pair is {' '.join(self.pair)}; it must be two different ones of the measured languages, "
                f"{', '.join(self._text.texts)}"
            )
        return a, b

    @cached_property
    def _every(self) -> MeasuredText:
        """The text to measure, in all its languages."""
        every = read_text(self.text, self.data, self.languages)
        if self.text != "udhr" and Path(self.text).resolve() == Path(self.fit_on).resolve():
            raise ValueError(f"--fit-on {self.fit_on} is the measured text; set it to evaluated, or to another text")
        return every

    @cached_property
    def _fit_texts(self) -> dict[str, list[str]]:
        further = self.further_codes(self._every.texts)
        return {} if self.fit_on == "evaluated" else self.some_fit_texts([*self._every.texts, *further])

    @cached_property
    def _text(self) -> MeasuredText:
        """The text to measure, in the languages that there is text to fit on in."""
        every = self._every.texts
        fit = self._fit_texts if self.fits else {}
        if not fit:
            return self._every
        if lacking := [code for code in every if code not in fit]:
            console.print(f"--fit-on {self.fit_on} has no text in {', '.join(lacking)}: these are not measured either")
        return self._every.only(fit)

    def _english(self, x: ByLanguage) -> dict[str, Float[np.ndarray, "_ dim"]]:
        """Returns the English side of each other language; empty if English is not measured."""
        return {code: x["en"][rows] for code, rows in self._text.english_rows().items()}

    def _add(self, title: str, columns: Sequence[str], row: Sequence[str | float]) -> None:
        """Adds a row to a table, to be printed at the end."""
        self._tables.setdefault(title, [list(columns)]).append(list(row))

    def _add_languages(self, x: ByLanguage, own: Mapping[str, Contributions], layer: int) -> None:
        """Adds the anisotropy and the outliers of each language to a table."""
        for code, contributions in own.items():
            drawn, exact = contributions.anisotropy
            found = outliers(np.asarray(x[code]).mean(axis=0), contributions)
            told = ", ".join(f"{one.dimension} ({one.mean:.2f}; {one.contribution:.3f})" for one in found[:5])
            columns = ["language", "mean cosine", "drawn", "largest outliers (mean; contribution)"]
            title = f"Within each language, original embeddings, layer {layer}"
            self._add(title, columns, [code, f"{exact:.3f}", f"{drawn:.3f}", told or "none"])

    def _measures(self, x: ByLanguage, own: Mapping[str, Contributions]) -> dict[str, float]:
        cosines = anisotropy_by_language(x)
        codes = [code for code, rows in x.items() for _ in rows]
        pool = np.concatenate(list(x.values()))
        numbers = np.unique(codes, return_inverse=True)[1]
        top = own_share(pool, numbers, 10)
        return {
            "cosine within": cosines.within,
            "drawn": float(np.mean([contributions.anisotropy[0] for contributions in own.values()])),
            "cosine across": cosines.across,
            "cosine of all": cosines.overall,
            "IsoScore": isoscore(pool),
            "NMI": float(language_nmi(pool, codes, self.seeds).mean()),
            "probe": language_probe(pool, codes, [n for rows in x.values() for n in range(len(rows))]),
            "own in first 10": top.share,
            "own in pool": top.pool_share,
        }

    def _with_english(
        self, test: ByLanguage, english: ByLanguage, method: Method, spec: EncoderSpec
    ) -> Iterator[Score]:
        """Yields the anisotropy of English and another language, and the outliers of the original embeddings."""
        languages, count = list(test), sum(map(len, test.values()))
        parallel = self._text.parallel
        mean = mean_contributions([of_pairs(test[code], side, parallel=parallel) for code, side in english.items()])
        drawn, exact = mean.anisotropy
        yield Score("cosine English-xx", exact, languages, count)
        yield Score("drawn English-xx", drawn, languages, count)
        title = f"A sentence in English and one in another language, mean over {len(english)} languages"
        row = f"{spec.layer} {_short(method)}"
        self._add(title, ["", "mean cosine", "drawn"], [row, f"{exact:.3f}", f"{drawn:.3f}"])
        if method.transform is not None:
            return
        title = f"Outlier dimensions of the mean over {len(english)} languages without English, original embeddings"
        center = np.mean([test[code].mean(axis=0) for code in english], axis=0)
        for dimension, entry, share in outliers(center, mean):
            yield Score(f"contribution of dimension {dimension}", share, languages, count)
            yield Score(f"mean of dimension {dimension}", entry, languages, count)
            shown = [f"{spec.layer}", f"{dimension}", f"{entry:.2f}", f"{share:.3f}"]
            self._add(title, ["layer", "dimension", "mean", "contribution to English-xx"], shown)

    def _identified(self, fit: ByLanguage, test: ByLanguage, spec: EncoderSpec) -> Iterator[tuple[Method, Score]]:
        """Yields the accuracy of ``language="auto"`` for each language."""
        accuracy = fit_identifier(fit, source=spec).accuracy(test)
        least = sorted(accuracy, key=lambda code: accuracy[code])[:5]
        console.print(
            f"layer {spec.layer}: the language is identified in {np.mean(list(accuracy.values())):.1f}% of sentences, "
            f"mean over languages; lowest: {', '.join(f'{code} {accuracy[code]:.0f}%' for code in least)}"
        )
        method = Method("identifier", {}, None)
        for code, value in accuracy.items():
            yield method, Score("auto accuracy", value, [code], len(test[code]), fitted_on=self.fitted_on)

    @cached_property
    def _syntax(self) -> tuple[dict[str, float], str] | None:
        """The syntactic distances from English and the name of the measure; None if unavailable, and prints why."""
        languages = self._text.texts
        why = None
        if self.fit_on == "evaluated":
            why = "the language means would coincide, because LSAR is fitted on the measured sentences"
        elif "lsar" not in self.transforms:
            why = "it compares the parts that LSAR removes and leaves, but lsar is not among --transforms"
        elif "en" not in languages or len(languages) < 4:
            why = "it needs English and at least three other languages"
        else:
            try:
                return syntactic_distances(languages, precomputed=self.uriel)
            except ImportError as error:
                why = str(error)
        console.print(f"skipping the correlation with syntax: {why}")
        return None

    def _typology(
        self,
        methods: Sequence[Method],
        test: ByLanguage,
        spec: EncoderSpec,
        distances: Mapping[str, float],
        measure: str,
    ) -> Iterator[tuple[Method, Score]]:
        """Yields the correlation of syntactic similarity and the cosines of language means with English's; draws it."""
        rows: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
        means = {code: x.mean(axis=0) for code, x in test.items()}
        for method in (method for method in methods if method.name == "lsar"):
            left = {code: method(mean[None], code)[0] for code, mean in means.items()}
            gone = {code: means[code] - left[code] for code in means}
            for what, vectors in (("removed", gone), ("left", left)):
                where = f"layer {spec.layer}, {method.label}"
                try:
                    found = syntax_correlation(vectors, distances)
                except ValueError as error:  # one direction makes all cosines 1 or -1
                    console.print(f"{where}: skipping the correlation with syntax in the part {what} by LSAR: {error}")
                    continue
                yield method, Score(f"syntax, {what} ({measure})", found.r, list(test), found.n)
                console.print(
                    f"{where}: cosine with English's mean in the part {what} by LSAR, and syntactic similarity to "
                    f"English: r = {found.r:.3f} over {found.n} languages ({measure})"
                )
                panels = rows.setdefault(method.label, {})
                panels[f"the part {what} by {method.label}, r = {found.r:.3f}"] = found.points
        if rows and spec.layer == self.layers[0]:
            title = f"Language means and syntax, layer {spec.layer} ({self.encoder}); {measure.partition(',')[0]}"
            syntax(list(rows.values()), title, self.out / "syntax.png")


def _of(x: Embedded, group: str) -> dict[str, Float[np.ndarray, "_ dim"]]:
    return {code: value for (own, code), value in x.items() if own == group}


def _short(method: Method) -> str:
    """Returns the name of a method, with the arguments that may vary within a run."""
    shown = [f"{value}" for key, value in method.parameters.items() if key == "rank" or method.name == "lir"]
    return " ".join([method.name, *shown])
