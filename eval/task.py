"""What every task shares: its options, encoding all texts once, results, a table and bars."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from eval.encode import encode_all, open_encoder, print_latency
from eval.figures import bars
from eval.methods import Method, MethodName, fit_methods, saved_method
from eval.named import pinned
from eval.results import Result, by_method, console, print_table, write_results
from lsar_jax import EncoderSpec, SentenceEncoder, Transform

__all__ = ["Task"]


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
      saved: files of transforms of this encoder, which are compared too, each at the layer that it is of.
      dtype: float32 or bfloat16, of parameters and products.
      max_length: tokens at most of a sentence.
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

    @property
    @abstractmethod
    def fitted_on(self) -> str:
        """The text that transforms are fitted on, as results say it."""

    @abstractmethod
    def run(self) -> list[Result]:
        """Encodes, fits, measures; prints tables, and writes ``results.jsonl`` and figures to ``out``."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of this task that not every task has, as they go into JSON."""
        shared = {field.name for field in fields(Task)}
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in shared}
        plain = {name: pinned(value) if isinstance(value, Path | str) else value for name, value in own.items()}
        return {name: list(map(str, value)) if isinstance(value, tuple) else value for name, value in plain.items()}

    @property
    def fits(self) -> bool:
        """Whether any method is fitted here."""
        return set(self.transforms) != {"original"}

    def prepare(self, fitted: int) -> SentenceEncoder:
        """Checks the options, makes the output folder and loads the encoder.

        Args:
          fitted: languages that there are to fit on.
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
        named = [(m.label, m.parameters.get("seed"), _source(m)) for m in saved.values()]
        for path, one in zip(saved, named, strict=True):
            if named.count(one) > 1:
                raise ValueError(
                    f"{path} is {one[0]!r} of the same embeddings and seed as another of --saved; leave one out"
                )
        self.out.mkdir(parents=True, exist_ok=True)
        encoder = open_encoder(self.encoder, self.layers, self.revision, self.pooling, self.dtype)
        specs = [replace(encoder.spec, layer=layer) for layer in self.layers]
        for path, method in saved.items():
            source = _source(method)
            if source and not any(source.same_space(spec) for spec in specs):
                raise ValueError(f"{path} was fitted on {source}, which is none of {', '.join(map(str, specs))}")
        return encoder

    @cached_property
    def _saved(self) -> dict[Path, Method]:
        return {path: saved_method(Transform.load(path)) for path in self.saved}

    def encode(
        self, encoder: SentenceEncoder, texts: Mapping[tuple[str, str], Sequence[str]]
    ) -> dict[tuple[str, str], Float[np.ndarray, "layer vector dim"]]:
        """Returns the embeddings of every text under its key, and prints speed and latency.

        The second part of a key is the text's language, but where the first is ``en``: English
        sentences that belong to that language.
        """
        languages = {key: "en" if key[0] == "en" else key[1] for key in texts}
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
        """Returns the transforms that were saved of these embeddings."""
        every = self._saved.values()
        return [method for method in every if (source := _source(method)) is None or source.same_space(spec)]

    def result(
        self,
        spec: EncoderSpec,
        method: Method,
        languages: Iterable[str],
        metric: str,
        value: float,
        n: int,
        seconds: float,
    ) -> Result:
        """Returns one number with all that is needed to get it again."""
        fits = method.transform.fits if method.transform else ()
        return Result(
            task=self.name,
            languages=tuple(languages),
            encoder=spec.id,
            revision=spec.revision,
            layer=spec.layer,
            pooling=spec.pooling,
            dtype=spec.dtype,
            max_length=self.max_length,
            transform=method.name,
            parameters={name: value for name, value in method.parameters.items() if name != "seed"},
            fitted_on=self._fitted_on(method),
            metric=metric,
            value=value,
            n=n,
            seed=None if (seed := method.parameters.get("seed")) is None else int(seed),
            seconds=round(seconds, 3),
            fitted_languages={code: count for fit in fits for code, count in fit.fitted_on},
            options=self.options,
        )

    def _fitted_on(self, method: Method) -> str:
        if method.transform is None:
            return ""
        paths = [str(path) for path, saved in self._saved.items() if saved is method]
        return paths[0] if paths else self.fitted_on

    def report(self, results: Sequence[Result], title: str, metrics: Sequence[str], headline: str) -> None:
        """Writes ``results.jsonl``, prints ``metrics`` as a table and draws ``headline`` as bars."""
        table = by_method(results)
        print_table(
            f"{title}, in percent",
            ["method", *(f"{metric}, layer {layer}" for layer in self.layers for metric in metrics)],
            [
                [label, *(row.get((layer, metric), "") for layer in self.layers for metric in metrics)]
                for label, row in table.items()
            ],
        )
        write_results(results, self.out / "results.jsonl")
        bars(
            {
                f"layer {layer}": {label: row.get((layer, headline), np.nan) for label, row in table.items()}
                for layer in self.layers
            },
            ylabel=f"{headline}, %",
            title=f"{title} ({self.encoder})",
            path=self.out / "methods.png",
        )
        console.print(f"wrote results and figures to {self.out}")


def _source(method: Method) -> EncoderSpec | None:
    return None if method.transform is None else method.transform.source
