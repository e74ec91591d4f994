"""Language preference among XQuAD-R's answers in one pool, and a plot of one question.

    python -m eval answers --data data/xquad-r

The pool holds the candidate sentences of eleven languages; each question has one relevant sentence in every language.
``lsar_jax.retrieval.preference`` defines preference and spread. The plot is Xie et al.'s Figure 2: the question "What
theory best explains gravity?" in English, and all candidates in English, Thai and Chinese, ranked by dot product.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.command import Options, command
from eval.data.xquad import XQUAD_R, check_as_trained, read_xquad
from eval.figures.answers import AnswerPlane, draw_answers
from eval.scores.pools import search_pool
from eval.task import Embedded, Method, Metric, Panel, QueryScores, Score, Setting, Task, Texts
from lsar_jax.corpora.question_answers import answer_texts, check_templates, question_texts
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.compared_methods import ALL_METHODS, FEW_METHODS
from lsar_jax.measures.results import Result
from lsar_jax.retrieval import candidate_ranks

__all__ = ["COMMAND", "answers"]

# Number of questions used per language; the candidate sentences up to the last answer to them form the pool.
_QUESTIONS = 100
# Languages of the picture's candidates.
_PICTURED = ("en", "th", "zh")


def answers(
    data: Data = Path("data/xquad-r"),
    question: int = 1178,
    question_text: str = "{question}",
    answer_text: str = "{answer}",
    options: Options | None = None,
) -> Task:
    """Language preference on XQuAD-R: is the best answer in the question's language?

    Args:
      data: folder of XQuAD-R.
      question: number of the picture's question in the English file, from 0.
      question_text: what is encoded for a question, with {question} for it.
      answer_text: what is encoded for a candidate, with {answer} for its sentence and {paragraph} for its paragraph.
      options: all options of the command.
    """
    check_templates(question_text, answer_text)
    if options is not None:
        check_as_trained(options.encoder, data, question_text, answer_text)
    texts, places = _read(data, question, question_text, answer_text)

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score | Panel]:
        yield from _scores(places, x)
        if setting.first and method.name in FEW_METHODS:
            yield Panel(setting.title(method), _plane(x, {code: places[code][question] for code in _PICTURED}))

    def draw(results: Sequence[Result], panels: Mapping[str, Any], out: Path) -> None:
        candidates = [code for code in _PICTURED for _ in texts["c", code]]
        title = f"{texts['asked', 'en'][0]}\nIts answers and the other candidates, more opaque at a better rank"
        planes = {name: plane for method in FEW_METHODS for name, plane in panels.items() if name.split()[2] == method}
        if planes:
            draw_answers(planes, candidates, _PICTURED, title, out / "answers.png")

    return Task(
        name="answers",
        title="XQuAD-R: is the best answer in the question's language? From 0 to 1",
        languages=XQUAD_R,
        parts=[texts],
        scores=scores,
        draw=draw,
    )


def _read(data: Data, question: int, question_text: str, answer_text: str) -> tuple[Texts, dict[str, Sequence[int]]]:
    """Texts, and the place of each question's answer in each language.

    The candidates are the pool, and all candidates of the pictured languages.
    """
    questions = read_xquad(data, XQUAD_R)
    if not 0 <= question < len(ids := questions["en"].ids):
        raise ValueError(f"--question is {question}; give 0 to {len(ids) - 1}, a question of the English file")
    texts: dict[tuple[str, str], Sequence[str]] = {}
    for code, q in questions.items():
        if q.ids != ids:
            raise ValueError(f"the questions of XQuAD-R differ between en and {code}")
        texts["q", code] = question_texts(q, question_text)[:_QUESTIONS]
        last = None if code in _PICTURED else max(q.answers[:_QUESTIONS]) + 1
        texts["c", code] = answer_texts(q, answer_text)[:last]
    texts["asked", "en"] = question_texts(questions["en"], question_text)[question : question + 1]
    return texts, {code: q.answers for code, q in questions.items()}


def _scores(answers: Mapping[str, Sequence[int]], x: Embedded) -> Iterator[Score]:
    """Yields preference and spread, from the place of each question's answer in each language."""
    asked = [x["q", code] for code in answers]
    places = np.array(list(answers.values()))[:, : len(asked[0])]
    candidates = [x["c", code][: last + 1] for code, last in zip(answers, places.max(axis=1), strict=True)]
    starts = np.cumsum([0, *map(len, candidates[:-1])])
    found = search_pool(asked, candidates, np.tile(starts + places.T, (len(answers), 1)))
    preferred, spreads = (found.values[name] / 100 for name in ("preference", "spread"))
    # Translations of a question form a cluster.
    translations = np.tile(np.arange(len(asked[0])), len(asked))
    preference, spread = (
        Metric(f"XQuAD-R {name}", "neither", unit="", shown=True) for name in ("preference", "spread")
    )
    yield Score.of(preference, list(answers), QueryScores(preferred, clusters=translations))
    yield Score(spread, float(spreads.mean()), list(answers), len(spreads))


def _plane(x: Embedded, answers: Mapping[str, int]) -> AnswerPlane:
    """Projects the question and all candidates onto their principal plane, and ranks the candidates by dot product."""
    candidates = np.concatenate([x["c", code] for code in answers])
    starts = np.cumsum([0, *(len(x["c", code]) for code in answers)])[:-1]
    every = np.arange(len(candidates))[None]
    ranks = 1 + candidate_ranks(x["asked", "en"], candidates, every, metric="dot")[0]
    rows = np.concatenate([x["asked", "en"], candidates])
    rows = rows - rows.mean(axis=0)
    plane = rows @ np.linalg.svd(rows, full_matrices=False)[2][:2].T
    return AnswerPlane(plane[1:], plane[0], starts + list(answers.values()), ranks)


COMMAND = command(answers, transforms=ALL_METHODS)
