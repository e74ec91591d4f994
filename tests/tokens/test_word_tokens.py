"""Tokens of words: those of the running text, and where each word starts."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import lsar_jax as lj
from lsar_jax.tokens.tokenizer import FastTokenizer
from lsar_jax.tokens.word_tokens import tokenize_words


def spelled(encoder, ids):
    return "".join(map(encoder.tokenizer.backend.id_to_token, ids.tolist())).replace("\u2581", "")


def test_words_in_a_row_are_the_sentence(bundled):
    """Where words are separated by spaces, word by word gives what the whole sentence gives."""
    texts = lj.corpora.udhr("test", ["de", "ru", "ar", "hi", "ko"])
    sentences = [text.split() for several in texts.values() for text in several]
    whole = bundled.tokenizer([" ".join(words) for words in sentences], 512, [None] * len(sentences))[0]
    for words, ids, expected in zip(sentences, tokenize_words(bundled.tokenizer, sentences, 512), whole, strict=True):
        np.testing.assert_array_equal(ids.ids, expected)
        assert len(ids.starts) == len(words)
    # The tokens from one start to the next are the word.
    words, (ids, starts, _) = sentences[3], tokenize_words(bundled.tokenizer, sentences[3:4], 512)[0]
    assert [spelled(bundled, part) for part in np.split(ids[1:-1], starts[1:] - 1)] == words


def test_a_prefix_does_not_stand_for_its_word(bundled):
    words = ["我", "愿意", "报价", "。"]
    prefix = bundled.tokenizer.backend.token_to_id("\u2581")
    spaced, joined = (tokenize_words(bundled.tokenizer, [words], 96, spaced=spaced)[0] for spaced in (True, False))
    assert (spaced.ids == prefix).sum() == 3
    assert prefix not in joined.ids
    np.testing.assert_array_equal(spaced.ids[spaced.ids != prefix], joined.ids)
    np.testing.assert_array_equal(spaced.ids[spaced.starts], joined.ids[joined.starts])
    assert spelled(bundled, joined.ids[1:-1]) == "".join(words)
    # A prefix may also be cut off with its word.
    assert tokenize_words(bundled.tokenizer, [words], 5)[0].starts.tolist() == [1, 3, -1, -1]


def test_what_does_not_fit_is_cut_off_by_whole_words(tiny):
    # A letter is a token; 2 special tokens.
    ids, starts, _ = tokenize_words(tiny.tokenizer, [["abc", "de", "fghi", "a"]], 10)[0]
    assert starts.tolist() == [1, 4, -1, -1]
    assert len(ids) == 7
    ids, starts, _ = tokenize_words(tiny.tokenizer, [["abc", "de", "fghi", "a"]], 11)[0]
    assert starts.tolist() == [1, 4, 6, -1]
    assert len(ids) == 11
    np.testing.assert_array_equal(ids, tiny.tokenizer(["abc de fghi"], 40, [None])[0][0])
    (ids, starts, _), (none, no_starts, _) = tokenize_words(tiny.tokenizer, [["a" * 50, "b"], []], 40)
    assert starts.tolist() == [-1, -1]
    assert no_starts.shape == (0,)
    assert len(ids) == len(none) == 2
    # So does a word without tokens.
    assert tokenize_words(tiny.tokenizer, [["a", " ", "b"]], 40)[0].starts.tolist() == [1, -1, 2]


def test_the_last_token_of_a_word_may_stand_for_it(tiny):
    sentences = [["abc", "d", " ", "ef"], []]
    (ids, starts, stands), (_, _, none) = tokenize_words(tiny.tokenizer, sentences, 40, last=True)
    assert (starts.tolist(), stands.tolist()) == ([1, 4, -1, 5], [3, 4, -1, 6])
    first = tokenize_words(tiny.tokenizer, sentences, 40)[0]
    np.testing.assert_array_equal(ids, first.ids)
    np.testing.assert_array_equal(first.stands, first.starts)
    assert not len(none)


def test_a_word_has_the_space_before_it_where_a_tokenizer_keeps_it():
    """As in a vocabulary of bytes, where a space is a piece by itself if no piece begins with it and the word."""
    vocabulary = {piece: row for row, piece in enumerate(["[PAD]", "a", "b", "\u0120", "\u0120a"])}
    backend = Tokenizer(models.BPE(vocabulary, [("\u0120", "a")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = FastTokenizer(backend, max_length=40, pad_id=0)
    ids, starts, stands = tokenize_words(tokenizer, [["ab", "ab", "b"]], 40, last=True)[0]
    np.testing.assert_array_equal(ids, tokenizer(["ab ab b"], 40, [None])[0][0])
    assert (starts.tolist(), stands.tolist()) == ([0, 2, 5], [1, 3, 5])
    joined = tokenize_words(tokenizer, [["ab", "ab", "b"]], 40, spaced=False)[0]
    assert joined.ids.tolist() == [1, 2, 1, 2, 2]


def test_refusals(tiny):
    with pytest.raises(ValueError, match="max_length is 2; it must be a whole number from 3 to"):
        tokenize_words(tiny.tokenizer, [["a"]], 2)
    with pytest.raises(ValueError, match="word 1 has the lone surrogate"):
        tokenize_words(tiny.tokenizer, [["a", "\udc80"]], 9)
    assert tokenize_words(tiny.tokenizer, [], 9) == []
