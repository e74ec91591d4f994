"""XQuAD-R: questions and candidate sentences in eleven languages.

Roy et al., "LAReQA: Language-agnostic answer retrieval from a multilingual pool", EMNLP 2020. Each
language's file is SQuAD's form with ``sentence_breaks``, the [start, end) of the sentences of each
paragraph. A question is answered by the sentence that holds the first character of its answer, the
first whose break reaches it, its end included, as in the code of LIR and LSAR.

Data: the folder ``xquad-r`` of github.com/google-research-datasets/lareqa (CC BY-SA 4.0).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lsar_jax.languages import language_code

__all__ = ["XQUAD_R", "Questions", "question_languages", "read_xquad"]

_SOURCE = "copy the folder xquad-r of github.com/google-research-datasets/lareqa there"
XQUAD_R = ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh")


@dataclass(frozen=True)
class Questions:
    """One language.

    Attributes:
      questions: text of each.
      ids: of the questions, the same in all languages.
      candidates: sentences of all paragraphs.
      answers: index into ``candidates`` of each question's answer.
    """

    questions: tuple[str, ...]
    ids: tuple[str, ...]
    candidates: tuple[str, ...]
    answers: tuple[int, ...]


def question_languages(folder: Path, languages: Sequence[str] = ()) -> list[str]:
    """Returns the languages that the folder has a file of, or those of ``languages``, in alphabetical order.

    Raises:
      FileNotFoundError: no such folder, or none of a language.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; {_SOURCE}, or say --data")
    there = {language_code(path.stem) for path in folder.glob("*.json")}
    wanted = {language_code(code) for code in languages} or there
    if wanted - there or not there:
        missing = ", ".join(sorted(wanted - there)) or "any language"
        raise FileNotFoundError(f"{folder} has no file of {missing}; it has {', '.join(sorted(there)) or 'none'}")
    return sorted(wanted)


def read_xquad(folder: Path, languages: Sequence[str] = XQUAD_R) -> dict[str, Questions]:
    """Reads ``{language}.json`` of each language.

    Raises:
      FileNotFoundError: no such folder or file.
      ValueError: a file that is not of that form, or an answer in no sentence.
    """
    result = {}
    for code in languages:
        path = folder / f"{code}.json"
        if not path.is_file():
            raise FileNotFoundError(f"there is no {path}; {_SOURCE}")
        try:
            articles = json.loads(path.read_text(encoding="utf-8"))["data"]
            paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
            result[code] = _questions(paragraphs)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"{path} is not a file of XQuAD-R: {error!r}") from error
    return result


def _questions(paragraphs: list[dict]) -> Questions:
    questions: list[str] = []
    ids: list[str] = []
    candidates: list[str] = []
    answers: list[int] = []
    for paragraph in paragraphs:
        breaks = paragraph["sentence_breaks"]
        for qa in paragraph["qas"]:
            start = qa["answers"][0]["answer_start"]
            sentence = next((n for n, (low, high) in enumerate(breaks) if low <= start <= high), None)
            if sentence is None:
                raise ValueError(f"the answer of {qa['id']} at {start} is in none of the sentences {breaks}")
            questions.append(qa["question"])
            ids.append(qa["id"])
            answers.append(len(candidates) + sentence)
        candidates += [paragraph["context"][low:high] for low, high in breaks]
    return Questions(tuple(questions), tuple(ids), tuple(candidates), tuple(answers))
