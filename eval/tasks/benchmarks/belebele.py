"""Belebele: find the passage that a question is about, in its language, in others, in another script.

    python -m eval belebele --data hub:mteb/belebele --languages en de hi hi-Latn ar ar-Latn
    python -m eval belebele --data data/belebele --fit-on evaluated

Bandarkar et al., "The Belebele Benchmark", ACL 2024, as retrieval in MTEB's form: 900 questions search 488 passages in
the same language, in English (``xx-en``) or, from English, in another language (``en-xx``), and in the language's other
script, by cosine; the score is nDCG@10. In names here, the language of the question is first; in MTEB's subsets, that
of the passages. The *gap* is the mean in the same language minus that across languages. MTEB counts a question whose
text is on two passages once, with both relevant; here, it is two questions.

MTEB searches one language at a time; ``python -m eval pool --text belebele`` searches the passages of all languages
together. Passages in two scripts tell script from language (``eval.scores.language_pairs``). Intervals are over
passages.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from eval.command import command
from eval.data.belebele import read_belebele
from eval.data.keyed_texts import fill
from eval.scores.language_pairs import PairMeans, script_neighbours, script_pairs
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.ranking import Bank, ndcg
from lsar_jax.retrieval import nearest

__all__ = ["COMMAND", "belebele"]

_FIRST = 10
_SAME, _ACROSS, _ACROSS_SCRIPTS = (
    Metric(f"nDCG@10 {pairs}", shown=True) for pairs in ("same language", "across languages", "across scripts")
)


def belebele(
    data: Data = Path("data/belebele"),
    languages: tuple[str, ...] = (),
    question_text: str = "{question}",
    passage_text: str = "{passage}",
) -> Task:
    """Questions on passages in up to 122 languages, some of them in two scripts: nDCG@10.

    Args:
      data: folder of xxx_Yyyy.jsonl files; hub:ID; or tfds:NAME.
      languages: language codes, such as hi-Latn or hin_Latn for romanised Hindi; by default, all in the data.
      question_text: what is encoded for a question, with {question} for it.
      passage_text: what is encoded for a passage, with {passage} for it.
    """
    questions, passages, answers = read_belebele(data, languages)
    answer = np.array(answers)
    texts = {("q", c): fill(question_text, "question", lines) for c, lines in questions.items()}
    texts |= {("p", c): fill(passage_text, "passage", lines) for c, lines in passages.items()}

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        fitted = {*setting.fitted, "en"}
        codes = [code for group, code in x if group == "q"]
        yield from _pair_scores(x, codes, answer, fitted, method.bank)
        if method.bank is None:
            yield from script_neighbours({code: x["p", code] for code in codes}, fitted)

    return Task(
        name="belebele", title=f"Belebele, {len(questions)} languages", parts=[texts], scores=scores,
        languages=list(dict.fromkeys([*questions, "en"])), evaluated="by language", queries="q", some=True,
        searches=True,
    )  # fmt: skip


def _pair_scores(
    x: Embedded, codes: Sequence[str], answer: np.ndarray, fitted: Collection[str], bank: Bank
) -> Iterator[Score]:
    """Yields nDCG@10 of each pair of languages, its means over kinds of pairs, and the differences between these."""
    means = PairMeans(fitted, answer)
    wanted = [(code, code) for code in codes]
    wanted += [pair for code in codes if code != "en" and "en" in codes for pair in (("en", code), (code, "en"))]
    wanted += [pair for first, second in script_pairs(codes) for pair in ((first, second), (second, first))]
    for asked, read in wanted:
        found = np.asarray(nearest(x["q", asked], x["p", read], min(_FIRST, len(x["p", read])), bank=bank)[1])
        values = 100 * ndcg(found, answer[:, None], np.ones((len(answer), 1)))
        yield Score.of(Metric(f"nDCG@10 {asked}-{read}"), [asked, read], QueryScores(values, clusters=answer))
        for metric in _means(asked, read):
            means.add(metric, (asked, read), values)
    yield from means.scores()
    yield from means.difference(Metric("nDCG@10 gap", "lower"), _SAME, _ACROSS)


def _means(asked: str, read: str) -> Iterator[Metric]:
    """The means that a pair of languages, of the question and of the passages, is in."""
    if asked == read:
        yield _SAME
    elif "en" in (asked, read):
        yield _ACROSS
        yield Metric("nDCG@10 en-xx" if asked == "en" else "nDCG@10 xx-en")
    else:
        yield _ACROSS_SCRIPTS


COMMAND = command(belebele, max_length=512, rare=("question_text", "passage_text"))
