"""Every combination of layer, method and rank from one pass over the text.

    python -m eval sweep

All layers are pooled in one forward pass. At each layer, all methods are fitted from the same moments of one half of
the Universal Declaration of Human Rights. A method with a rank is fitted once, at the largest rank, because its first
directions are those for a smaller rank. CBIE, which needs the embeddings, is optional. Scores are those of ``python -m
eval udhr`` on the other half. With ``--baseline``, the last layer is also encoded alone, to compare the time of the
whole sweep with that of encoding once.
"""

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from eval.figures.plots import sweep_figure
from eval.fitted_task import FitLanguages
from eval.methods import FROM_MOMENTS, Method, MethodName, move_together
from eval.results import Result, write_results
from eval.score import Score
from eval.task import Embedded, Task, Texts
from eval.tasks.udhr import pool_precision
from lsar_jax import EncoderSpec, corpora
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import encode_all, open_encoder
from lsar_jax.transforms.methods import METHODS

__all__ = ["Sweep", "truncated"]


@dataclass(frozen=True)
class Sweep(Task):
    """Every layer, method and rank on the UDHR task, encoded once.

    Attributes:
      layers: hidden-state layers to test; by default, all.
      languages: language codes; by default, all 40.
      fit_languages: languages to fit on: tested, or all 40.
      baseline: also measure the time to encode the last layer alone.
    """

    name = "sweep"

    layers: tuple[int, ...] = ()
    transforms: tuple[MethodName, ...] = FROM_MOMENTS
    ranks: tuple[int, ...] = (10, 20, 39)
    components: tuple[int, ...] = (1,)
    out: Path = Path("results/sweep")
    languages: tuple[str, ...] = ()
    fit_languages: FitLanguages = "tested"
    baseline: bool = False

    @property
    def title(self) -> str:
        """The title of the figure."""
        return f"mAP on the UDHR, {len(self._texts)} languages"

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
        return "udhr fit"

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the fitting half of the paragraphs."""
        texts = corpora.udhr("all") if self.fit_languages == "all" else self._texts
        return {code: text[corpora.UDHR_PARTS["fit"]] for code, text in texts.items()}

    def texts(self) -> Texts:
        """Returns the other half of the paragraphs."""
        return {("test", code): text[corpora.UDHR_PARTS["test"]] for code, text in self._texts.items()}

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method once, and cuts those that remove a subspace to each number of directions."""
        varied = {"rank": self._ranks, "components": self._components}
        counts = {name: varied[one.varied] for name, one in METHODS.items() if one.varied in varied}
        del counts["lsar-published"]  # its subspaces of two ranks do not contain each other
        largest = replace(self, ranks=(max(self._ranks),), components=(max(self._components),))
        every = replace(self, ranks=tuple(self._ranks))
        fit = {code: value for (group, code), value in x.items() if group == "fit"}
        fitted = [m for n in self.transforms for m in (largest if n in counts else every).fit(fit, spec, (n,))]
        return [one for m in fitted for one in (truncated(m, counts[m.name]) if m.name in counts else (m,))]

    def moved(self, x: Embedded, method: Method) -> Embedded:
        """Returns the test paragraphs, transformed by a method in one call."""
        moved = move_together(method, {code: value for (group, code), value in x.items() if group == "test"})
        return {("test", code): value for code, value in moved.items()}

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields mean average precision."""
        precision = pool_precision({code: value for (_, code), value in x.items()}).values
        yield Score("mAP", float(precision.mean()), [code for _, code in x], len(precision))

    def evaluate(self) -> list[Result]:
        """Encodes, fits and scores; prints a table, and writes ``results.jsonl`` and the figure."""
        if self.saved:
            raise ValueError(f"{self.name} fits its own transforms; omit --saved")
        if self.cache is not None:
            raise ValueError(f"{self.name} measures the time of encoding; omit --cache")
        texts = self._texts
        if len(texts) < 2:
            raise ValueError(f"--languages is {' '.join(self.languages)}; give at least two different languages")
        _ = self._components
        self.out.mkdir(parents=True, exist_ok=True)
        encoder = open_encoder(self.encoder, self.layers or None, self.revision, self.pooling, self.dtype)
        layers = self.layers or tuple(range(encoder.spec.layer + 1))
        task = replace(self, layers=layers)
        every = {("fit", code): text for code, text in self.fit_texts().items()} | dict(self.texts())
        own = {key: key[1] for key in every}
        # Compile the programs for fitting and scoring before the clock starts, as for the encoder.
        rng = np.random.default_rng(0)
        random = {key: rng.normal(size=(1, len(text), encoder.dim)).astype(np.float32) for key, text in every.items()}
        one = replace(task, layers=layers[-1:])
        one.scored(list(one.fitted(random, encoder.spec)), [random])
        alone = 0.0
        if self.baseline:
            flat = [text for several in every.values() for text in several]
            codes = [own[key] for key, several in every.items() for _ in several]
            encoder.warm_up(max_length=self.max_length)
            language = codes if encoder.uses_language else None
            alone = encoder.encode_with_report(flat, max_length=self.max_length, language=language)[1].seconds
        encoder.warm_up(layers=layers, max_length=self.max_length)
        begun = time.perf_counter()
        encoded = encode_all(encoder, every, layers, self.max_length, own)
        encoding = time.perf_counter() - begun
        started = time.perf_counter()
        # One thread: those of BLAS (numpy's and scipy's) wait without sleeping and take the cores from XLA's.
        with threadpool_limits(1, "blas"):
            results = task.scored(list(task.fitted(encoded, encoder.spec)), [encoded])
        fitted = time.perf_counter()
        write_results(results, self.out / "results.jsonl")
        sweep_figure(_grid(results), layers, f"{self.title} ({self.encoder})", self.out / "sweep.png")
        drawn = time.perf_counter()
        self._print(results, layers)
        console.print(
            f"encoding all {len(layers)} layers {encoding:.1f} s, fitting and scoring {len(results)} transforms "
            f"{fitted - started:.1f} s, figure {drawn - fitted:.1f} s, "
            f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )
        if alone:
            whole = encoding + drawn - started
            console.print(
                f"the sweep took {whole:.1f} s, encoding the last layer alone {alone:.1f} s: {whole / alone:.2f} x"
            )
        console.print(f"wrote results and the figure to {self.out}")
        return results

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        return corpora.udhr("all", self.languages or None)

    @property
    def _ranks(self) -> list[int]:
        """The ranks that are possible with this number of languages; if there are none, the highest possible."""
        fitted = len(self.fit_texts())
        return [rank for rank in self.ranks if 0 < rank < fitted] or [fitted - 1]

    @property
    def _components(self) -> list[int]:
        fewest = min(map(len, self.fit_texts().values()))
        components = [count for count in self.components if 0 < count <= fewest]
        if "lir" in self.transforms and not components:
            raise ValueError(f"--components is {' '.join(map(str, self.components))}; it must be 1 to {fewest}")
        return components or [1]

    def _print(self, results: Sequence[Result], layers: Sequence[int]) -> None:
        rows: list[list[str | float]] = []
        for name, by_layer in _grid(results).items():
            best = max(by_layer, key=lambda layer: by_layer[layer])
            shown = [f"{by_layer[layer]:.0f}" for layer in layers]
            rows.append([name.replace("components=", "").replace("rank=", ""), f"{best}", by_layer[best], *shown])
        columns = ["method", "best layer", "mAP there", *(f"{layer}" for layer in layers)]
        print_table("mAP by layer, in percent", columns, rows)


def truncated(method: Method, counts: Sequence[int]) -> Iterator[Method]:
    """Yields, for each count, the method with its last step's subspace cut to that many directions."""
    assert method.transform is not None, "the original has no subspace"
    *before, last = method.transform.steps
    [key] = [key for key in method.parameters if key in ("rank", "components")]
    assert last.basis is not None, f"{method.label} removes no subspace"
    for count in counts:
        step = last._replace(basis=last.basis[..., :count])
        fits = method.transform.fits
        fits = (*fits[:-1], replace(fits[-1], parameters=((key, count),)))
        transform = replace(method.transform, steps=(*before, step), fits=fits)
        yield Method(method.name, method.parameters | {key: count}, transform)


def _grid(results: Sequence[Result]) -> dict[str, dict[int, float]]:
    """Returns method label -> layer -> value."""
    grid: dict[str, dict[int, float]] = {}
    for r in results:
        grid.setdefault(Method(r.transform, r.parameters, None).label, {})[r.layer] = r.value
    return grid
