"""Questions and answers: sentences of plain SQuAD files, the text of an answer, and a split by paragraph."""

import json

import pytest

from lsar_jax.corpora.builders import Questions
from lsar_jax.corpora.question_answers import (
    Squad,
    answer_texts,
    check_templates,
    groups_of,
    held_out_ids,
    part_of,
    question_texts,
)

DE = Questions(["f", "g", "h"], ["1", "2", "3"], ["a", "b", "c", "d"], [0, 3, 1], ["a b", "c d"], [0, 0, 1, 1])
# 4 and 1 share a paragraph of English, as in MLQA, where languages have other paragraphs.
EN = Questions(["p", "q"], ["4", "1"], ["x", "y"], [1, 0], ["x y"], [0, 0])


def test_sentences_of_plain_squad(tmp_path):
    context = 'It rained. "Why?" Ann asked U.S. Steel.\n这里。那里？ नमस्ते। End'
    # The last three answers begin where a sentence ends and the next one begins.
    asked = [{"id": f"{n}", "question": "?", "answers": [{"answer_start": n}]} for n in (0, 14, 41, 11, 18, 43)]
    text = {"data": [{"paragraphs": [{"context": context, "qas": asked}]}]}
    (tmp_path / "en.json").write_text(json.dumps(text))
    read = Squad.load(tmp_path, "en", "test")
    assert "".join(read.candidates) == context
    assert [part.strip() for part in read.candidates] == [
        "It rained.", '"Why?"', "Ann asked U.S.", "Steel.", "这里。", "那里？", "नमस्ते।", "End",
    ]  # fmt: skip
    assert [read.candidates[answer][:3] for answer in read.answers] == ["It ", '"Wh', "这里。", '"Wh', "Ann", "那里？"]
    assert (read.paragraphs, read.places) == ([context], [0] * 8)
    # A file with breaks is read by its own.
    text["data"][0]["paragraphs"][0]["sentence_breaks"] = [[0, len(context)]]
    (tmp_path / "en.json").write_text(json.dumps(text))
    assert Squad.load(tmp_path, "en", "test").candidates == [context]
    asked[1]["answers"] = []
    (tmp_path / "en.json").write_text(json.dumps(text))
    with pytest.raises(ValueError, match="paragraph 1 .*the question '14' has no answer in a sentence; leave"):
        Squad.load(tmp_path, "en", "test")


def test_the_text_of_an_answer():
    assert answer_texts(DE, "{answer} </s> {paragraph}") == ["a </s> a b", "b </s> a b", "c </s> c d", "d </s> c d"]
    braces = DE._replace(paragraphs=["{answer}", "{0}"])
    assert answer_texts(braces, "passage: {answer}; {paragraph}")[2] == "passage: c; {0}"
    for wrong in ("", "{paragraph}", "{answer} {question}", "{answer!r}", "{{answer}}", "{an{answer}swer}"):
        with pytest.raises(ValueError, match="it needs {answer}, may have {paragraph}, and has no other braces"):
            check_templates("{question}", wrong)
    assert question_texts(DE._replace(questions=["{answer}", "g", "h"]), "query: {question}")[0] == "query: {answer}"
    for wrong in ("", "query: ", "{question} {answer}", "{{question}}", "{ques{question}tion}"):
        with pytest.raises(ValueError, match="it needs {question}, and has no other braces"):
            check_templates(wrong, "{answer}")


def test_a_split_is_by_paragraph_of_any_language():
    for data in ({"de": DE, "en": EN}, {"en": EN, "de": DE}):
        groups = groups_of(data)
        assert sorted(map(sorted, groups)) == [["1", "3", "4"], ["2"]]
        held, others = held_out_ids(groups, 1)
        assert [held, *map(set, others)] == list(map(set, groups))
    assert len({str(groups_of({"de": DE}, seed)[0]) for seed in range(9)}) == 2
    with pytest.raises(ValueError, match="2 questions cannot be held out of 4, by paragraph; hold out fewer"):
        held_out_ids([["1", "3", "4"], ["2"]][::-1], 2)
    assert part_of(DE, {"2", "9"}) == Questions(["g"], ["2"], ["c", "d"], [1], ["c d"], [0, 0])
