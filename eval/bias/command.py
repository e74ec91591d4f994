"""The bias report: how one's own text is placed by language, and which layer, method and rank to use on it.

    python -m eval bias --texts mycorpus/ --encoder bundled

``--texts`` is a folder with a file per language (``de.txt``, ``en.txt``, ... with a sentence a line), or parallel text
of English and other languages (``en-de.tsv`` or Moses files). Every layer is encoded in one pass. In cross-validation,
each method is fitted on all folds but one, and measured on the fold that is left out:

- *Search*: if line i has the same content in all files, each sentence searches the sentences of all languages for its
  translations (mAP); with pairs, it searches the other side of its language's pairs (accuracy, from and into English).
- *Preference*: the share of the ten nearest neighbours (fewer in a small pool) in the sentence's own language, beside
  what is expected without preference. *Language identity*: the accuracy of a linear classifier of the language that is
  fitted on other held-out sentences. *Isotropy*: IsoScore, and the mean cosine of two sentences.

The recommended layer and method are those with the highest score in search. In text that is not aligned, there is
nothing to search for: the transforms are then fitted on all of it and scored on the Universal Declaration of Human
Rights (UDHR) in the same languages, which is aligned, but is text of another kind.

Written to ``--out``: ``report.html``, one page with figures that needs no other file; ``transform.safetensors``, the
recommended transform, fitted on all of the text; ``results.jsonl``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from jaxtyping import Bool, Float, Int
from threadpoolctl import threadpool_limits

from eval.bias.candidate import Candidate
from eval.bias.choice import choose
from eval.bias.figures import draw_layers, draw_own_space
from eval.bias.measures import MEASURED, Neutrality, joined, measure_neutrality, measure_search
from eval.bias.own_text import Aligned, OwnText, not_aligned_languages, read_own_text
from eval.bias.page import MARK, Page
from eval.command import RunOptions
from eval.evaluate import encode_texts, result_of
from eval.fitting import Fitting, MethodOptions
from eval.methods import FROM_MOMENTS, Method, MethodName, fit_methods, move_together
from eval.resampling import Queries
from eval.results import Result, read_results, write_results
from eval.run_record import recorded
from eval.task import Score, Task
from eval.tasks.udhr import pool_precision
from lsar_jax import EncoderSpec, SentenceEncoder, corpora
from lsar_jax.checks import whole_number
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import open_encoder
from lsar_jax.files import check_outputs, write_text

__all__ = ["Bias"]

_REPORT, _TRANSFORM, _RESULTS = "report.html", "transform.safetensors", "results.jsonl"
_LAYERS, _SPACE = "layers.png", "space.png"
_OWN, _YARDSTICK = "text", "udhr"

# Names of the measures of the space in results.
_MEASURES = {
    "own": "own language among neighbours",
    "expected": "own language without preference",
    "identified": "language identified",
    "isoscore": "IsoScore",
    "cosine": "mean cosine",
}

# Language -> embeddings of its sentences.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


@dataclass(frozen=True)
class Bias(MethodOptions, RunOptions):
    """How one's own text is placed by language, and which layer, method and rank to use on it.

    Attributes:
      folder: folder with a text file per language, or with parallel text of English and other languages.
      languages: language codes; by default, all that the folder has.
      aligned: whether line i has the same content in all files; by default found out from the text.
      count: maximum number of sentences of each language, drawn at random.
      folds: number of parts for cross-validation.
      seed: seed of the draw, of the parts and of resampling.
      layers: hidden-state layers to compare; by default, all.
      ranks: ranks of LSAR, each in a row of its own; by default, half and all of the dimensions that the means of the
        languages span.
    """

    folder: Annotated[Path, tyro.conf.arg(name="texts")] = Path("texts")
    languages: tuple[str, ...] = ()
    aligned: Aligned = "auto"
    count: int = 1000
    folds: int = 5
    seed: int = 0
    layers: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    transforms: tuple[MethodName, ...] = FROM_MOMENTS
    out: Path = Path("results/bias")

    name = "bias"

    def run(self) -> list[Result]:
        """Encodes, measures every layer and method, chooses one, and writes the report and the transform."""
        with recorded(self):
            return self._evaluate()

    @cached_property
    def text(self) -> OwnText:
        """The user's text, aligned if its form allows it."""
        return read_own_text(self.folder, self.languages, self.count, self.aligned, self.seed)

    @cached_property
    def yardstick(self) -> dict[str, list[str]]:
        """The UDHR in the languages of the text; empty if it has fewer than two of them."""
        shared = [code for code in self.text.codes if code in corpora.udhr("all")]
        return corpora.udhr("all", shared) if len(shared) > 1 else {}

    def _evaluate(self) -> list[Result]:
        self._check()
        self.out.mkdir(parents=True, exist_ok=True)
        encoder = open_encoder(self.encoder, self.layers or None, self.revision, self.pooling, self.dtype)
        layers = self.layers or _comparable_layers(encoder)
        # The options are checked with the ranks that are given; the default ones depend on the embeddings.
        self._fitting.check(encoder, layers)
        # The UDHR is measured unless the text is sure to be aligned.
        yardstick = {} if self.text.pairs or self.aligned == "yes" else self.yardstick
        texts = {(_OWN, code): sentences for code, sentences in self.text.sentences.items()}
        texts |= {(_YARDSTICK, code): paragraphs for code, paragraphs in yardstick.items()}
        encoded = encode_texts(encoder, texts, layers, self.max_length, self.cache)
        every = {code: encoded[_OWN, code] for code in self.text.codes}
        layers, index, ranks = self._spanned(layers, every)
        task = replace(self, layers=layers, ranks=self.ranks or ranks)
        every = {code: x[index] for code, x in every.items()}
        text = self._judged({code: x[-1] for code, x in every.items()})
        paragraphs = {} if text.aligned else {c: x[index] for (group, c), x in encoded.items() if group == _YARDSTICK}
        candidates: list[Candidate] = []
        # One thread: those of BLAS wait without sleeping and take the cores from XLA's.
        with threadpool_limits(1, "blas"):
            for number, layer in enumerate(layers):
                spec = replace(encoder.spec, layer=layer)
                x, further = ({code: rows[number] for code, rows in each.items()} for each in (every, paragraphs))
                candidates += task._layer(text, x, further, spec)
                console.print(f"measured layer {layer}: {len(candidates)} combinations of layer and method so far")
        return self._written(text, every, candidates)

    @property
    def _fitting(self) -> Fitting:
        return Fitting(self, {}, self.text.codes, (), f"{self.folder}, up to {self.count} a language")

    def _spanned(
        self, layers: Sequence[int], x: Mapping[str, Float[np.ndarray, "layer _ dim"]]
    ) -> tuple[tuple[int, ...], list[int], tuple[int, ...]]:
        """Returns the layers at which the means of the languages differ, their places, and the default ranks.

        At the embedding output the vector of the first token is the same for all sentences; and languages whose files
        have the same text have the same mean.
        """
        means = np.stack([rows.mean(axis=1) for rows in x.values()], axis=1).astype(np.float64)
        spans = [int(np.linalg.matrix_rank(each - each.mean(axis=0), tol=1e-4 * np.abs(each).max())) for each in means]
        kept = [number for number, span in enumerate(spans) if span]
        if not kept:
            raise ValueError(f"the languages of {self.folder} have the same mean at every layer; give different texts")
        if left_out := [layer for layer, span in zip(layers, spans, strict=True) if not span]:
            console.print(f"left out layer {' '.join(map(str, left_out))}, where all languages have the same mean")
        most = min(spans[number] for number in kept)
        return tuple(layers[n] for n in kept), kept, tuple(dict.fromkeys((max(1, most // 2), most)))

    def _judged(self, x: ByLanguage) -> OwnText:
        """Returns the text, as not aligned if its embeddings say so."""
        text = self.text
        if text.pairs or not text.aligned or self.aligned != "auto":
            return text
        lacking = not_aligned_languages(text, x)
        if lacking:
            console.print(
                f"The files of {self.folder} have as many lines each, but those of {', '.join(lacking)} do not "
                "find the lines of the same number in other languages: the text is read as not aligned. Correct or "
                "leave out these files, or say --aligned yes."
            )
            return text.not_aligned()
        console.print(
            f"The files of {self.folder} have as many lines each, and lines find those of the same number in other "
            "languages: the text is read as aligned (--aligned no reads it otherwise)."
        )
        return text

    def _check(self) -> None:
        if "original" not in self.transforms:
            raise ValueError("--transforms lacks original, which all others are compared with; add it")
        whole_number("--count", self.count, 20, 10**9, "sentences of a language")
        fewest = min(map(len, self.text.sentences.values()))
        whole_number("--folds", self.folds, 2, fewest // 5, "a fifth of the sentences of the smallest language")
        if len(self.text.codes) == 2 and "lsar-published" in self.transforms:
            console.print("lsar-published is lsar at full rank, and two languages have no other: it is left out")
        report = self.out / _REPORT
        ours = report.is_file() and MARK in report.read_text(encoding="utf-8", errors="replace")
        check_outputs([report, self.out / _TRANSFORM], overwrite=self.overwrite or ours)

    def _fits(self, x: ByLanguage, spec: EncoderSpec) -> list[Method]:
        """Fits every method; the published form of LSAR only below full rank, where it differs from LSAR."""
        names = [name for name in self.transforms if name != "lsar-published"]
        made = fit_methods(x, names, self.varied, source=spec)
        below = tuple(rank for rank in self.ranks if rank < len(x) - 1)
        if below and "lsar-published" in self.transforms:
            made += fit_methods(x, ("lsar-published",), {"rank": below}, source=spec)
        return sorted(made, key=lambda method: self.transforms.index(method.name))

    def _layer(self, text: OwnText, x: ByLanguage, paragraphs: ByLanguage, spec: EncoderSpec) -> list[Candidate]:
        """Measures every method at a layer by cross-validation."""
        fold_of, order = text.folds(self.folds, self.seed), text.order(self.seed)
        most = max(MEASURED // len(x), 10)
        whole = self._fits(x, spec)
        searches: list[list[Queries]] = [[] for _ in whole]
        spaces: list[list[Neutrality]] = [[] for _ in whole]
        for fold in range(self.folds):
            own = {code: folds == fold for code, folds in fold_of.items()}
            few = {code: _drawn(rows, order[code], most) for code, rows in own.items()}
            # Pairs are searched language by language, a pool of all languages is not: it is kept small.
            held_out = own if text.pairs else few
            units = {code: text.units[code][rows] for code, rows in few.items()}
            methods = self._fits({code: rows[fold_of[code] != fold] for code, rows in x.items()}, spec)
            for number, method in enumerate(methods):
                test = move_together(method, {code: rows[held_out[code]] for code, rows in x.items()})
                pool = {code: rows[few[code][held_out[code]]] for code, rows in test.items()}
                spaces[number].append(measure_neutrality(pool, units))
                if text.aligned:
                    searches[number].append(measure_search(test, text, held_out))
        result = []
        for method, several, measured in zip(whole, searches, spaces, strict=True):
            found = joined(several) if several else None
            if paragraphs:
                found = pool_precision(move_together(method, paragraphs))
            mean = Neutrality(*np.mean(measured, axis=0).tolist())
            result.append(Candidate(spec, method, mean, found))
        return result

    def _written(self, text: OwnText, x: Mapping[str, np.ndarray], candidates: Sequence[Candidate]) -> list[Result]:
        """Chooses a layer and method; writes the results, the transform, the figures and the page."""
        metric = self._metric(text)
        searched = list(self.text.codes if text.aligned else self.yardstick)
        options = {"folder": str(self.folder), "aligned": self.aligned, "count": self.count, "folds": self.folds}
        task = Task("bias", f"Language in {self.folder}", self.text.codes, [], lambda *_: (), options=options)
        results = [
            result_of(task, self._fitting, one.spec, one.method, score, self.max_length)
            for one in candidates
            for score in _scores(one, metric, searched, text.codes, sum(map(len, text.sentences.values())))
        ]
        write_results(results, self.out / _RESULTS)
        choice = choose([one.search for one in candidates if one.search is not None]) if metric else None
        page = Page(
            self.folder, text, metric, candidates, choice, self.folds, list(self.yardstick), self._known_paragraphs,
            self._opening,
        )  # fmt: skip
        print_table(*page.table())
        for line in page.summary():
            console.print(line)
        shown = page.shown
        if choice and shown.method.transform is not None:
            shown.method.transform.save(self.out / _TRANSFORM)
        else:
            (self.out / _TRANSFORM).unlink(missing_ok=True)  # that of an earlier report
        draw_layers(candidates, metric, self.out / _LAYERS)
        index = list(dict.fromkeys(one.spec.layer for one in candidates)).index(shown.spec.layer)
        draw_own_space(shown.method, text, {code: rows[index] for code, rows in x.items()}, self.out / _SPACE)
        write_text(
            self.out / _REPORT,
            page.html(self.out / _LAYERS, self.out / _SPACE, self.out / _TRANSFORM, read_results(self.out / _RESULTS)),
        )
        console.print(f"wrote the report, results and figures to {self.out}")
        return results

    @property
    def _known_paragraphs(self) -> int:
        """The number of sentences of the text that are paragraphs of the declaration."""
        return sum(len(set(self.text.sentences[code]) & set(paragraphs)) for code, paragraphs in self.yardstick.items())

    @property
    def _opening(self) -> str:
        """Returns the arguments of ``load_encoder`` that open this encoder, but for the layer."""
        given = {"revision": self.revision, "pooling": self.pooling, "dtype": self.dtype}
        named = [f"{name}={value!r}" for name, value in given.items() if value not in (None, "float32")]
        return ", ".join([repr(self.encoder), *named])

    def _metric(self, text: OwnText) -> str:
        if text.pairs:
            return "accuracy of pairs"
        if text.aligned:
            return "mAP"
        return "mAP on the UDHR" if self.yardstick else ""


def _comparable_layers(encoder: SentenceEncoder) -> tuple[int, ...]:
    """Returns all layers; only the last if the checkpoint's own steps, such as LaBSE's, follow the pooling there."""
    if encoder.projection is not None:
        console.print(f"{encoder.spec.pooling} belongs to layer {encoder.spec.layer}; other layers need --pooling")
        return (encoder.spec.layer,)
    return tuple(range(encoder.spec.layer + 1))


def _drawn(rows: Bool[np.ndarray, " _"], order: Int[np.ndarray, " _"], most: int) -> Bool[np.ndarray, " _"]:
    """Returns at most so many of the rows that are chosen: the first in a random order."""
    chosen = np.flatnonzero(rows)
    kept = np.zeros_like(rows)
    kept[chosen[np.argsort(order[chosen], kind="stable")[:most]]] = True
    return kept


def _scores(one: Candidate, metric: str, searched: Sequence[str], codes: Sequence[str], count: int) -> Iterator[Score]:
    """Yields the score in search, of the searched languages, and the measures of the space, of those of the text."""
    if one.search is not None:
        yield Score.of(metric, searched, one.search)
    for name, value in one.neutrality._asdict().items():
        yield Score(_MEASURES[name], value, codes, count)
