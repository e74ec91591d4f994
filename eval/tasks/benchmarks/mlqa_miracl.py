"""MLQA and MIRACL in MTEB's form: questions, passages, and judgements of which are relevant.

    python -m eval mlqa --data hub:mteb/MLQARetrieval
    python -m eval miracl --data hub:mteb/MIRACLRetrievalHardNegatives --languages sw te
    python -m eval miracl --data data/miracl --languages sw    # its own files

A question searches the passages of its language, or of another, by cosine; the scores are nDCG@10, which is MTEB's, and
recall in the first 100, for each pair of languages. In names here, the language of the question is first; in MTEB's
subsets, that of the passages. MLQA has a set of passages for each pair of its seven languages; the *gap* is the mean
nDCG@10 in the same language minus that across languages. MIRACL has 18 languages and no pairs. Its text is read at
once, and its languages are encoded and scored one by one, each with the vectors of all of its passages in memory: some
ten thousands to two hundred thousand in MTEB's form with hard negatives, and up to 33 million, of English, in full.
``eval.data.mlqa_miracl`` documents the files.

Lewis et al., "MLQA", ACL 2020; Zhang et al., "MIRACL", TACL 2023.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from eval.command import command
from eval.data.mlqa_miracl import Judged, read_judged
from eval.task import Embedded, Key, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.query_scores import difference_of
from lsar_jax.measures.ranking import ndcg, recall
from lsar_jax.retrieval import nearest

__all__ = ["MIRACL", "MLQA", "fill", "miracl", "mlqa"]

_FIRST, _MOST = 10, 100
_NDCG, _RECALL = f"nDCG@{_FIRST}", f"recall@{_MOST}"


def mlqa(
    data: Data = "hub:mteb/MLQARetrieval",
    languages: tuple[str, ...] = (),
    split: str = "test",
    question_text: str = "{question}",
    passage_text: str = "{passage}",
) -> Task:
    """Questions and passages of Wikipedia in all pairs of seven languages: nDCG@10, and the gap between languages.

    Args:
      data: hub:ID; or folder with a folder for each pair, the language of the passages first, such as deu-eng.
      languages: language codes; by default, all in the data.
      split: split to measure.
      question_text: what is encoded for a question, with {question} for it.
      passage_text: what is encoded for a passage, with {passage} for it.
    """
    return _task("mlqa", "MLQA", read_judged(data, split, languages), (question_text, passage_text), together=True)


def miracl(
    data: Data = "hub:mteb/MIRACLRetrievalHardNegatives",
    languages: tuple[str, ...] = (),
    split: str = "dev",
    question_text: str = "{question}",
    passage_text: str = "{passage}",
) -> Task:
    """Questions and passages of Wikipedia in 18 languages, each by itself: nDCG@10 and recall in the first 100.

    Args:
      data: hub:ID; folder of MIRACL's own files; or folder with a folder for each language.
      languages: language codes; by default, all in the data.
      split: split to measure.
      question_text: what is encoded for a question, with {question} for it.
      passage_text: what is encoded for a passage, with {passage} for it.
    """
    return _task("miracl", "MIRACL", read_judged(data, split, languages), (question_text, passage_text), together=False)


def fill(template: str, name: str, texts: Sequence[str]) -> list[str]:
    """Puts each text in place of its name, question or passage, in a template; raises ValueError if it is not there."""
    if f"{{{name}}}" not in template:
        raise ValueError(f"--{name}-text is {template!r}; it needs {{{name}}}")
    return [template.replace(f"{{{name}}}", text) for text in texts]


def _task(
    name: str, title: str, pairs: Mapping[tuple[str, str], Judged], templates: tuple[str, str], *, together: bool
) -> Task:
    parts: list[dict[Key, list[str]]] = [
        {
            (f"q {asked}-{read}", asked): fill(templates[0], "question", judged.questions),
            (f"p {asked}-{read}", read): fill(templates[1], "passage", judged.passages),
        }
        for (asked, read), judged in pairs.items()
    ]
    if together:
        # A passage is in the sets of several pairs, and is encoded once.
        parts = [{key: lines for part in parts for key, lines in part.items()}]
    codes = list(dict.fromkeys(code for pair in pairs for code in pair))
    return Task(
        name=name,
        title=f"{title}, {len(codes)} languages",
        languages=list(dict.fromkeys([*codes, "en"])),
        parts=parts,
        scores=partial(_scores, pairs, together),
        means=_means,
        queries="q",
        some=True,
        searches=True,
    )


def _scores(
    pairs: Mapping[tuple[str, str], Judged], together: bool, x: Embedded, method: Method, setting: Setting
) -> Iterator[Score]:
    """Yields the scores of each pair of languages; with ``together``, a question is resampled with its translations."""
    # A question has the same id in all languages, as in MLQA's files.
    numbers = {name: n for n, name in enumerate(dict.fromkeys(i for of in pairs.values() for i in of.ids))}
    for (asked, read), judged in pairs.items():
        of_both = ((f"q {asked}-{read}", asked), (f"p {asked}-{read}", read))
        if not all(key in x for key in of_both):
            continue
        questions, passages = (x[key] for key in of_both)
        found = np.asarray(nearest(questions, passages, min(_MOST, len(passages)), bank=method.bank)[1])
        values = {
            _NDCG: ndcg(found[:, :_FIRST], judged.relevant, judged.gains),
            _RECALL: recall(found, judged.relevant),
        }
        question = np.array([numbers[name] for name in judged.ids]) if together else None
        for metric, of_query in values.items():
            yield Score.of(
                Metric(f"{metric} {asked}-{read}"), [asked, read], QueryScores(100 * of_query, clusters=question)
            )


def _means(scores: Sequence[Score]) -> Iterator[Score]:
    """Yields the means in the same language and across languages, and their difference."""
    for name in (_NDCG, _RECALL):
        every = {tuple(s.languages): s.queries for s in scores if s.metric.name.startswith(name) and s.queries}
        same = [queries for (asked, read), queries in every.items() if asked == read]
        across = [queries for (asked, read), queries in every.items() if asked != read]
        codes = list(dict.fromkeys(code for pair in every for code in pair))
        for pairs, queries, shown in (("same language", same, True), ("across languages", across, name == _NDCG)):
            if queries:
                metric = Metric(f"{name} {pairs}", shown=shown).over(len(queries))
                yield Score.of(metric, codes, difference_of(queries))
        if same and across:
            yield Score.of(Metric(f"{name} gap", "lower", shown=name == _NDCG), codes, difference_of(same, across))


_RARE = ("split", "question_text", "passage_text")
MLQA = command(mlqa, max_length=512, rare=_RARE)
MIRACL = command(miracl, max_length=512, rare=_RARE)
