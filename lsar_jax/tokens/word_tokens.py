"""Turns words into token ids, and says where each word starts: for aligned words, tags and parses.

Each word is tokenized by itself, as in Wu and Dredze (EMNLP 2020), with the space before it, and its first token stands
for it, or its last in a causal encoder. The space, which SentencePiece also puts before the first word, is a token by
itself if the vocabulary has no piece that begins with both. It is kept where words are separated by spaces, because
running text has it too, but it does not stand for the word.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from lsar_jax.checks import whole_number
from lsar_jax.tokens.tokenizer import Tokenizer, check_no_template, check_sentences

__all__ = ["WordTokens", "tokenize_words"]

# The space as a piece of SentencePiece, and of a vocabulary of bytes.
_SPACES = ("\u2581", "\u0120")


class WordTokens(NamedTuple):
    """The tokens of a sentence of words.

    Attributes:
      ids: token ids, with special tokens, ``[token]`` int32.
      starts: position of the first token of each word, ``[word]`` int32; -1 for words that have none or were cut off.
      stands: position of the token that stands for each word, the first or the last.
    """

    ids: Int[np.ndarray, " token"]
    starts: Int[np.ndarray, " word"]
    stands: Int[np.ndarray, " word"]


def tokenize_words(
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    max_length: int,
    language: str | None = None,
    *,
    spaced: bool = True,
    last: bool = False,
) -> list[WordTokens]:
    """Tokenizes the words of sentences; a word that does not fit as a whole is cut off, with all after it.

    Args:
      tokenizer: a tokenizer.
      sentences: words of each sentence.
      max_length: most tokens of a sentence, including special tokens.
      language: the language of all sentences.
      spaced: whether the language separates words by spaces. If not, as in Chinese, Japanese and Thai, spaces that are
        tokens by themselves are left out.
      last: whether the last token of a word stands for it; in a causal encoder, the others do not see all of it.

    Raises:
      ValueError: a word is not text, or ``max_length`` leaves no room for text.
    """
    check_no_template(tokenizer, "words")
    before, after = tokenizer.specials
    whole_number("max_length", max_length, before + after + 1, 1 << 20, "more than the special tokens")
    check_sentences(list(dict.fromkeys(word for sentence in sentences for word in sentence)), what="word")
    # Tokenizers that put a space before each word leave out the one that is there.
    texts = [[" " * (spaced and at > 0) + word for at, word in enumerate(sentence)] for sentence in sentences]
    words = list(dict.fromkeys(word for sentence in texts for word in sentence))
    encoded = tokenizer(["a", *words], tokenizer.max_length, [language] * (len(words) + 1))[0]
    first, end = encoded[0][:before], encoded[0][len(encoded[0]) - after :]
    backend = getattr(tokenizer, "backend", None)
    spaces = () if backend is None else tuple(map(backend.token_to_id, _SPACES))
    # The tokens of each word, and the number of those before the one that stands for it.
    pieces: dict[str, tuple[Int[np.ndarray, "_"], int] | None] = {}
    for word, ids in zip(words, encoded[1:], strict=True):
        inner = ids[before : len(ids) - after]
        skipped = int(len(inner) > 1 and inner[0] in spaces)
        # The tokenizer cuts a word that is longer than the model takes; such a word never fits.
        cut = len(ids) >= tokenizer.max_length
        pieces[word] = None if cut else (inner, skipped) if spaced else (inner[skipped:], 0)
    result = []
    for sentence in texts:
        starts, stands = np.full((2, len(sentence)), -1, np.int32)
        parts, length = [first], before
        for number, piece in enumerate(pieces[word] for word in sentence):
            if piece is None or length + len(piece[0]) + after > max_length:
                break
            if len(piece[0]):
                starts[number] = stands[number] = length + piece[1]
                parts.append(piece[0])
                length += len(piece[0])
                if last:
                    stands[number] = length - 1
        result.append(WordTokens(np.concatenate([*parts, end]), starts, stands))
    return result
