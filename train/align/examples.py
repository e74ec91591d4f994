"""Tokenized sentence pairs to align an encoder on, with the links between their words for objectives on words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from lsar_jax.arrays import digest
from lsar_jax.corpora.parallel_text import Pair
from lsar_jax.languages import spaces_words
from lsar_jax.shapes import Ids
from lsar_jax.tokens.tokenizer import Tokenizer
from lsar_jax.tokens.word_tokens import tokenize_words
from train.word_pairs.aligned_files import AlignedPair

__all__ = ["Examples", "sentence_examples", "word_examples"]


@dataclass(frozen=True)
class Examples:
    """Tokenized sentence pairs of all languages, in their order.

    Attributes:
      source: token ids of the English sentences, or of the questions.
      target: token ids of their translations, or of the answers.
      links: positions of the tokens that stand for the linked words of each pair; None for objectives on sentences.
      language: language of each translation, as an index into ``codes``.
      codes: codes of the languages.
      english: whether the first sides are English, or of the language of the second.
    """

    source: Sequence[Ids]
    target: Sequence[Ids]
    links: Sequence[Int[np.ndarray, "_ 2"]] | None
    language: Int[np.ndarray, " _"]
    codes: tuple[str, ...]
    english: bool = True

    def __len__(self) -> int:
        return len(self.source)

    @property
    def counts(self) -> dict[str, int]:
        """The number of pairs of each language."""
        return dict(zip(self.codes, np.bincount(self.language, minlength=len(self.codes)).tolist(), strict=True))

    def hash(self) -> str:
        """Returns a hash that identifies these examples in this order."""
        return digest(*self.codes, *self.source, *self.target, *(self.links or ()), self.language)

    def of(self, code: str) -> "Examples":
        """Returns the pairs of one language."""
        rows = np.flatnonzero(self.language == self.codes.index(code)).tolist()
        links = None if self.links is None else [self.links[row] for row in rows]
        source, target = ([side[row] for row in rows] for side in (self.source, self.target))
        return Examples(source, target, links, np.zeros(len(rows), np.int32), (code,), self.english)


def word_examples(
    tokenizer: Tokenizer, pairs: Mapping[str, Sequence[AlignedPair]], max_length: int, last: bool = False
) -> Examples:
    """Tokenizes word-aligned pairs, word by word, and locates their links; ``last`` as of ``tokenize_words``.

    A link is kept if both words have a token within ``max_length``, and a pair if it has a link.
    """
    source: list[Ids] = []
    target: list[Ids] = []
    links: list[Int[np.ndarray, "_ 2"]] = []
    language: list[int] = []
    for number, (code, aligned) in enumerate(pairs.items()):
        english = tokenize_words(tokenizer, [pair.english for pair in aligned], max_length, "en", last=last)
        words = [pair.other for pair in aligned]
        other = tokenize_words(tokenizer, words, max_length, code, spaced=spaces_words(code), last=last)
        for pair, first, second in zip(aligned, english, other, strict=True):
            linked = np.array(sorted(pair.links), np.int32).reshape(-1, 2)
            positions = np.stack([first.stands[linked[:, 0]], second.stands[linked[:, 1]]], axis=1)
            positions = positions[(positions >= 0).all(axis=1)]
            if len(positions):
                source.append(first.ids)
                target.append(second.ids)
                links.append(positions)
                language.append(number)
        if language[-1:] != [number]:
            raise ValueError(f"no link of {code} is within --max-length {max_length}; raise it, or omit {code}")
    return Examples(source, target, links, np.array(language, np.int32), tuple(pairs))


def sentence_examples(
    tokenizer: Tokenizer, pairs: Mapping[str, Sequence[Pair]], max_length: int, prompt: str = "", english: bool = True
) -> Examples:
    """Tokenizes sentence pairs, whose first sides are English, or of the language of the second."""
    sides: tuple[list[Ids], list[Ids]] = ([], [])
    for code, translations in pairs.items():
        for side, language in enumerate(("en" if english else code, code)):
            texts = [pair[side] for pair in translations]
            sides[side].extend(tokenizer(texts, max_length, [language] * len(texts), prompt)[0])
    languages = np.repeat(np.arange(len(pairs), dtype=np.int32), list(map(len, pairs.values())))
    return Examples(*sides, None, languages, tuple(pairs), english)
