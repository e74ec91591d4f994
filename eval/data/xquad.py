"""XQuAD-R: questions and candidate sentences in eleven languages, from its files or a prepared dataset.

``lsar_jax.corpora.builders.XquadR`` documents the files, and how a question's answer sentence is found.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from lsar_jax.corpora.builders import Questions, XquadR
from lsar_jax.corpora.by_language import chosen, folder_at
from lsar_jax.corpora.question_answers import groups_of, held_out_ids, part_of
from lsar_jax.corpora.tables import Data, folder_of
from lsar_jax.files import read_json

__all__ = ["NOT_ON_HUB", "XQUAD_R", "Questions", "answer_table", "check_as_trained", "read_articles", "read_xquad"]

_SOURCE = "copy the folder xquad-r of github.com/google-research-datasets/lareqa there (for MLQA-R, mlqa-r at 354d67d)"
NOT_ON_HUB = "XQuAD-R on the Hub lacks sentence breaks; give a copy of xquad-r of google-research-datasets/lareqa"
XQUAD_R = ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh")


def read_xquad(
    data: Data, languages: Sequence[str] = (), held_out: int = 0, split_seed: int = 0
) -> dict[str, Questions]:
    """Reads the questions and candidates of each language, by default of all, in alphabetical order of the codes.

    With ``held_out``, only the paragraphs that ``train.align --questions`` holds out with the same numbers.
    """
    folder = folder_at(folder_of(data, NOT_ON_HUB), f"{_SOURCE}, or set --data")
    known = XquadR.known(folder)
    codes = sorted(chosen(dict.fromkeys(known), languages or None, folder, "{}.json", f"; {_SOURCE}"))
    if not held_out:
        return {code: XquadR.load(folder, code, "test") for code in codes}
    # Of all languages, so that the split does not depend on those that are measured.
    every = {code: XquadR.load(folder, code, "test") for code in known}
    ids, _ = held_out_ids(groups_of(every, split_seed), held_out)
    return {code: part_of(every[code], ids) for code in codes}


def read_articles(data: Data, languages: Sequence[str] = ()) -> dict[str, tuple[list[str], list[int]]]:
    """Returns the paragraphs of each language, and the number of the article that each is from."""
    every = read_xquad(data, languages)
    folder = folder_of(data, NOT_ON_HUB)
    files = XquadR(folder).files if list(folder.glob("*.json")) else {}
    articles = {}
    for code, questions in every.items():
        if code not in files:
            raise ValueError(f"{folder} does not say which article a paragraph is from; give the folder of the files")
        counts = [len(article["paragraphs"]) for article in read_json(files[code], dict)["data"]]
        numbers = [number for number, count in enumerate(counts) for _ in range(count)]
        articles[code] = (questions.paragraphs, numbers)
    return articles


def check_as_trained(
    encoder: str, data: Data, question_text: str, answer_text: str, held_out: int = 0, split_seed: int = 0
) -> None:
    """Raises ValueError if ``train.align --questions`` trained the encoder otherwise than it would be measured.

    That is, on other texts of a side, or on paragraphs that would be measured.
    """
    record = Path(encoder).parent / "config.json"
    trained = read_json(record, dict) if Path(encoder).is_dir() and record.is_file() else {}
    if not trained.get("questions"):
        return
    options: dict[str, Any] = {"question_text": question_text, "answer_text": answer_text}
    if Path(trained["questions"]).resolve() == Path(data).resolve():
        options |= {"held_out": held_out, "split_seed": split_seed}
    if any(trained.get(name, value) != value for name, value in options.items()):
        before = " ".join(f"--{name.replace('_', '-')} {trained[name]!r}" for name in options if name in trained)
        raise ValueError(f"{encoder} was trained on {trained['questions']} with {before}; measure it likewise")


def answer_table(data: Mapping[str, Questions]) -> Int[np.ndarray, "query language"]:
    """Returns the index, in the pool of all languages, of each question's answer in each; -1 if it has none."""
    places, start = [], 0
    for q in data.values():
        places.append({name: start + answer for name, answer in zip(q.ids, q.answers, strict=True)})
        start += len(q.candidates)
    return np.array([[of_language.get(name, -1) for of_language in places] for q in data.values() for name in q.ids])
