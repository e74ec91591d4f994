"""UDHR: retrieval of the same paragraph of the Universal Declaration of Human Rights in 40 languages.

    make demo        # python -m eval udhr: bundled encoder, layers 8 and 12

Transforms are fitted on the paragraphs at even positions and tested on those at odd positions. The pool consists of the
test paragraphs in all languages. Each of them is a query against the others, and the same paragraph in the other
languages is relevant; the score is mean average precision over the full ranking by cosine. Retrieval into English is
measured too: each language's test paragraphs search the English ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.figures.meaning import draw_meaning, flat
from eval.fitted_task import FitLanguages
from eval.methods import Method
from eval.metrics import find_own, precision_of_ranks
from eval.resampling import Queries
from eval.results import Result
from eval.score import Score
from eval.task import Embedded, Task, Texts
from lsar_jax import EncoderSpec, corpora
from lsar_jax.retrieval import candidate_ranks

__all__ = ["Udhr", "into_english", "pool_precision"]


@dataclass(frozen=True)
class Udhr(Task):
    """Retrieval among the paragraphs of the Universal Declaration of Human Rights in 40 languages.

    Attributes:
      languages: language codes; by default, all 40.
      fit_languages: languages to fit on: tested, or all 40.
    """

    name = "udhr"

    ranks: tuple[int, ...] = (20, 39)
    out: Path = Path("results/udhr")
    languages: tuple[str, ...] = ()
    fit_languages: FitLanguages = "tested"

    _panels: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def title(self) -> str:
        """The title of tables and figures."""
        return f"The same paragraph in {len(self._part('test'))} languages"

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
        return "udhr fit"

    def fit_texts(self) -> dict[str, list[str]]:
        """Returns the paragraphs to fit on."""
        return corpora.udhr("fit") if self.fit_languages == "all" else self._part("fit")

    def texts(self) -> Texts:
        """Returns the test paragraphs."""
        test = self._part("test")
        if len(test) < 2:
            raise ValueError(f"--languages is {' '.join(self.languages)}; give at least two different languages")
        return {("test", code): paragraphs for code, paragraphs in test.items()}

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields mean average precision, and accuracy into English."""
        test = {code: rows for (_, code), rows in x.items()}
        yield Score.of("mAP", list(test), pool_precision(test))
        if "en" in test:
            yield Score.of("accuracy into en", list(test), into_english(test))
        if spec.layer == self.layers[0]:
            self._panels[f"layer {spec.layer}, {method.label}"] = np.concatenate(list(test.values()))

    def draw(self, results: Sequence[Result]) -> None:
        """Draws the paragraphs at the first layer before and after the last method, for light and for dark pages."""
        panels = list(self._panels)
        planes = flat({name: self._panels[name] for name in dict.fromkeys((panels[0], panels[-1]))})
        test = self._part("test")
        codes = [code for code, paragraphs in test.items() for _ in paragraphs]
        paragraph = np.tile(np.arange(len(next(iter(test.values())))), len(test))
        draw_meaning(planes, codes, paragraph, self.out / "space.png")
        draw_meaning(planes, codes, paragraph, self.out / "space-dark.png", dark=True)

    def _part(self, part: str) -> dict[str, list[str]]:
        return corpora.udhr(part, self.languages or None)


def pool_precision(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> Queries:
    """Returns the average precision of each text as a query for its translations among all other texts, in percent.

    Translations of a text form a cluster.

    Args:
      x: language -> embeddings; row i has the same content in all languages.
    """
    pool, paragraphs = np.concatenate(list(x.values())), len(next(iter(x.values())))
    paragraph = np.tile(np.arange(paragraphs), len(x))
    relevant = paragraph[:, None] + paragraphs * np.arange(len(x))
    ranks = candidate_ranks(pool, pool, relevant, left_out=np.arange(len(pool)))
    return Queries(100 * precision_of_ranks(ranks), clusters=paragraph)


def into_english(x: Mapping[str, Float[np.ndarray, "paragraph dim"]]) -> Queries:
    """Returns 100 for each text whose nearest English text is its translation, else 0; translations form a cluster."""
    others = [code for code in x if code != "en"]
    hits = [100.0 * find_own(x[code], x["en"]) for code in others]
    # Every language has the same number of texts, so the mean is also the mean over languages.
    return Queries(np.concatenate(hits), clusters=np.tile(np.arange(len(x["en"])), len(others)))
