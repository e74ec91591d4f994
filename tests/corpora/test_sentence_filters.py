"""The papers' filters."""

from itertools import count

import pytest

from lsar_jax.corpora import sentence_filters
from lsar_jax.corpora.sentence_filters import COUNT, document_lines, not_blank, oscar_lines, take, wiki40b_pieces


def endless(text):
    """Documents that nobody may read to the end."""
    return (text.format(number) for number in count())


def test_document_lines():
    documents = ["  one \ntwo\n\n \nthree\r\n\n", "", " \n ", "four\u2028still four"]
    assert list(document_lines(documents)) == ["one ", "two", "three", "four\u2028still four"]
    assert list(document_lines(documents, 2)) == ["one ", "two"]
    # Exactly the number, in the middle of a document.
    found = list(document_lines(endless("a {0}\nb {0}\nc {0}")))
    assert len(found) == COUNT == 10_000
    assert found[-1] == "a 3333"


@pytest.mark.parametrize(("buffer", "first"), [(3, "0 2 1 5 6 7 3 4"), (1000, "3 4 2 7 6 1 5 0")])
def test_oscar_is_drawn_at_random(monkeypatch, buffer, first):
    # The order of datasets 2.14.7: IterableDataset.shuffle(seed=42, buffer_size=buffer).
    monkeypatch.setattr(sentence_filters, "_BUFFER", buffer)
    documents = [f" {number}\n\nsame" for number in range(8)]
    assert list(oscar_lines(documents, None))[::2] == first.split()
    assert list(oscar_lines(documents, 3)) == [first[0], "same", first[2]]


def test_wiki40b_pieces():
    article = (
        "\n_START_ARTICLE_\nA long enough title\n\n_START_SECTION_\nA long enough section\n\n_START_PARAGRAPH_\n"
        "This paragraph is before a title._NEWLINE_All of it goes.\n\n_START_SECTION_\nAnother section\n\n"
        "_START_PARAGRAPH_\nThe first piece._NEWLINE_8 or 9 .._NEWLINE_ten chars.\nand more_NEWLINE_"
        "_START_PARAGRAPH_\n9 letters_NEWLINE_9 letters_NEWLINE_          "
    )
    # The line break counts for the ten characters, and goes.
    pieces = ["The first piece.", "ten chars.and more", "9 letters"]
    assert list(wiki40b_pieces([article, "no marker at all"])) == [*pieces, "no marker at all"]
    assert list(wiki40b_pieces([article] * 2, None)) == list(wiki40b_pieces([article], 9)) * 2


def test_not_blank():
    assert list(not_blank(["a ", "", " \u3000", "b\nc"], None)) == ["a ", "b\nc"]
    assert list(not_blank(endless("x"), 3)) == ["x", "x", "x"]


def test_take_reads_no_more_than_it_needs():
    documents = iter("abc")
    assert take(documents, document_lines, 2, "a place") == ["a", "b"]
    assert next(documents) == "c"
    with pytest.raises(ValueError, match="a place has no sentence that wiki40b_pieces keeps"):
        take(["short"], wiki40b_pieces, 3, "a place")
