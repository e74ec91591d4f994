"""Retrieval of the same paragraph in 40 languages: the declaration of human rights.

    make demo        # python -m eval udhr: bundled encoder, layers 8 and 12

Paragraphs at even positions are fitted on, those at odd ones are tested. The pool holds all
test paragraphs of all languages; each is a query against the others, and the same paragraph in
the other languages is relevant: mean average precision over the full ranking by cosine. Also
paired retrieval into English: each language's test paragraphs against English's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.figures import scatter
from eval.metrics import accuracy, average_precision
from eval.results import Result
from eval.task import Task
from lsar_jax import corpora
from lsar_jax.retrieval import nearest

__all__ = ["Udhr", "paired_accuracy", "pool_map"]

_QUERIES = 128


@dataclass(frozen=True)
class Udhr(Task):
    """Retrieval among the paragraphs of the declaration of human rights in 40 languages.

    Attributes:
      languages: codes; by default all 40.
    """

    name = "udhr"

    ranks: tuple[int, ...] = (20, 39)
    out: Path = Path("results/udhr")
    languages: tuple[str, ...] = ()

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on."""
        return "udhr fit"

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints a table, writes ``results.jsonl`` and figures."""
        texts = {
            (part, code): paragraphs
            for part in ("fit", "test")
            for code, paragraphs in corpora.udhr(part, self.languages or None).items()
        }
        languages = len(texts) // 2
        if languages < 2:
            raise ValueError(f"--languages {' '.join(self.languages)} is one language; at least two are needed")
        encoder = self.prepare(languages)
        embeddings = self.encode(encoder, texts)

        results: list[Result] = []
        panels: dict[str, np.ndarray] = {}
        for index, layer in enumerate(self.layers):
            fit, test = (
                {code: x[index] for (group, code), x in embeddings.items() if group == part} for part in ("fit", "test")
            )
            spec = replace(encoder.spec, layer=layer)
            methods = self.fit(fit, spec)
            for number, method in enumerate(methods):
                moved = {code: method(x, code) for code, x in test.items()}
                for metric, score in (("mAP", pool_map), ("accuracy into en", into_english)):
                    started = time.perf_counter()
                    value, n = score(moved)
                    if n:
                        results.append(self.result(spec, method, test, metric, value, n, time.perf_counter() - started))
                if index == 0 and number in (0, len(methods) - 1):
                    panels[f"layer {layer}, {method.label}"] = np.concatenate(list(moved.values()))
        scatter(panels, [code for code, x in test.items() for _ in x], self.out / "languages.png")
        metrics = list(dict.fromkeys(r.metric for r in results))
        self.report(results, f"The same paragraph in {len(test)} languages", metrics, "mAP")
        return results


def pool_map(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> tuple[float, int]:
    """Returns the mean average precision of each text against all others, and the queries.

    Args:
      x: from language to embeddings; row i says the same in every language.
    """
    pool = np.concatenate(list(x.values()))
    unit = (pool / np.linalg.norm(pool.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
    paragraph = np.concatenate([np.arange(len(rows), dtype=np.int32) for rows in x.values()])
    number = np.arange(len(unit), dtype=np.int32)
    # Some queries at a time: what is sorted stays in cache.
    scores = []
    for start in range(0, len(unit), _QUERIES):
        queries = slice(start, start + _QUERIES)
        same, self = (ids[queries, None] == ids for ids in (paragraph, number))
        scores.append(average_precision(unit[queries] @ unit.T, same, self))
    return 100 * float(np.concatenate(scores).mean()), len(unit)


def into_english(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> tuple[float, int]:
    """Returns the mean over the other languages of top-1 accuracy into English, and the queries."""
    return paired_accuracy(x, "en") if "en" in x and len(x) > 1 else (0.0, 0)


def paired_accuracy(x: Mapping[str, Float[np.ndarray, "paragraph dim"]], target: str) -> tuple[float, int]:
    """Returns the mean over languages of top-1 accuracy into ``target``'s texts, and the queries."""
    gold = np.arange(len(x[target]))
    values = [
        accuracy(np.asarray(nearest(rows, x[target])[1])[:, 0], gold) for code, rows in x.items() if code != target
    ]
    return float(np.mean(values)), len(values) * len(gold)
