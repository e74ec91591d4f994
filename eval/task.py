"""The one loop of the evaluations: encode, fit, move, score, for each layer and method.

A task gives its texts and the scores of moved embeddings. The loop is here, and so are the options that tasks
share, the record of each number, the table and the bars.
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

from eval.data.fit_text import fit_texts
from eval.figures.plots import bars
from eval.methods import Method, MethodName, fit_methods, saved_method
from eval.resampling import Queries
from eval.results import Result, by_method, write_results
from eval.speed.timing import print_latency
from lsar_jax import EncoderSpec, SentenceEncoder, Transform
from lsar_jax.corpora.tables import pin
from train.console import console, print_table
from train.embeddings import encode_all, open_encoder

__all__ = ["Embedded", "Encoded", "FittedTask", "Key", "Score", "Task", "Texts"]

# A group of texts and their language; in the group ``en``, English sentences that belong to that language.
Key = tuple[str, str]
Texts = Mapping[Key, Sequence[str]]
# Embeddings of all layers, and of one.
Encoded = Mapping[Key, Float[np.ndarray, "layer _ dim"]]
Embedded = Mapping[Key, Float[np.ndarray, "_ dim"]]
# The place of a layer among those of the task, its spec, and the methods fitted there.
Fitted = tuple[int, EncoderSpec, list[Method]]

_FIT = "fit"


@dataclass(frozen=True)
class Score:
    """One number that a task has measured.

    Attributes:
      metric: what ``value`` is.
      value: the number.
      languages: codes of the languages it is over.
      n: number of queries, or of vectors or languages that were measured.
      queries: scores of single queries, for the interval and the paired test.
      low: of the 95% interval, if the task has drawn it itself.
      high: of the same interval.
      seed: of the measure; None for that of the method.
      fitted_on: the text that the method was fitted on, if it is not the task's.
    """

    metric: str
    value: float
    languages: Sequence[str]
    n: int
    queries: Queries | None = None
    low: float | None = None
    high: float | None = None
    seed: int | None = None
    fitted_on: str | None = None

    @classmethod
    def of(cls, metric: str, languages: Sequence[str], queries: Queries, n: int | None = None) -> "Score":
        """Returns the mean of the queries' scores."""
        return cls(metric, queries.mean, languages, len(queries.values) if n is None else n, queries)


@dataclass(frozen=True)
class Task(ABC):
    """An evaluation of an encoder before and after each transform.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      revision: of a Hub id.
      pooling: mean, mean_no_special, cls, max or pooler; by default the checkpoint's own.
      layers: hidden-state layers to test; 0 is the embedding output.
      transforms: methods to compare.
      ranks: of LSAR, a row each; by default one less than there are languages to fit on.
      components: of LIR, a row each.
      fit_seeds: of CBIE's clusters, a result each; tables have the mean.
      saved: files of saved transforms of this encoder to compare too, each at its own layer.
      dtype: float32 or bfloat16, of parameters and products.
      max_length: most tokens of a sentence.
      out: folder for the JSON lines and figures.
    """

    name: ClassVar[str]

    encoder: str = "bundled"
    revision: str | None = None
    pooling: str | None = None
    layers: tuple[int, ...] = (8, 12)
    transforms: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")
    ranks: tuple[int, ...] = ()
    components: tuple[int, ...] = (1,)
    fit_seeds: tuple[int, ...] = (0,)
    saved: tuple[Path, ...] = ()
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_length: int = 128
    out: Path = Path("results")

    # What a task gives.

    @property
    @abstractmethod
    def title(self) -> str:
        """What tables and figures are called."""

    @property
    @abstractmethod
    def fitted_on(self) -> str:
        """The text that transforms are fitted on, as results name it."""

    @abstractmethod
    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on of each language; empty if the measured texts are fitted on."""

    @abstractmethod
    def texts(self) -> Texts:
        """Returns the texts to measure; the data are read and checked here."""

    @abstractmethod
    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterable[Score]:
        """Returns the scores of embeddings that a method has moved."""

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns the metrics of the printed table; the first one is drawn as bars. By default all."""
        return list(dict.fromkeys(result.metric for result in results))

    def draw(self, results: Sequence[Result]) -> None:
        """Draws the figures of this task, besides the bars that all tasks have; by default none."""
        return None

    # What a task may change.

    def fitted_languages(self, fit: Mapping[str, Sequence[str]]) -> int:
        """Returns the number of languages that there are to fit on."""
        return len(fit)

    def parts(self) -> Iterator[Texts]:
        """Yields the texts to measure in parts, each of which is encoded and scored before the next."""
        yield self.texts()

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on the texts to fit on."""
        return self.fit({code: value for (group, code), value in x.items() if group == _FIT}, spec)

    def moved(self, x: Embedded, method: Method) -> Embedded:
        """Returns the measured embeddings after a method."""
        return {key: method(value, _language(key)) for key, value in x.items() if key[0] != _FIT}

    def means(self, scores: Sequence[Score]) -> Iterable[Score]:
        """Returns the means over the scores of all parts."""
        return ()

    def layer_scores(self, x: Embedded, methods: Sequence[Method], spec: EncoderSpec) -> Iterable[tuple[Method, Score]]:
        """Returns scores of a layer as a whole, after those of its methods."""
        return ()

    # The loop.

    def run(self) -> list[Result]:
        """Measures; prints a table, writes ``results.jsonl`` and figures to ``out``."""
        task = self.pinned()
        results = task.measure()
        task.draw(results)
        task.report(results)
        return results

    def measure(self, encoder: SentenceEncoder | None = None) -> list[Result]:
        """Encodes, fits, moves and scores.

        Args:
          encoder: loaded already, with the layers of this task; by default it is loaded here.
        """
        parts = self.parts()
        first = next(parts)
        fit = self.fit_texts() if self.fits else {}
        encoder = self.prepare(self.fitted_languages(fit), encoder)
        fitting: Texts = {(_FIT, code): text for code, text in fit.items()}
        second = next(parts, None)
        if second is None:
            encoded = self.encode(encoder, {**fitting, **first})
            return self.scored(self.fitted(encoded, encoder.spec), [encoded])
        encoded = self.encode(encoder, fitting) if fitting else {}
        every = (
            encode_all(encoder, part, self.layers, self.max_length, _languages(part))[0]
            for part in chain((first, second), parts)
        )
        return self.scored(self.fitted(encoded, encoder.spec), every)

    def fitted(self, encoded: Encoded, spec: EncoderSpec) -> list[Fitted]:
        """Fits every method on every layer; returns the place of the layer, its spec, and the methods."""
        specs = [replace(spec, layer=layer) for layer in self.layers]
        return [(index, one, self.methods(_layer(encoded, index), one)) for index, one in enumerate(specs)]

    def scored(self, fitted: Sequence[Fitted], parts: Iterable[Encoded]) -> list[Result]:
        """Moves the embeddings of each part by every method, and scores them."""
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

    # What the loop is made of.

    def pinned(self) -> Self:
        """Returns the task with the commit of every dataset of the Hub that it names."""
        names = [field.name for field in fields(self) if field.init and field.name not in ("out", "encoder")]
        values = {name: getattr(self, name) for name in names}
        pinned: dict[str, Any] = {name: pin(v) for name, v in values.items() if isinstance(v, Path | str)}
        return replace(self, **pinned)

    @property
    def options(self) -> dict[str, Any]:
        """The options of this task that not every task has, as they go into JSON."""
        shared = {field.name for field in fields(Task)}
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name not in shared}
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in own.items()}
        return {name: list(map(str, value)) if isinstance(value, tuple) else value for name, value in plain.items()}

    @property
    def fits(self) -> bool:
        """Whether any method is fitted here."""
        return set(self.transforms) != {"original"}

    def prepare(self, fitted: int, encoder: SentenceEncoder | None = None) -> SentenceEncoder:
        """Checks the options, makes the output folder, and loads the encoder unless it is given.

        Args:
          fitted: number of languages that there are to fit on.
          encoder: loaded already.
        """
        for option in ("layers", "transforms", "ranks", "components", "fit_seeds"):
            values = getattr(self, option)
            if len(set(values)) != len(values):
                raise ValueError(f"--{option} {' '.join(map(str, values))} repeats itself")
        if not self.layers or not self.transforms:
            raise ValueError("at least one of --layers and one of --transforms is needed")
        if {"lsar", "mean+lsar"} & set(self.transforms) and fitted < 2:
            raise ValueError("lsar needs two languages to fit on, and there is one; leave it out of --transforms")
        if {"lsar", "mean+lsar"} & set(self.transforms) and max(self.ranks, default=1) >= fitted:
            raise ValueError(f"rank is {max(self.ranks)}; the means of {fitted} languages have at most {fitted - 1}")
        saved = self._saved
        named = [(method.label, method.seed, method.source) for method in saved.values()]
        for path, one in zip(saved, named, strict=True):
            if named.count(one) > 1:
                raise ValueError(
                    f"{path} is {one[0]!r} of the same embeddings and seed as another of --saved; leave one out"
                )
        self.out.mkdir(parents=True, exist_ok=True)
        if encoder is None:
            encoder = open_encoder(self.encoder, self.layers, self.revision, self.pooling, self.dtype)
        specs = [replace(encoder.spec, layer=layer) for layer in self.layers]
        for path, method in saved.items():
            source = method.source
            if source and not any(source.same_space(spec) for spec in specs):
                raise ValueError(f"{path} was fitted on {source}, which is none of {', '.join(map(str, specs))}")
        return encoder

    @cached_property
    def _saved(self) -> dict[Path, Method]:
        return {path: saved_method(Transform.load(path)) for path in self.saved}

    def encode(self, encoder: SentenceEncoder, texts: Texts) -> Encoded:
        """Returns the embeddings of every text under its key, and prints speed and latency."""
        languages = _languages(texts)
        embeddings, _ = encode_all(encoder, texts, self.layers, self.max_length, languages)
        first = next(iter(texts))
        print_latency(encoder, texts[first][0], languages[first], self.max_length)
        return embeddings

    def fit(
        self,
        x: Mapping[str, Float[np.ndarray, "_ dim"]],
        spec: EncoderSpec,
        names: Sequence[MethodName] | None = None,
    ) -> list[Method]:
        """Fits every method that the options name, with those that were saved; or just those of ``names``."""
        every = self.transforms if names is None else names
        made = fit_methods(x, every, ranks=self.ranks, components=self.components, seeds=self.fit_seeds, source=spec)
        return made if names is not None else made + self.saved_methods(spec)

    def saved_methods(self, spec: EncoderSpec) -> list[Method]:
        """Returns the saved transforms of these embeddings."""
        every = self._saved.values()
        return [method for method in every if (source := method.source) is None or source.same_space(spec)]

    def result(self, spec: EncoderSpec, method: Method, score: Score, seconds: float) -> Result:
        """Returns a score with all that is needed to get it again."""
        fits = method.transform.fits if method.transform else ()
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
            fitted_on=self._fitted_on(method) if score.fitted_on is None else score.fitted_on,
            metric=score.metric,
            value=score.value,
            n=score.n,
            seed=method.seed if score.seed is None else score.seed,
            seconds=round(seconds, 3),
            low=score.low,
            high=score.high,
            fitted_languages={code: count for fit in fits for code, count in fit.fitted_on},
            options=self.options,
        )
        return made if score.queries is None else made.resampled(score.queries)

    def _fitted_on(self, method: Method) -> str:
        if method.transform is None:
            return ""
        paths = [str(path) for path, saved in self._saved.items() if saved is method]
        return paths[0] if paths else self.fitted_on

    def report(self, results: Sequence[Result]) -> None:
        """Writes ``results.jsonl``, prints the shown metrics as a table and draws the first one as bars."""
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


@dataclass(frozen=True)
class FittedTask(Task):
    """A task whose transforms are fitted on text that the user chooses.

    Attributes:
      fit_on: udhr, all paragraphs of the declaration of human rights; a folder of one text file a language, de.txt,
        a sentence a line; tfds:wiki40b/{} or tfds:/a/folder/{}, prepared datasets with the language in place of {};
        or hub:wikimedia/wikipedia, or another id of the Hub, followed by @ and a revision if need be.
      fit_count: most sentences of a language.
    """

    fit_on: str = "udhr"
    fit_count: int = 10_000

    @abstractmethod
    def codes(self) -> Sequence[str]:
        """Returns the codes of the languages to fit on."""

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on, as results name it."""
        return "udhr all" if self.fit_on == "udhr" else f"{self.fit_on}, up to {self.fit_count} a language"

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on.

        Raises:
          ValueError: a language has none.
        """
        found = self.some_fit_texts(self.codes())
        missing = [code for code in self.codes() if code not in found]
        if missing:
            raise ValueError(f"--fit-on {self.fit_on} has no text of {', '.join(missing)}; leave these languages out")
        return found

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on of those languages that have any."""
        return fit_texts(self.fit_on, languages, self.fit_count)

    def fitted_languages(self, fit: Mapping[str, Sequence[str]]) -> int:
        """Returns the number of languages that there are to fit on."""
        return len(set(self.codes()))


def _layer(encoded: Encoded, index: int) -> Embedded:
    return {key: value[index] for key, value in encoded.items()}


def _language(key: Key) -> str:
    return "en" if key[0] == "en" else key[1]


def _languages(texts: Texts) -> dict[Key, str]:
    return {key: _language(key) for key in texts}
