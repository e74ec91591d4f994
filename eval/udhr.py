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
from eval.metrics import average_precision
from eval.resampling import Queries
from eval.results import Result
from eval.task import Task
from lsar_jax import corpora
from lsar_jax.retrieval import nearest

__all__ = ["Udhr", "into_english", "pool_map", "pool_precision"]

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

        scores = {"mAP": pool_precision} | ({"accuracy into en": into_english} if ("test", "en") in texts else {})
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
                for metric, score in scores.items():
                    started = time.perf_counter()
                    scored = score(moved)
                    seconds = time.perf_counter() - started
                    made = self.result(spec, method, test, metric, scored.mean, len(scored.values), seconds)
                    results.append(made.resampled(scored))
                if index == 0 and number in (0, len(methods) - 1):
                    panels[f"layer {layer}, {method.label}"] = np.concatenate(list(moved.values()))
        scatter(panels, [code for code, x in test.items() for _ in x], self.out / "languages.png")
        metrics = list(dict.fromkeys(r.metric for r in results))
        self.report(results, f"The same paragraph in {len(test)} languages", metrics, "mAP")
        return results


def pool_map(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> tuple[float, int]:
    """Returns the mean of ``pool_precision`` in percent, and the queries."""
    scored = pool_precision(x)
    return float(scored.values.mean()), len(scored.values)


def pool_precision(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> Queries:
    """Returns the average precision of each text against all others, in percent; translations are a cluster.

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
    return Queries(100 * np.concatenate(scores), clusters=paragraph)


def into_english(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> Queries:
    """Returns whether each text of another language finds its English one, in percent; translations belong together."""
    others = [code for code in x if code != "en"]
    found = [np.asarray(nearest(x[code], x["en"])[1])[:, 0] for code in others]
    hits = [100.0 * (ids == np.arange(len(ids))) for ids in found]
    # As many of each language, so that the mean is that of the languages' means.
    return Queries(np.concatenate(hits), clusters=np.tile(np.arange(len(x["en"])), len(others)))
