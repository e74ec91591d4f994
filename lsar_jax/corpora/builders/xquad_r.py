"""LAReQA's XQuAD-R as a TensorFlow dataset: questions, candidate sentences and the answer to each question.

Roy et al., "LAReQA: Language-agnostic answer retrieval from a multilingual pool", EMNLP 2020. The file
of each language is in SQuAD's format plus ``sentence_breaks``, the [start, end) of the sentences in each
paragraph. The answer to a question is the first sentence whose range, including its end, contains the
first character of the answer, as in the code of LIR and LSAR. A row is a paragraph.

Data: the folder ``xquad-r`` of github.com/google-research-datasets/lareqa (CC BY-SA 4.0).
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lsar_jax.corpora.builders.base import DatasetFiles, Row
from lsar_jax.corpora.by_language import language_files
from lsar_jax.files import read_json

__all__ = ["Questions", "XquadR"]


class Questions(NamedTuple):
    """The questions and candidates of one language.

    Attributes:
      questions: text of each question.
      ids: ids of the questions, which are the same in all languages.
      candidates: sentences of all paragraphs.
      answers: index into ``candidates`` of the answer to each question.
      paragraphs: text of each paragraph.
      places: index into ``paragraphs`` of the paragraph of each candidate.
    """

    questions: list[str]
    ids: list[str]
    candidates: list[str]
    answers: list[int]
    paragraphs: list[str]
    places: list[int]


class XquadR(DatasetFiles):
    """Files ``{language}.json`` in a folder, each named with any code of its language.

    Raises:
      FileNotFoundError: there is no folder or file (when the files are first needed).
      ValueError: a file is not in this format; the error names the file and the paragraph.
    """

    name: ClassVar = "xquad_r"
    split: ClassVar = "test"
    fields: ClassVar = {
        "context": "text",
        **dict.fromkeys(("sentences", "questions", "ids"), "texts"),
        "answers": "ints",
    }

    @cached_property
    def files(self) -> dict[str, Path]:
        """The file of each language."""
        return language_files(self.folder, ".json")

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the paragraphs."""
        path, places, place = self.files[config], dict[str, str](), "the top level"
        data = read_json(path, dict)
        try:
            for first, article in enumerate(data["data"], start=1):
                for second, paragraph in enumerate(article["paragraphs"], start=1):
                    place = f"article {first}, paragraph {second}"
                    row = _row(paragraph, self.breaks(paragraph))
                    if again := next((id for id in row["ids"] if places.setdefault(id, place) != place), ""):
                        raise ValueError(f"the id {again!r} is already in {places[again]}")
                    yield row
            if not places:
                raise ValueError("there are no questions")
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise ValueError(f"{path}, {place} is not in XQuAD-R's format: {error!r}") from error

    @staticmethod
    def breaks(paragraph: Any) -> Any:
        """Returns the ``[start, end)`` of the sentences of a paragraph."""
        return paragraph["sentence_breaks"]

    @staticmethod
    def gather(rows: Iterable[Row]) -> Questions:
        """Returns the questions and candidates of all paragraphs."""
        result = Questions([], [], [], [], [], [])
        for row in rows:
            result.places.extend([len(result.paragraphs)] * len(row["sentences"]))
            result.paragraphs.append(row["context"])
            result.answers.extend(len(result.candidates) + answer for answer in row["answers"])
            result.questions.extend(row["questions"])
            result.ids.extend(row["ids"])
            result.candidates.extend(row["sentences"])
        return result


def _row(paragraph: Any, breaks: Any) -> Row:
    context = paragraph["context"]
    answers = []
    # Breaks of a file include their ends; those that are found by a rule touch, and do not.
    last = int("sentence_breaks" in paragraph)
    for qa in paragraph["qas"]:
        starts = [answer["answer_start"] for answer in qa["answers"][:1]]
        found = [n for n, (low, high) in enumerate(breaks) for start in starts if low <= start < high + last]
        if not found:
            raise ValueError(f"the question {qa['id']!r} has no answer in a sentence; leave such questions out")
        answers.append(found[0])
    return {
        "context": context,
        "sentences": [context[low:high] for low, high in breaks],
        "questions": [qa["question"] for qa in paragraph["qas"]],
        "ids": [qa["id"] for qa in paragraph["qas"]],
        "answers": answers,
    }
