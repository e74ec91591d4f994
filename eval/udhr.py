"""Retrieval of the same paragraph in 40 languages: the declaration of human rights.

    make demo        # python -m eval udhr: bundled encoder, layers 8 and 12

Paragraphs at even positions are fitted on, those at odd ones are tested. The pool holds all test
paragraphs of all languages; each is a query against the others, and the same paragraph in
the other languages is relevant: mean average precision over the full ranking by cosine. Also
paired retrieval into English: each language's test paragraphs against English's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.encode import encode_all, open_encoder, print_latency
from eval.figures import bars, scatter
from eval.methods import MethodName, fit_methods
from eval.metrics import accuracy, mean_average_precision
from eval.results import Result, by_method, console, print_table, result, write_results
from lsar_jax import corpora
from lsar_jax.retrieval import nearest

__all__ = ["Udhr", "paired_accuracy", "pool_map"]


@dataclass(frozen=True)
class Udhr:
    """Retrieval among the paragraphs of the declaration of human rights in 40 languages.

    Attributes:
      encoder: bundled, a folder, or a Hub id.
      revision: of a Hub id.
      pooling: mean, cls or max; by default the checkpoint's own.
      layers: hidden-state layers to test; 0 is the embedding output.
      transforms: methods to compare.
      ranks: of LSAR; those above what the languages allow are an error.
      components: of LIR.
      languages: codes; by default all 40.
      max_length: tokens at most of a paragraph.
      out: folder for the JSON lines and figures.
    """

    encoder: str = "bundled"
    revision: str | None = None
    pooling: str | None = None
    layers: tuple[int, ...] = (8, 12)
    transforms: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")
    ranks: tuple[int, ...] = (20, 39)
    components: tuple[int, ...] = (1,)
    languages: tuple[str, ...] = ()
    max_length: int = 128
    out: Path = Path("results/udhr")

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints tables, writes ``results.jsonl`` and figures."""
        texts = corpora.udhr("all", self.languages or None)
        encoder = open_encoder(self.encoder, self.layers, self.revision, self.pooling)
        embeddings = encode_all(encoder, texts, self.layers, self.max_length)
        print_latency(encoder, next(iter(texts.values()))[2], self.max_length)

        results: list[Result] = []
        panels: dict[str, np.ndarray] = {}
        for index, layer in enumerate(self.layers):
            fit, test = (
                {code: x[index, corpora.UDHR_PARTS[part]] for code, x in embeddings.items()} for part in ("fit", "test")
            )
            spec = replace(encoder.spec, layer=layer)
            methods = fit_methods(fit, self.transforms, ranks=self.ranks, components=self.components, source=spec)
            for method in methods:
                started = time.perf_counter()
                moved = {code: method(x, code) for code, x in test.items()}
                scores = {"mAP": pool_map(moved)}
                if "en" in moved and len(moved) > 1:
                    scores["accuracy into en"] = paired_accuracy(moved, "en")
                results += [
                    result(
                        task="udhr",
                        languages=texts,
                        spec=spec,
                        max_length=self.max_length,
                        method=method,
                        fitted_on="udhr fit",
                        metric=metric,
                        value=value,
                        n=sum(map(len, moved.values())),
                        seconds=time.perf_counter() - started,
                    )
                    for metric, value in scores.items()
                ]
                if index == 0 and method in (methods[0], methods[-1]):
                    panels[f"layer {layer}, {method.label}"] = np.concatenate(list(moved.values()))
        self._report(results, panels, [code for code, x in test.items() for _ in x])
        return results

    def _report(self, results: list[Result], panels: dict[str, np.ndarray], languages: list[str]) -> None:
        table = by_method(results)
        metrics = list(dict.fromkeys(r.metric for r in results))
        print_table(
            f"UDHR, {len(set(languages))} languages, {len(languages)} test paragraphs, in percent",
            ["method", *(f"{metric}, layer {layer}" for layer in self.layers for metric in metrics)],
            [
                [label, *(row[layer, metric] for layer in self.layers for metric in metrics)]
                for label, row in table.items()
            ],
        )
        write_results(results, self.out / "results.jsonl")
        scatter(panels, languages, self.out / "languages.png")
        bars(
            {f"layer {layer}": {label: row[layer, "mAP"] for label, row in table.items()} for layer in self.layers},
            ylabel="mean average precision, %",
            title=f"The same paragraph in {len(set(languages))} languages ({self.encoder})",
            path=self.out / "methods.png",
        )
        console.print(f"wrote results.jsonl, languages.png and methods.png to {self.out}")


def pool_map(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> float:
    """Returns the mean average precision of each text against all others of all languages.

    Args:
      x: from language to embeddings; row i says the same in every language.
    """
    pool = np.concatenate(list(x.values())).astype(np.float64)
    unit = pool / np.linalg.norm(pool, axis=1, keepdims=True)
    paragraph = np.concatenate([np.arange(len(rows)) for rows in x.values()])
    itself = np.eye(len(pool), dtype=bool)
    return mean_average_precision(unit @ unit.T, (paragraph[:, None] == paragraph[None, :]), itself)


def paired_accuracy(x: Mapping[str, Float[np.ndarray, "paragraph dim"]], target: str) -> float:
    """Returns the mean over languages of top-1 accuracy into ``target``'s texts, in percent."""
    gold = np.arange(len(x[target]))
    return float(
        np.mean(
            [
                accuracy(np.asarray(nearest(rows, x[target])[1])[:, 0], gold)
                for code, rows in x.items()
                if code != target
            ]
        )
    )
