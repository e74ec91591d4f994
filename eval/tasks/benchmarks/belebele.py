"""Belebele: find the passage that a question is about, in its language, in others, in another script, in one pool.

    python -m eval belebele --data hub:mteb/belebele --languages en de hi hi-Latn ar ar-Latn
    python -m eval belebele --data data/belebele --fit-on evaluated

Bandarkar et al., "The Belebele Benchmark", ACL 2024, as retrieval in MTEB's form: 900 questions search 488 passages in
the same language, in English (``xx-en``) or, from English, in another language (``en-xx``), and in the language's other
script, by cosine; the score is nDCG@10. In names here, the language of the question is first; in MTEB's subsets, that
of the passages. The *gap* is the mean in the same language minus that across languages. MTEB counts a question whose
text is on two passages once, with both relevant; here, it is two questions.

MTEB searches one language at a time. *Pool* is what it leaves out: the passages of all languages together, with one
relevant passage in each; *preference* and *top 10* are defined in ``lsar_jax.retrieval.preference``. Passages in two
scripts tell script from language (``eval.tasks.benchmarks.scripts``). Intervals are over passages.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from eval.command import command
from eval.data.belebele import read_belebele
from eval.task import Embedded, Score, Setting, Task, starting_with
from eval.tasks.benchmarks.mlqa_miracl import check_texts
from eval.tasks.benchmarks.scripts import PairMeans, fitted_and_all, script_neighbours, script_pairs
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.methods import Method
from lsar_jax.measures.ranking import ndcg, precision_of_ranks
from lsar_jax.measures.resampling import QueryScores
from lsar_jax.retrieval import candidate_ranks, nearest
from lsar_jax.retrieval.preference import language_preference, top_k_share

__all__ = ["COMMAND", "belebele"]

_FIRST = 10


def belebele(
    data: Data = Path("data/belebele"),
    languages: tuple[str, ...] = (),
    question_text: str = "{question}",
    passage_text: str = "{passage}",
) -> Task:
    """Questions on passages in up to 122 languages, some of them in two scripts: nDCG@10, and language preference.

    Args:
      data: folder of xxx_Yyyy.jsonl files; hub:ID; or tfds:NAME.
      languages: language codes, such as hi-Latn or hin_Latn for romanised Hindi; by default, all in the data.
      question_text: what is encoded for a question, with {question} for it.
      passage_text: what is encoded for a passage, with {passage} for it.
    """
    check_texts(question_text, passage_text)
    questions, passages, answers = read_belebele(data, languages)
    answer = np.array(answers)
    texts = {("q", c): [question_text.replace("{question}", line) for line in lines] for c, lines in questions.items()}
    texts |= {("p", c): [passage_text.replace("{passage}", line) for line in lines] for c, lines in passages.items()}

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        codes = [code for group, code in x if group == "q"]
        of_scripts = script_pairs(codes)
        means = PairMeans({*setting.fitted, "en"})
        wanted = [(code, code) for code in codes]
        wanted += [pair for code in codes if code != "en" and "en" in codes for pair in (("en", code), (code, "en"))]
        wanted += [pair for first, second in of_scripts for pair in ((first, second), (second, first))]
        for asked, read in wanted:
            found = np.asarray(nearest(x["q", asked], x["p", read], min(_FIRST, len(x["p", read])))[1])
            values = 100 * ndcg(found, answer[:, None], np.ones((len(answer), 1)))
            yield Score.of(f"nDCG@10 {asked}-{read}", [asked, read], QueryScores(values, clusters=answer))
            for name in _names(asked, read):
                means.add(f"nDCG@10 {name}", (asked, read), values)
            for pair in of_scripts:
                for code, name in zip(pair, ("usual script", "other script"), strict=True):
                    if asked == read == code:
                        means.add(f"nDCG@10 same language, {name}", pair, values)
                        means.add("nDCG@10 same language and script", pair, values)
        yield from means.scores(answer)
        yield from means.difference("nDCG@10 gap", "nDCG@10 same language", "nDCG@10 across languages", answer)
        yield from means.difference(
            "nDCG@10 lost across scripts", "nDCG@10 same language and script", "nDCG@10 across scripts", answer
        )
        for pool in fitted_and_all(codes, {*setting.fitted, "en"}):
            if len(pool) > 1:
                yield from _pool_scores(x, pool, answer)
        yield from script_neighbours({code: x["p", code] for code in codes}, {*setting.fitted, "en"})

    return Task(
        name="belebele",
        title=f"Belebele, {len(questions)} languages",
        languages=list(dict.fromkeys([*questions, "en"])),
        parts=[texts],
        scores=scores,
        shown=starting_with(
            "nDCG@10 same language over", "nDCG@10 across languages", "nDCG@10 across scripts", "pool preference"
        ),
        by_language=lambda x: {c: np.concatenate([x["q", c], x["p", c]]) for c in questions},
        some=True,
    )


def _names(asked: str, read: str) -> Iterator[str]:
    """The means that a pair of languages, of the question and of the passages, is in."""
    if asked == read:
        yield "same language"
    elif "en" in (asked, read):
        yield "across languages"
        yield "en-xx" if asked == "en" else "xx-en"
    else:
        yield "across scripts"


def _pool_scores(x: Embedded, codes: Sequence[str], answer: np.ndarray) -> Iterator[Score]:
    """Yields mean average precision and language preference in the pool of all languages."""
    asked, pool = (np.concatenate([x[group, code] for code in codes]) for group in "qp")
    passages = len(x["p", codes[0]])
    of_question = np.tile(answer, len(codes))
    language = np.repeat(np.arange(len(codes)), len(answer))
    ranks = candidate_ranks(asked, pool, of_question[:, None] + passages * np.arange(len(codes)))
    found = language_preference(ranks, language, len(pool))
    first = np.asarray(nearest(asked, pool, min(_FIRST, len(pool)))[1])
    top = top_k_share(first, np.repeat(np.arange(len(codes)), passages), language)
    values = {"mAP": precision_of_ranks(ranks), "preference": found.preferred, f"top {_FIRST}": top.shares}
    for name, of_query in values.items():
        yield Score.of(f"pool {name} over {len(codes)}", codes, QueryScores(100.0 * of_query, clusters=of_question))
    yield Score(f"pool share over {len(codes)}", 100 * top.pool_share, codes, len(asked))


COMMAND = command(belebele, max_length=512, rare=("question_text", "passage_text"))
