"""UDHR: retrieval of the same paragraph of the Universal Declaration of Human Rights in 40 languages.

    make demo        # python -m eval udhr: bundled encoder, layers 8 and 12

Transforms are fitted on the paragraphs at even positions and tested on those at odd positions. The pool consists of the
test paragraphs in all languages. Each of them is a query against the others, and the same paragraph in the other
languages is relevant; the score is mean average precision over the full ranking by cosine. Retrieval into English is
measured too: each language's test paragraphs search the English ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from eval.command import command
from eval.data.fit_text import udhr_text
from eval.figures.meaning import draw_meaning
from eval.task import Embedded, Method, Metric, Panel, Score, Setting, Task
from lsar_jax import corpora
from lsar_jax.measures.ranking import into_english, pool_precision
from lsar_jax.measures.results import Result
from lsar_jax.report.planes import flat

__all__ = ["COMMAND", "HALF", "udhr"]

# The half of the paragraphs that is not measured.
HALF = udhr_text("fit")


def udhr(languages: tuple[str, ...] = ()) -> Task:
    """Retrieval among the paragraphs of the Universal Declaration of Human Rights in 40 languages.

    By default, LSAR has half and all of the dimensions that the means of the languages span.

    Args:
      languages: language codes; by default, all 40.
    """
    test = corpora.udhr("test", languages or None)

    def draw(results: Sequence[Result], panels: Mapping[str, np.ndarray], out: Path) -> None:
        # The first layer before and after the last method, for light and for dark pages.
        titles = list(panels)
        planes = flat({title: panels[title] for title in dict.fromkeys((titles[0], titles[-1]))})
        codes = [code for code, paragraphs in test.items() for _ in paragraphs]
        paragraph = np.tile(np.arange(len(next(iter(test.values())))), len(test))
        draw_meaning(planes, codes, paragraph, out / "space.png")
        draw_meaning(planes, codes, paragraph, out / "space-dark.png", dark=True)

    return Task(
        name="udhr", title=f"The same paragraph in {len(test)} languages", languages=list(test),
        parts=[{("test", code): paragraphs for code, paragraphs in test.items()}], scores=_scores,
        own_text={"udhr": HALF}, searches=True, draw=draw, half_rank=True, least=2,
    )  # fmt: skip


def _scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score | Panel]:
    test = {code: rows for (_, code), rows in x.items()}
    precision = Metric("mAP", kind="across languages", column="pool of all", shown=True)
    yield Score.of(precision, list(test), pool_precision(test, method.bank))
    if "en" in test:
        yield Score.of(Metric("accuracy into en", shown=True), list(test), into_english(test, method.bank))
    if setting.first:
        yield Panel(setting.title(method), np.concatenate(list(test.values())))


COMMAND = command(udhr)
