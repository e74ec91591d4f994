"""LAReQA: find the sentences that answer a question in a pool of many languages.

    python -m eval lareqa --data data/xquad-r --layers 12
    python -m eval lareqa --encoder results/en-en/bundled-sentence --answer-text "{answer} {paragraph}" --held-out 250

Roy et al., "LAReQA: Language-agnostic answer retrieval from a multilingual pool", EMNLP 2020, with the protocol of
Xie et al. 2022. The pool holds every candidate sentence of every language; each question has one answer per language,
and the score is mean average precision over the whole pool. With one target left, all answers to a question in
language q are removed except the one in language a; the mean of 1 / rank for each q and a is drawn as a heat map,
whose diagonal shows how strongly each language is preferred. *mAP in one language* is of questions that search the
sentences of their language alone, so that a loss there is seen. *Preference* and *spread* are defined in
``lsar_jax.retrieval.preference``; ``python -m eval preference --text xquad-r`` has more measures of it.

Questions and candidates are encoded alike, by default without the candidate's paragraph; the papers' encoders are
towers trained on SQuAD whose answer side reads it, which ``python -m train.align --questions`` trains and
``--answer-text`` measures as they were trained. ``eval.data.xquad`` says where the files are.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from eval.command import Options, command
from eval.data.xquad import NOT_ON_HUB, Questions, answer_table, check_as_trained, read_xquad
from eval.figures.plots import heat_maps
from eval.scores.pools import search_pool
from eval.task import Embedded, Method, Metric, Panel, QueryScores, Score, Setting, Task
from lsar_jax.checks import at_least, check_choice
from lsar_jax.corpora.question_answers import answer_texts, check_templates, question_texts
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.metric import Direction, Kind
from lsar_jax.measures.ranking import Bank, precision_of_ranks
from lsar_jax.measures.results import Result
from lsar_jax.retrieval import candidate_ranks, mix_queries
from lsar_jax.retrieval.search import Metric as Similarity

__all__ = ["COMMAND", "lareqa", "one_target_precision"]

# Direction of a metric, and its place among what methods cost and gain.
_METRICS: dict[str, tuple[Direction, Kind, str]] = {
    "mAP": ("higher", "across languages", "pool of all"),
    "mAP in one language": ("higher", "in one language", "each alone"),
    "preference": ("neither", "preference", "own language preferred"),
}


def lareqa(
    data: Data = Path("data/xquad-r"),
    languages: tuple[str, ...] = (),
    metrics: tuple[Similarity, ...] = ("cosine", "dot"),
    question_text: str = "{question}",
    answer_text: str = "{answer}",
    held_out: int = 0,
    split_seed: int = 0,
    mix: str = "",
    options: Options | None = None,
) -> Task:
    """Answer retrieval from a multilingual pool: mean average precision, with all targets and with one at a time.

    Args:
      data: folder of {language}.json files, or tfds:NAME for a dataset that lsar_jax.corpora.builders.prepare built
        from them.
      languages: language codes; by default, all in the folder.
      metrics: similarities to rank by: cosine, or dot for the inner product without normalisation, as in the papers.
        The names of scores under dot end in dot.
      question_text: what is encoded for a question, with {question} for it.
      answer_text: what is encoded for a candidate, with {answer} for its sentence and {paragraph} for its paragraph.
      held_out: measure only the paragraphs that train.align --questions held out with this number; by default, all.
      split_seed: seed that chooses these paragraphs.
      mix: language whose translation of each question is mixed into it, as retrieval.mix_queries does; by default,
        none.
      options: all options of the command.
    """
    check_templates(question_text, answer_text)
    at_least(0, held_out=held_out)
    if options is not None:
        check_as_trained(options.encoder, data, question_text, answer_text, held_out, split_seed)
    if not metrics:
        raise ValueError("--metrics has no value; give cosine, dot or both")
    questions = read_xquad(data, languages, held_out, split_seed)
    if mix:
        check_choice("--mix", mix, questions)

    def draw(results: Sequence[Result], panels: Mapping[str, Any], out: Path) -> None:
        title = f"Answers with one target left: mAP, % ({results[0].encoder})"
        heat_maps(panels, list(questions), title, out / "one_target.png")

    texts = {("q", code): question_texts(q, question_text) for code, q in questions.items()}
    texts |= {("c", code): answer_texts(q, answer_text) for code, q in questions.items()}
    return Task(
        name="lareqa", title=f"Answers in a pool of {len(questions)} languages", languages=list(questions),
        parts=[texts], scores=partial(_scores, questions, metrics, mix), queries="q", searches=True, draw=draw, least=2,
    )  # fmt: skip


def _scores(
    questions: Mapping[str, Questions], metrics: Sequence[Similarity], mix: str, x: Embedded, method: Method,
    setting: Setting,
) -> Iterator[Score | Panel]:  # fmt: skip
    x = _mixed(x, questions, mix) if mix else x
    for similarity in metrics if method.bank is None else ("cosine",):
        first = similarity == metrics[0]
        yield from _scores_under(similarity, questions, x, setting.title(method), first, method.bank)


def _scores_under(
    similarity: Similarity, questions: Mapping[str, Questions], x: Embedded, title: str, first: bool, bank: Bank
) -> Iterator[Score | Panel]:
    """Yields the scores under a similarity, and the table of scores with one target left."""
    codes, end = list(questions), ", dot" if similarity == "dot" else ""
    asked, candidates = ([x[group, code] for code in codes] for group in "qc")
    found = search_pool(asked, candidates, answer_table(questions), bank=bank, metric=similarity)
    precision, single = found.values["mAP"], 100 * one_target_precision(found.ranks)
    alone = [
        candidate_ranks(x["q", code], x["c", code], np.array(q.answers)[:, None], bank=bank, metric=similarity)
        for code, q in questions.items()
    ]
    # Translations of a question share its cluster.
    clusters = np.unique([name for q in questions.values() for name in q.ids], return_inverse=True)[1]
    values = {"mAP in one language": 100 * precision_of_ranks(np.concatenate(alone)), **found.values}
    for name, of_query in values.items():
        direction, kind, column = _METRICS.get(name, ("neither", "", ""))
        shown = name == "mAP" or (first and name == "preference")
        metric = Metric(f"{name}{end}", direction, "" if end else kind, column, shown=shown)
        yield Score.of(metric, codes, QueryScores(of_query, clusters=clusters))
    for row, code in enumerate(codes):
        yield Score.of(Metric(f"mAP of {code}{end}"), [code], QueryScores(precision[found.language == row]))
    # In MLQA-R, not every question exists in every language.
    known = np.ma.masked_invalid(single)
    grid = np.stack([known[found.language == row].mean(axis=0).filled(np.nan) for row in range(len(codes))])
    yield Panel(f"{title}{end}", grid)
    same = np.eye(len(codes), dtype=bool)
    for name, cells in (("same language", same), ("other languages", ~same)):
        metric = Metric(f"{name}{end}", shown=first and name == "other languages")
        yield Score(metric, float(np.nanmean(grid[cells])), codes, len(precision))
    for row, column in np.argwhere(np.isfinite(grid)):
        pair, n = [codes[row], codes[column]], int(np.isfinite(single[found.language == row, column]).sum())
        yield Score(Metric(f"one target {pair[0]}-{pair[1]}{end}"), float(grid[row, column]), pair, n)


def one_target_precision(ranks: Int[np.ndarray, "query language"]) -> Float[np.ndarray, "query language"]:
    """Returns 1 / rank of each answer after removing the query's other answers; NaN where there is none."""
    known = ranks >= 0
    ahead = (ranks[:, None, :] < ranks[:, :, None]) & known[:, None, :]
    return np.where(known, 1 / np.where(known, ranks - ahead.sum(axis=2) + 1, 1), np.nan)


def _mixed(x: Embedded, questions: Mapping[str, Questions], mix: str) -> Embedded:
    """The embeddings with each question mixed with its translation into ``mix``; without one it stays as it is."""
    place = {name: row for row, name in enumerate(questions[mix].ids)}
    mixed = {}
    for code, q in questions.items():
        rows = np.array([place.get(name, -1) for name in q.ids])
        translations = np.where(rows[:, None] >= 0, x["q", mix][rows], x["q", code])
        mixed["q", code] = np.asarray(mix_queries(x["q", code], translations))
    return {**x, **mixed}


COMMAND = command(lareqa, not_on_hub=NOT_ON_HUB, rare=("metrics", "held_out", "split_seed", "mix"))
