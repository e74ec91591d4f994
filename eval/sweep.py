"""Layer x method x rank in one pass over the text.

    python -m eval sweep

All layers are pooled in one forward pass. On each layer one set of moments is taken of the first
half of the declaration of human rights, all methods are fitted from it, and those with a rank
once: the top directions of a rank are the first columns of a greater one's. CBIE, which needs the
embeddings, can be asked for. Scores are those of
``python -m eval udhr`` on the other half. ``--baseline`` encodes once more, the last layer
alone, to compare the time of the whole sweep with that of one encode.
"""

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from eval.encode import by_language, encode_all, open_encoder
from eval.figures import sweep_figure
from eval.methods import Method, MethodName, fit_methods
from eval.results import Result, console, print_table, write_results
from eval.task import Task
from eval.udhr import pool_map
from lsar_jax import EncoderSpec, corpora

__all__ = ["Sweep", "truncated"]


@dataclass(frozen=True)
class Sweep(Task):
    """Every layer, method and rank on the UDHR task, encoded once.

    Attributes:
      languages: codes; by default all 40.
      baseline: whether to time one encode of the last layer too.
    """

    name = "sweep"

    layers: tuple[int, ...] = ()
    transforms: tuple[MethodName, ...] = (
        "original", "center", "lir", "lsar", "mean+lsar", "outliers", "whitening", "leace"
    )  # fmt: skip
    ranks: tuple[int, ...] = (10, 20, 39)
    components: tuple[int, ...] = (1,)
    out: Path = Path("results/sweep")
    languages: tuple[str, ...] = ()
    baseline: bool = False

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on."""
        return "udhr fit"

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints a table, writes ``results.jsonl`` and the figure."""
        if self.saved:
            raise ValueError(f"--saved is not for {self.name}, which fits its own")
        texts = corpora.udhr("all", self.languages or None)
        if len(texts) < 2:
            raise ValueError(f"--languages {' '.join(self.languages)} is one language; at least two are needed")
        # Of few languages the highest rank that there is.
        ranks = [rank for rank in self.ranks if 0 < rank < len(texts)] or [len(texts) - 1]
        fewest = min(len(several[corpora.UDHR_PARTS["fit"]]) for several in texts.values())
        if "lir" in self.transforms and not any(0 < count <= fewest for count in self.components):
            raise ValueError(f"--components {' '.join(map(str, self.components))}: there are 1 to {fewest} to remove")
        self.out.mkdir(parents=True, exist_ok=True)
        encoder = open_encoder(self.encoder, self.layers or None, self.revision, self.pooling, self.dtype)
        layers = self.layers or tuple(range(encoder.spec.layer + 1))
        alone = 0.0
        own = {code: code for code in texts}
        # The programs of the fits, compiled before the clock starts as the encoder's are.
        random = np.random.default_rng(0).normal(size=(1, len(texts) * 50, encoder.dim)).astype(np.float32)
        self._sweep(_split(random, list(texts)), (encoder.spec.layer,), ranks, encoder.spec)
        if self.baseline:
            flat = [text for several in texts.values() for text in several]
            codes = [code for code, several in texts.items() for _ in several]
            encoder.warm_up(max_length=self.max_length)
            language = codes if by_language(encoder) else None
            alone = encoder.encode_with_report(flat, max_length=self.max_length, language=language)[1].seconds
        encoded, report = encode_all(encoder, texts, layers, self.max_length, own)
        started = time.perf_counter()
        results = self._sweep(encoded, layers, ranks, encoder.spec)
        fitted = time.perf_counter()
        write_results(results, self.out / "results.jsonl")
        sweep_figure(
            _grid(results), layers, f"mAP on the UDHR, {len(texts)} languages ({self.encoder})", self.out / "sweep.png"
        )
        drawn = time.perf_counter()
        self._print(results, layers)
        console.print(
            f"encoding all {len(layers)} layers {report.seconds:.1f} s, fits and scores of {len(results)} maps "
            f"{fitted - started:.1f} s, figure {drawn - fitted:.1f} s, "
            f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )
        if alone:
            whole = report.seconds + drawn - started
            console.print(
                f"the sweep took {whole:.1f} s, one encode of the last layer {alone:.1f} s: {whole / alone:.2f} x"
            )
        console.print(f"wrote results and the figure to {self.out}")
        return results

    def _sweep(
        self,
        encoded: Mapping[str, Float[np.ndarray, "layer _ dim"]],
        layers: Sequence[int],
        ranks: Sequence[int],
        spec: EncoderSpec,
    ) -> list[Result]:
        """Fits and scores every method on every layer; threads score while the next is fitted.

        Fits stay in one thread: XLA's decompositions on a CPU share few threads, and two that
        run at once may wait for each other for ever.
        """
        results: list[Result] = []
        waiting: list[Future[Result]] = []
        # numpy's products would otherwise wait busily for cores that XLA has.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(2) as threads:
            for index, layer in enumerate(layers):
                fit, test = (
                    {code: x[index, corpora.UDHR_PARTS[part]] for code, x in encoded.items()}
                    for part in ("fit", "test")
                )
                here = replace(spec, layer=layer)
                moved = self._moved(fit, test, ranks, here)
                fresh = [threads.submit(self._scored, method, x, here) for method, x in moved]
                results += [future.result() for future in waiting]
                waiting = fresh
            return results + [future.result() for future in waiting]

    def _moved(
        self,
        fit: Mapping[str, Float[np.ndarray, "_ dim"]],
        test: Mapping[str, Float[np.ndarray, "_ dim"]],
        ranks: Sequence[int],
        spec: EncoderSpec,
    ) -> Iterator[tuple[Method, dict[str, Float[np.ndarray, "_ dim"]]]]:
        """Yields each method, fitted on one layer, and what it makes of the test paragraphs."""
        codes = [code for code, x in test.items() for _ in x]
        pool = np.concatenate(list(test.values()))
        bounds = np.cumsum([len(x) for x in test.values()])[:-1]
        components = [most for most in self.components if 0 < most <= min(map(len, fit.values()))] or [1]
        fitted = fit_methods(fit, self.transforms, ranks=(max(ranks),), components=(max(components),), source=spec)
        for method in fitted:
            counts = {"lsar": ranks, "mean+lsar": ranks, "lir": components}.get(method.name, ())
            for one in truncated(method, counts) if counts else (method,):
                yield one, dict(zip(test, np.split(one(pool, codes), bounds), strict=True))

    def _scored(self, method: Method, moved: Mapping[str, Float[np.ndarray, "_ dim"]], spec: EncoderSpec) -> Result:
        started = time.perf_counter()
        value, n = pool_map(moved)
        return self.result(spec, method, moved, "mAP", value, n, time.perf_counter() - started)

    def _print(self, results: Sequence[Result], layers: Sequence[int]) -> None:
        rows: list[list[str | float]] = []
        for name, by_layer in _grid(results).items():
            best = max(by_layer, key=lambda layer: by_layer[layer])
            shown = [f"{by_layer[layer]:.0f}" for layer in layers]
            rows.append([name.replace("components=", "").replace("rank=", ""), f"{best}", by_layer[best], *shown])
        columns = ["method", "best layer", "mAP there", *(f"{layer}" for layer in layers)]
        print_table("mAP by layer, in percent", columns, rows)


def _split(
    x: Float[np.ndarray, "layer sentence dim"], codes: Sequence[str]
) -> dict[str, Float[np.ndarray, "layer _ dim"]]:
    return dict(zip(codes, np.split(x, len(codes), axis=1), strict=True))


def truncated(method: Method, counts: Sequence[int]) -> Iterator[Method]:
    """Yields a method whose last step removes a subspace with only its first directions, once a count."""
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
