"""Alignment on questions and answers: pairs of one language, the split, and what is measured of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from eval.__main__ import main as evaluate
from eval.data.xquad import read_xquad
from tests.conftest import TINY
from tests.eval.test_lareqa import write_letters
from train.align.__main__ import main
from train.align.examples import sentence_examples
from train.align.questions import question_pairs
from train.text import TextOptions

SHORT = ["--batch", "4", "--max-length", "24"]
TEXT = TextOptions(data=Path("data/sentences"), held_out=5, validation=0.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions") / "x"
    write_letters(folder, np.random.default_rng(0), paragraphs=8)
    return folder


def test_pairs_are_of_one_language_and_not_of_what_is_measured(folder):
    pairs = question_pairs(folder, TEXT, "q: {question}", "{answer} | {paragraph}")
    measured = read_xquad(folder, (), 5)
    assert [len(one.questions) for one in measured.values()] == [6, 6, 6]
    for code, (train, validation) in pairs.items():
        # Three questions a paragraph: two are measured, two validated.
        assert (len(train), len(validation)) == (12, 6)
        whole = read_xquad(folder)[code]
        of_question = {
            f"q: {question}": f"{whole.candidates[answer]} | {whole.paragraphs[whole.places[answer]]}"
            for question, answer in zip(whole.questions, whole.answers, strict=True)
        }
        assert len({*train, *validation}) == 18
        assert all(of_question[question] == text for question, text in (*train, *validation))
        assert not {q for q, _ in (*train, *validation)} & {f"q: {q}" for q in measured[code].questions}
    # The split is that of all files, and a share is a part of the whole.
    half = TextOptions(languages=("deu",), held_out=5, validation=0.2, share=0.5)
    alone = question_pairs(folder, half, "q: {question}", "{answer}")
    assert list(alone) == ["de"]
    assert [q for q, _ in alone["de"][0]] == [q for q, _ in pairs["de"][0][:6]]


def test_each_side_is_tokenized_in_its_language():
    def tokenizer(texts, max_length, languages, prompt):
        sizes = [len(f"{prompt}{text}") for text in texts]
        return [np.array([n, max_length, ord(code[0])]) for n, code in zip(sizes, languages, strict=True)], 0

    examples = sentence_examples(tokenizer, {"de": [("wer", "er da")]}, 9, "p ", english=False)
    assert (examples.source[0].tolist(), examples.target[0].tolist()) == ([5, 9, ord("d")], [7, 9, ord("d")])


def test_what_is_refused(folder, tmp_path, refused):
    given = ["--questions", str(folder), "--encoder", str(TINY), "--out", str(tmp_path), *SHORT]
    sentence = ["--objective", "sentence", *given]
    for more, message in (
        (given, "left out: --objective strong does not read it"),
        ([*sentence, "--more", "x"], "its text is questions (--questions)"),
        ([*sentence, "--answer-text", "{text}"], "--answer-text is '{text}'; it needs {answer}"),
        ([*sentence, "--languages", "fr"], "has no fr.json; it has de, en, ru"),
        ([*sentence, "--held-out", "30"], "30 questions cannot be held out of 24, by paragraph"),
        ([*sentence, "--held-out", "0.1"], "--held-out is 0.1; it must be a whole number of questions"),
        ([*sentence, "--held-out", "20"], "3 pairs are left to train on and 0 to validate on"),
        (["--objective", "sentence", "--answer-text", "{answer}"], "left out: --objective sentence does not read it"),
    ):
        assert message in refused(main, more)


def test_an_encoder_is_not_measured_on_what_it_was_trained_on(folder, tmp_path, refused):
    encoder = tmp_path / "bert-sentence"
    encoder.symlink_to(TINY)
    texts = {"question_text": "{question}", "answer_text": "{answer}"}
    record = {"questions": str(folder), **texts, "held_out": 5, "split_seed": 0}
    (tmp_path / "config.json").write_text(json.dumps(record))
    shared = ["--data", str(folder), "--encoder", str(encoder), "--out", str(tmp_path / "out")]
    command = ["lareqa", *shared]
    for given in (["answers", *shared], command, [*command, "--held-out", "6"]):
        error = refused(evaluate, given)
        assert "--held-out 5 --split-seed 0; measure it likewise" in error
    for side, given in (("question", "q: {question}"), ("answer", "{answer} {paragraph}")):
        error = refused(evaluate, [*command, "--held-out", "5", f"--{side}-text", given])
        assert f"--{side}-text '{{{side}}}' " in error
