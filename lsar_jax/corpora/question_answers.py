"""Questions and answers to train and test dual encoders on: the text of an answer, and which questions are held out."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lsar_jax.corpora.builders.xquad_r import Questions, XquadR
from lsar_jax.corpora.by_language import group_by

__all__ = ["Squad", "answer_texts", "check_templates", "groups_of", "held_out_ids", "part_of", "question_texts"]

# A sentence ends in a stop, perhaps with closing quotes and brackets, and space; CJK stops need no space.
_END = re.compile(
    r"[.!?\u0964\u061f][\"'\u201d\u2019\u00bb)\]]*\s+|[\u3002\uff01\uff1f][\u201d\u300d\u300f\uff09]*\s*|\n\s*"
)


class Squad(XquadR):
    """Files in SQuAD's format, such as SQuAD, XQuAD and MLQA; without ``sentence_breaks``, ends are found by a rule.

    Abbreviations break a sentence too. That is enough to train on; LAReQA is measured on the breaks of its own files.
    """

    @staticmethod
    def breaks(paragraph: Any) -> Any:
        """Returns the ``[start, end)`` of the sentences of a paragraph."""
        if "sentence_breaks" in paragraph:
            return XquadR.breaks(paragraph)
        context: str = paragraph["context"]
        starts = [0, *(found.end() for found in _END.finditer(context)), len(context)]
        return [(low, high) for low, high in pairwise(starts) if context[low:high].strip()]


def check_templates(question_text: str, answer_text: str) -> None:
    """Raises ValueError if a template lacks ``{question}`` or ``{answer}``, or has braces that are not its own."""
    for name, text, other in (("question", question_text, ""), ("answer", answer_text, "paragraph")):
        if f"{{{name}}}" not in text or re.search("[{}]", re.sub(rf"\{{({name}|{other})\}}", " ", text)):
            more = f", may have {{{other}}}," if other else ","
            raise ValueError(f"--{name}-text is {text!r}; it needs {{{name}}}{more} and has no other braces")


def question_texts(questions: Questions, template: str) -> list[str]:
    """Returns the text that stands for each question."""
    return [template.format(question=question) for question in questions.questions]


def answer_texts(questions: Questions, template: str) -> list[str]:
    """Returns the text that stands for each candidate: its sentence, perhaps with its paragraph."""
    return [
        template.format(answer=sentence, paragraph=questions.paragraphs[place])
        for sentence, place in zip(questions.candidates, questions.places, strict=True)
    ]


def groups_of(data: Mapping[str, Questions], seed: int = 0) -> list[list[str]]:
    """Groups the ids of questions by paragraph, in an order that depends only on the seed and the ids.

    Ids are shared by languages, and paragraphs of any language that share an id are of one group.
    """
    first: dict[str, str] = {}

    def root(id: str) -> str:
        while first.setdefault(id, id) != id:
            id = first[id]
        return id

    for questions in data.values():
        of_paragraph: dict[int, str] = {}
        for id, answer in zip(questions.ids, questions.answers, strict=True):
            low, high = sorted([root(id), root(of_paragraph.setdefault(questions.places[answer], id))])
            first[high] = low
    groups = group_by(list(first), root)
    return [groups[key] for key in sorted(groups, key=lambda key: hashlib.sha256(f"{seed}\t{key}".encode()).digest())]


def held_out_ids(groups: Sequence[Sequence[str]], count: int) -> tuple[set[str], list[list[str]]]:
    """Returns the ids of the first groups, at least ``count``, and the other groups.

    Raises:
      ValueError: no group would be left.
    """
    held: set[str] = set()
    for number, group in enumerate(groups):
        if len(held) >= count:
            return held, [list(other) for other in groups[number:]]
        held |= {*group}
    raise ValueError(f"{count} questions cannot be held out of {len(held)}, by paragraph; hold out fewer")


def part_of(questions: Questions, ids: Collection[str]) -> Questions:
    """Returns the questions with these ids, and the candidates and paragraphs that have one of them."""
    kept = [number for number, id in enumerate(questions.ids) if id in ids]
    paragraphs = sorted({questions.places[questions.answers[number]] for number in kept})
    renumbered = {place: number for number, place in enumerate(paragraphs)}
    candidates = [number for number, place in enumerate(questions.places) if place in renumbered]
    moved = {candidate: number for number, candidate in enumerate(candidates)}
    return Questions(
        [questions.questions[number] for number in kept],
        [questions.ids[number] for number in kept],
        [questions.candidates[number] for number in candidates],
        [moved[questions.answers[number]] for number in kept],
        [questions.paragraphs[place] for place in paragraphs],
        [renumbered[questions.places[number]] for number in candidates],
    )
