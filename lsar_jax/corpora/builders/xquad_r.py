"""LAReQA's XQuAD-R as a TensorFlow dataset: questions, candidate sentences and the answer to each question.

Roy et al., "LAReQA: Language-agnostic answer retrieval from a multilingual pool", EMNLP 2020. The file
of each language is in SQuAD's format plus ``sentence_breaks``, the [start, end) of the sentences in each
paragraph. The answer to a question is the first sentence whose range, including its end, contains the
first character of the answer, as in the code of LIR and LSAR. A row is a paragraph.

Data: the folder ``xquad-r`` of github.com/google-research-datasets/lareqa (CC BY-SA 4.0).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from lsar_jax.corpora.builders.base import DatasetFiles, Row
from lsar_jax.corpora.text_files import language_files
from lsar_jax.files import read_json

__all__ = ["Questions", "XquadR"]


@dataclass(frozen=True)
class Questions:
    """The questions and candidates of one language.

    Attributes:
      questions: text of each question.
      ids: ids of the questions, which are the same in all languages.
      candidates: sentences of all paragraphs.
      answers: index into ``candidates`` of the answer to each question.
    """

    questions: list[str]
    ids: list[str]
    candidates: list[str]
    answers: list[int]


class XquadR(DatasetFiles):
    """Files ``{language}.json``, each named with any code of its language.

    Args:
      folder: folder of the files.
      languages: codes of the languages to read; by default, all available.

    Raises:
      FileNotFoundError: the folder does not exist, or a language has no file (when the files are first needed).
      ValueError: a file is not in this format; the error names the file and the paragraph.

    Example:
      >>> import json
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import builders
      >>> text, breaks = "Bern is old. It is in Switzerland.", [[0, 12], [13, 34]]
      >>> qa = {"id": "q1", "question": "Where is Bern?", "answers": [{"answer_start": 22}]}
      >>> paragraph = {"context": text, "sentence_breaks": breaks, "qas": [qa]}
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = Path(folder, "en.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
      ...     found = builders.XquadR.load(folder, "en", "test")
      >>> found.questions[0], found.candidates[found.answers[0]]
      ('Where is Bern?', 'It is in Switzerland.')
    """

    name: ClassVar = "xquad_r"
    split: ClassVar = "test"
    fields: ClassVar = {
        "context": "text",
        "sentences": "texts",
        "questions": "texts",
        "ids": "texts",
        "answers": "ints",
    }

    @cached_property
    def files(self) -> dict[str, Path]:
        """The file of each language."""
        return language_files(self.folder, ".json", self.languages)

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the paragraphs."""
        path = self.files[config]
        seen: dict[str, str] = {}
        place = "the top level"
        try:
            for first, article in enumerate(read_json(path, dict)["data"], start=1):
                for second, paragraph in enumerate(article["paragraphs"], start=1):
                    place = f"article {first}, paragraph {second}"
                    row = _row(paragraph)
                    for id in row["ids"]:
                        if id in seen:
                            raise ValueError(f"the id {id!r} is already in {seen[id]}")
                        seen[id] = place
                    yield row
            if not seen:
                raise ValueError("there are no questions")
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"{path}, {place} is not in XQuAD-R's format: {error!r}") from error
        except ValueError as error:
            raise error if str(path) in str(error) else ValueError(f"{path}, {place}: {error}") from error

    @staticmethod
    def gather(rows: Iterable[Row]) -> Questions:
        """Returns the questions and candidates of all paragraphs."""
        result = Questions([], [], [], [])
        for row in rows:
            result.answers.extend(len(result.candidates) + answer for answer in row["answers"])
            result.questions.extend(row["questions"])
            result.ids.extend(row["ids"])
            result.candidates.extend(row["sentences"])
        return result


def _row(paragraph: Any) -> Row:
    context, breaks = paragraph["context"], paragraph["sentence_breaks"]
    answers = []
    for qa in paragraph["qas"]:
        start = qa["answers"][0]["answer_start"]
        sentence = next((n for n, (low, high) in enumerate(breaks) if low <= start <= high), None)
        if sentence is None:
            raise ValueError(f"the answer of {qa['id']!r} at {start} is not in any of the sentences {breaks}")
        answers.append(sentence)
    return {
        "context": context,
        "sentences": [context[low:high] for low, high in breaks],
        "questions": [qa["question"] for qa in paragraph["qas"]],
        "ids": [qa["id"] for qa in paragraph["qas"]],
        "answers": answers,
    }
