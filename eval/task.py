"""The evaluation loop shared by all tasks: encode, fit, transform and score, for each layer and method.

A task supplies its texts and scores the transformed embeddings. This module holds the loop, the options that all tasks
share, the record of each result, the table and the bar chart.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float

from eval.figures.plots import bars
from eval.methods import FITTED, FileMethod, Method, MethodName, check_methods, fit_methods, saved_method, told_steps
from eval.option_checks import check_distinct_methods, check_options, check_spaces
from eval.results import Result, by_method, write_results
from eval.run_record import recorded
from eval.score import Score
from eval.speed.timing import print_latency
from lsar_jax import EncoderSpec, SentenceEncoder, Transform
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import encode_all, open_encoder
from lsar_jax.corpora.tables import pin

__all__ = ["Embedded", "Encoded", "Key", "Task", "Texts", "languages_of"]

# (group, language), which identifies a set of texts. Group ``en`` has the English translations of that language's
# sentences.
Key = tuple[str, str]
Texts = Mapping[Key, Sequence[str]]
# Embeddings at all layers, and at one layer.
Encoded = Mapping[Key, Float[np.ndarray, "layer _ dim"]]
Embedded = Mapping[Key, Float[np.ndarray, "_ dim"]]
# The index of a layer in the task's ``layers``, its spec, and the methods fitted on it.
Fitted = tuple[int, EncoderSpec, list[Method]]

_FIT = "fit"


@dataclass(frozen=True)
class Task(ABC):
    """An evaluation of an encoder before and after each transform.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      revision: commit, tag or branch of a Hub id.
      pooling: mean, mean_no_special, cls, max or pooler; by default, the checkpoint's own.
      layers: hidden-state layers to test; 0 is the embedding output.
      transforms: methods to compare.
      ranks: ranks of LSAR, each in a row of its own; by default, one less than the number of languages it is fitted on.
      components: numbers of components that LIR removes, each in a row of its own.
      largest: numbers of dimensions with the largest means in each language but English whose union the method
        largest zeroes, each in a row of its own.
      zero: dimensions that the method zero zeroes, such as 588 or 588,306, each in a row of its own.
      fit_seeds: seeds of CBIE's clustering; each gives its own result, and tables show their mean.
      saved: files of transforms that were fitted on this encoder, to add to the comparison; each is tested at the layer
        that it was fitted on.
      dtype: float32 or bfloat16, for parameters and matrix products.
      max_length: maximum number of tokens per sentence.
      cache: folder for embeddings, which other tasks read too; by default, none are kept.
      out: folder for the JSON lines and figures.
      overwrite: replace results in the folder that are from other options.
    """

    name: ClassVar[str]

    encoder: str = "bundled"
    revision: str | None = None
    pooling: str | None = None
    layers: tuple[int, ...] = (8, 12)
    transforms: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")
    ranks: tuple[int, ...] = ()
    components: tuple[int, ...] = (1,)
    largest: tuple[int, ...] = (10,)
    zero: tuple[str, ...] = ()
    fit_seeds: tuple[int, ...] = (0,)
    saved: tuple[Path, ...] = ()
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_length: int = 128
    cache: Path | None = None
    out: Path = Path("results")
    overwrite: bool = False

    # What a task defines.

    @property
    @abstractmethod
    def title(self) -> str:
        """The title of tables and figures."""

    @property
    @abstractmethod
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""

    @abstractmethod
    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on in each language; empty if transforms are fitted on the measured texts."""

    @abstractmethod
    def texts(self) -> Texts:
        """Reads and checks the data, and returns the texts to measure."""

    @abstractmethod
    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterable[Score]:
        """Returns the scores of embeddings that a method has transformed."""

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns the metrics to print in the table, by default all; the first is also drawn as a bar chart."""
        return list(dict.fromkeys(result.metric for result in results))

    def draw(self, results: Sequence[Result]) -> None:
        """Draws figures in addition to the bar chart that every task has; by default, there are none."""
        return None

    # What a task may override.

    def fitted_languages(self, fit: Mapping[str, Sequence[str]]) -> int:
        """Returns the number of languages to fit on."""
        return len(fit)

    def pair_texts(self) -> Texts:
        """Returns parallel text to fit on, in groups whose names begin with fit; by default none."""
        return {}

    def lacking(self, name: MethodName) -> str:
        """Returns why a method cannot be fitted here, as the end of a sentence; empty if it can."""
        return "" if name == "original" or name in FITTED else f"which {self.name} cannot fit; omit it"

    def parts(self) -> Iterator[Texts]:
        """Yields the texts to measure in parts; each part is encoded and scored before the next."""
        yield self.texts()

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on the embeddings of the fitting texts."""
        return self.fit({code: value for (group, code), value in x.items() if group == _FIT}, spec)

    def moved(self, x: Embedded, method: Method) -> Embedded:
        """Returns the measured embeddings, transformed by a method."""
        test = {key: value for key, value in x.items() if not key[0].startswith(_FIT)}
        if isinstance(method, FileMethod):
            return method.moved(test)
        return {key: method(value, _language(key)) for key, value in test.items()}

    def means(self, scores: Sequence[Score]) -> Iterable[Score]:
        """Returns means over the scores of all parts; by default none."""
        return ()

    def layer_scores(self, x: Embedded, methods: Sequence[Method], spec: EncoderSpec) -> Iterable[tuple[Method, Score]]:
        """Returns scores that belong to a layer as a whole, to add after those of its methods; by default none."""
        return ()

    # The loop.

    def run(self) -> list[Result]:
        """Measures, prints a table, and writes ``results.jsonl`` and figures to ``out``."""
        with recorded(self):
            return self.evaluate()

    def evaluate(self) -> list[Result]:
        """Does the work of ``run``, which checks before that no other results are lost."""
        task = self.pinned()
        results = task.measure()
        # First what took the longest to find out.
        task.report(results)
        task.draw(results)
        return results

    def measure(self, encoder: SentenceEncoder | None = None) -> list[Result]:
        """Encodes the texts, fits the methods, and scores the transformed embeddings.

        Args:
          encoder: an encoder already loaded with the layers of this task; by default it is loaded here.
        """
        parts = map(self.checked, self.parts())
        first = next(parts)
        fit = self.fit_texts() if self.fits else {}
        encoder = self.prepare(self.fitted_languages(fit), encoder)
        fitting = {(_FIT, code): text for code, text in fit.items()} | dict(self.pair_texts())
        second = next(parts, None)
        if second is None:
            encoded = self.encode(encoder, {**fitting, **first})
            # One layer after another: the transforms of a layer are not needed once it is scored.
            return [one for layer in self.fitted(encoded, encoder.spec) for one in self.scored([layer], [encoded])]
        encoded = self.encode(encoder, fitting) if fitting else {}
        every = (
            encode_all(encoder, part, self.layers, self.max_length, languages_of(part), self.cache)
            for part in chain((first, second), parts)
        )
        return self.scored(list(self.fitted(encoded, encoder.spec)), every)

    def fitted(self, encoded: Encoded, spec: EncoderSpec) -> Iterator[Fitted]:
        """Fits every method on one layer after another; yields the index of the layer, its spec, and its methods."""
        for index, layer in enumerate(self.layers):
            own = replace(spec, layer=layer)
            yield index, own, self.methods(_layer(encoded, index), own)

    def scored(self, fitted: Sequence[Fitted], parts: Iterable[Encoded]) -> list[Result]:
        """Transforms the embeddings of each part with every method, and scores them."""
        every = [(index, spec, method) for index, spec, methods in fitted for method in methods]
        scores: list[list[Score]] = [[] for _ in every]
        seconds = [0.0] * len(every)
        last: Encoded = {}
        for last in parts:
            for number, (index, spec, method) in enumerate(every):
                x = self.moved(_layer(last, index), method)
                started = time.perf_counter()
                scores[number] += self.scores(x, method, spec)
                seconds[number] += time.perf_counter() - started
        results = []
        for layer, spec, methods in fitted:
            for (index, _, method), several, spent in zip(every, scores, seconds, strict=True):
                if index == layer:
                    results += [self.result(spec, method, score, spent) for score in (*several, *self.means(several))]
            for method, score in self.layer_scores(_layer(last, layer), methods, spec):
                results.append(self.result(spec, method, score, 0.0))
        return results

    # The steps of the loop.

    def pinned(self) -> Self:
        """Returns the task with every Hub dataset that it reads pinned to its current commit."""
        unread = {"out", "encoder"} if self.fits else {"out", "encoder", "fit_on"}
        names = [field.name for field in fields(self) if field.init and field.name not in unread]
        values = {name: getattr(self, name) for name in names}
        pinned: dict[str, Any] = {name: pin(v) for name, v in values.items() if isinstance(v, Path | str)}
        return replace(self, **pinned)

    @property
    def options(self) -> dict[str, Any]:
        """The options that are specific to this task, as JSON values."""
        shared = {field.name for field in fields(Task)}
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name not in shared}
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in own.items()}
        return {name: list(map(str, value)) if isinstance(value, tuple) else value for name, value in plain.items()}

    @property
    def varied(self) -> dict[str, Sequence[Any]]:
        """The values of each option that methods are fitted with, each in a row of its own."""
        return {
            "rank": self.ranks,
            "components": self.components,
            "largest": self.largest,
            "zero": self.zero,
            "seed": self.fit_seeds,
        }

    @property
    def fits(self) -> bool:
        """Whether any method needs fitting."""
        return set(self.transforms) != {"original"}

    def prepare(self, fitted: int, encoder: SentenceEncoder | None = None) -> SentenceEncoder:
        """Checks the options, creates the output folder, and loads the encoder unless it is given.

        Args:
          fitted: number of languages to fit on.
          encoder: an encoder already loaded.

        Raises:
          ValueError: the options contradict each other, or a saved transform belongs to other embeddings.
        """
        names = ("layers", "transforms", "ranks", "components", "largest", "zero", "fit_seeds")
        check_options({name: getattr(self, name) for name in names}, self.lacking, fitted)
        check_distinct_methods(self._saved)
        self.out.mkdir(parents=True, exist_ok=True)
        if encoder is None:
            encoder = open_encoder(self.encoder, self.layers, self.revision, self.pooling, self.dtype)
        widest = max(encoder.dim, *(encoder.model.config.widths[layer] for layer in self.layers))
        check_methods(self.transforms, self.varied, fitted, widest)
        check_spaces(self._saved, [replace(encoder.spec, layer=layer) for layer in self.layers])
        return encoder

    @cached_property
    def _saved(self) -> dict[Path, Method]:
        return {path: saved_method(Transform.load(path)) for path in self.saved}

    def checked(self, texts: Texts) -> Texts:
        """Returns the texts; raises ValueError if a saved transform was not fitted on one of their languages."""
        for path, lacking in self.untaken(texts).items():
            raise ValueError(
                f"{path} was not fitted on {', '.join(lacking)}; omit the file, or test languages that it was fitted on"
            )
        return texts

    def untaken(self, texts: Texts) -> dict[Path, list[str]]:
        """Returns the tested languages that a saved transform was not fitted on, for each that has any."""
        codes = dict.fromkeys(map(_language, texts))
        lacking = {path: [code for code in codes if not method.takes(code)] for path, method in self._saved.items()}
        return {path: some for path, some in lacking.items() if some}

    def encode(self, encoder: SentenceEncoder, texts: Texts) -> Encoded:
        """Returns the embeddings of the texts by key, and prints speed and latency."""
        languages = languages_of(texts)
        embeddings = encode_all(encoder, texts, self.layers, self.max_length, languages, self.cache)
        first = next(iter(texts))
        print_latency(encoder, texts[first][0], languages[first], self.max_length)
        return embeddings

    def fit(
        self,
        x: Mapping[str, Float[np.ndarray, "_ dim"]],
        spec: EncoderSpec,
        names: Sequence[MethodName] | None = None,
    ) -> list[Method]:
        """Fits the methods in ``transforms`` and adds the saved ones; with ``names``, fits only the methods named."""
        every = [name for name in (self.transforms if names is None else names) if name == "original" or name in FITTED]
        made = fit_methods(x, every, self.varied, source=spec)
        return made if names is not None else made + self.saved_methods(spec)

    def saved_methods(self, spec: EncoderSpec) -> list[Method]:
        """Returns the saved transforms that belong to these embeddings."""
        every = self._saved.values()
        return [method for method in every if (source := method.source) is None or source.same_space(spec)]

    def result(self, spec: EncoderSpec, method: Method, score: Score, seconds: float) -> Result:
        """Returns the full record of a score, with everything needed to reproduce it."""
        fits = method.transform.fits if method.transform else ()
        counts = {code: count for fit in fits for code, count in fit.fitted_on}
        made = Result(
            task=self.name,
            languages=tuple(score.languages),
            encoder=spec.id,
            revision=spec.revision,
            layer=spec.layer,
            pooling=spec.pooling,
            dtype=spec.dtype,
            max_length=self.max_length,
            transform=method.name,
            parameters={name: value for name, value in method.parameters.items() if name != "seed"},
            fitted_on=self.text_of(method) if score.fitted_on is None else score.fitted_on,
            metric=score.metric,
            value=score.value,
            n=score.n,
            seed=method.seed if score.seed is None else score.seed,
            seconds=round(seconds, 3),
            low=score.low,
            high=score.high,
            fitted_languages=dict(method.counts) if isinstance(method, FileMethod) else counts,
            options=self.options,
            fits=() if method.transform is None else told_steps(method.transform),
        )
        return made if score.queries is None else made.resampled(score.queries)

    def text_of(self, method: Method) -> str:
        """Returns the name, in results, of the text that a method was fitted on; empty if it was not fitted."""
        if isinstance(method, FileMethod):
            return self.fitted_on
        if method.transform is None or method.name == "zero":
            return ""
        paths = [str(path) for path, saved in self._saved.items() if saved is method]
        return paths[0] if paths else self.fitted_on

    def report(self, results: Sequence[Result]) -> None:
        """Writes ``results.jsonl``, prints the shown metrics as a table, and draws the first one as bars."""
        table, metrics = by_method(results), self.shown(results)
        print_table(
            f"{self.title}, in percent",
            ["method", *(f"{metric}, layer {layer}" for layer in self.layers for metric in metrics)],
            [
                [label, *(row.get((layer, metric), "") for layer in self.layers for metric in metrics)]
                for label, row in table.items()
            ],
        )
        write_results(results, self.out / "results.jsonl")
        bars(
            {
                f"layer {layer}": {label: row.get((layer, metrics[0]), np.nan) for label, row in table.items()}
                for layer in self.layers
            },
            ylabel=f"{metrics[0]}, %",
            title=f"{self.title} ({self.encoder})",
            path=self.out / "methods.png",
        )
        console.print(f"wrote results and figures to {self.out}")


def _layer(encoded: Encoded, index: int) -> Embedded:
    return {key: value[index] for key, value in encoded.items()}


def languages_of(texts: Iterable[Key]) -> dict[Key, str]:
    """Returns the language of each set of texts; that of a group ``en`` or ``fit en`` is English."""
    return {key: _language(key) for key in texts}


def _language(key: Key) -> str:
    return "en" if key[0] in ("en", f"{_FIT} en") else key[1]
