"""Tokenizers, which turn strings into token ids.

A tokenizer truncates the ids to a maximum length; ``packing`` arranges them in arrays. Most checkpoints have a
tokenizer of the ``tokenizers`` library, which releases the GIL; XLM and LASER have tokenizers in Python, which take
one sentence at a time.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from os.path import commonprefix
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.languages import language_code
from lsar_jax.shapes import Ids
from lsar_jax.tokens.chat_template import ChatTemplate
from lsar_jax.tokens.long_text import cut_place

__all__ = [
    "FastTokenizer", "SlowTokenizer", "Specials", "Tokenizer", "backend_errors", "check_ids",
    "check_no_template", "check_sentences",
]  # fmt: skip

# Of a long text, the characters that are tokenized first for each token that is wanted.
_CHARACTERS = 8


class Specials(NamedTuple):
    """The numbers of special tokens at the beginning and the end of a sentence."""

    before: int
    after: int


@dataclass(frozen=True)
class FastTokenizer:
    """A tokenizer of the ``tokenizers`` library.

    Attributes:
      backend: a ``tokenizers.Tokenizer`` whose post-processor adds the model's special tokens.
      pad_id: id used for padding.
      max_length: most tokens that the model takes, including special tokens.
      side: side of a long sentence that is cut, ``right`` or ``left``.
      left_out: id that is left out of a sentence, if any, as model2vec does with unknown tokens.
      template: the chat template that each sentence is put into; None for none. It adds the special tokens.
      characters: a sentence is cut to this number of characters a token before it is split; None for no such limit.
      language_id: returns the id of a language, which then is the first token of a sentence, or raises ValueError for
        an unknown one; None if no token stands for the language.
      lock: held while the backend is in use.
    """

    backend: Any
    pad_id: int
    max_length: int
    side: str = "right"
    left_out: int | None = None
    characters: int | None = None
    template: ChatTemplate | None = None
    language_id: Callable[[str], int] | None = None
    lock: Any = field(default_factory=Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The tokenizer file of a checkpoint may set its own padding and truncation.
        self.backend.no_padding()
        self.backend.no_truncation()

    @property
    def uses_language(self) -> bool:
        """Whether the tokens of a sentence depend on its language."""
        return self.language_id is not None

    @cached_property
    def specials(self) -> Specials:
        """The numbers of special tokens that the backend adds around each sentence."""
        if self.template is not None:
            return Specials(*map(len, self._around("")))
        with self.lock:
            self.backend.no_truncation()
            with backend_errors("the tokenizer fails on 'a'"):
                mask = self.backend.encode("a").special_tokens_mask
        before = mask.index(0) if 0 in mask else len(mask)
        return Specials(before, mask[::-1].index(0) if 0 in mask else 0)

    def save(self, path: Path, max_length: int | None = None) -> None:
        """Writes ``tokenizer.json``, which truncates to ``max_length``, if given, and not to what was last set."""
        with self.lock:
            self.backend.no_truncation()
            if max_length is not None:
                self.backend.enable_truncation(max_length, direction=self.side)
            self.backend.save(str(path))
            self.backend.no_truncation()

    def __call__(
        self, sentences: Sequence[str], max_length: int, languages: Sequence[str | None] = (), prompt: str = ""
    ) -> tuple[list[Ids], int]:
        """Returns the ids of each sentence, after the prompt, and the number of sentences truncated.

        It runs on all cores without the GIL.
        """
        most = None if self.characters is None else max_length * self.characters
        texts = [prompt + text for text in sentences] if not self.template else self.template.render(prompt, sentences)
        # The truncation length is state of the backend, which encoders and threads share.
        with self.lock, backend_errors("the tokenizer fails on one of the sentences"):
            self.backend.enable_truncation(max_length, direction=self.side)
            encodings = self._encoded([text[:most] for text in texts], _CHARACTERS * max_length)
        ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
        if long := [row for row in ids if self.template and len(row) >= max_length]:
            # What follows a text in the template stays, as the last token may be pooled.
            end = self._around(prompt)[1][-max_length:]
            for row in long:
                row[max_length - len(end) :] = end
        if self.left_out is not None:
            ids = [row[row != self.left_out] for row in ids]
        if self.language_id is not None:
            known = {language: self.language_id(language) for language in set(languages) if language is not None}
            for row, language in zip(ids, languages, strict=True):
                if language is not None:
                    row[0] = known[language]
        cut = [most is not None and len(text) > most for text in texts]
        return ids, sum(bool(encoding.overflowing) or early for encoding, early in zip(encodings, cut, strict=True))

    def _encoded(self, sentences: list[str], most: int) -> list[Any]:
        """Tokenizes beginnings of about ``most`` characters, or longer ones for those that are not truncated."""
        cut = [self._beginning(sentence, most) for sentence in sentences]
        encodings = self.backend.encode_batch_fast(cut, add_special_tokens=self.template is None)
        pairs = enumerate(zip(sentences, cut, encodings, strict=True))
        short = [n for n, (text, part, encoding) in pairs if len(part) < len(text) and not encoding.overflowing]
        if short:
            longer = self._encoded([sentences[n] for n in short], 8 * most)
            for n, encoding in zip(short, longer, strict=True):
                encodings[n] = encoding
        return encodings

    def _beginning(self, sentence: str, most: int) -> str:
        place = self._cut_place if len(sentence) > most and self.side == "right" else None
        found = place and place.search(sentence, most)
        return sentence[: found.start() + 1] if found else sentence

    @cached_property
    def _cut_place(self) -> re.Pattern[str] | None:
        return cut_place(self.backend)

    def _around(self, prompt: str) -> tuple[list[int], list[int]]:
        """Returns the tokens that the template puts before and after a sentence, by two without tokens in common."""
        assert self.template is not None
        with self.lock:
            self.backend.no_truncation()
            texts = self.template.render(prompt, ["0", "1 2 3 4"])
            one, other = (encoding.ids for encoding in self.backend.encode_batch(texts, add_special_tokens=False))
        before = commonprefix([one, other])  # noqa: RUF071 - of lists, not of paths
        after = commonprefix([one[::-1], other[::-1]])[::-1]  # noqa: RUF071
        shorter = min(len(one), len(other))
        # Where the two do not differ, the template leaves the text out.
        after = after if len(after) < shorter else []
        return before[: shorter - len(after)], after


@dataclass(frozen=True)
class SlowTokenizer:
    """A tokenizer written in Python: a function from a sentence and its language to ids.

    Attributes:
      encode: returns the ids of a sentence without special tokens, given its language without a script, if known.
      before: special token ids prepended to each sentence.
      after: special token ids appended to each sentence.
      pad_id: as in ``FastTokenizer``, like the two that follow.
      files: the files that it was read from.
    """

    encode: Callable[[str, str | None], Sequence[int]]
    before: tuple[int, ...]
    after: tuple[int, ...]
    pad_id: int
    max_length: int
    uses_language: bool
    files: tuple[Path, ...] = ()

    @property
    def specials(self) -> Specials:
        """The numbers of special tokens around each sentence."""
        return Specials(len(self.before), len(self.after))

    def __call__(
        self, sentences: Sequence[str], max_length: int, languages: Sequence[str | None], prompt: str = ""
    ) -> tuple[list[Ids], int]:
        """Returns the ids of each sentence and the number of sentences truncated, which keep their special tokens."""
        room = max_length - sum(self.specials)
        words = [language and language_code(language).partition("-")[0] for language in languages]
        inside = [list(self.encode(prompt + text, word)) for text, word in zip(sentences, words, strict=True)]
        ids = [np.array([*self.before, *tokens[:room], *self.after], np.int32) for tokens in inside]
        return ids, sum(len(tokens) > room for tokens in inside)


Tokenizer = FastTokenizer | SlowTokenizer


@contextmanager
def backend_errors(what: str) -> Iterator[None]:
    """Raises ValueError for what goes wrong in the ``tokenizers`` library, as in a regular expression of a checkpoint.

    A panic of the library is no ``Exception``, which most handlers would miss.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{what}: {(str(error).strip().splitlines() or [type(error).__name__])[0]}") from error


def check_no_template(tokenizer: Tokenizer, what: str) -> None:
    """Raises ValueError if a tokenizer has a chat template, which takes a text and a prompt alone."""
    if getattr(tokenizer, "template", None) is not None:
        raise ValueError(f"the checkpoint puts each text into a chat template, which has no place for {what}")


def check_ids(folder: Path, ids: Iterable[int | None], vocabulary: int) -> None:
    """Raises ValueError if one of the ids that a tokenizer may return has no embedding."""
    # Without this check, XLA would read another row: no error, and vectors that mean nothing.
    wrong = [row for row in ids if row is not None and not 0 <= row < vocabulary]
    if wrong:
        raise ValueError(f"the tokenizer of {folder} has the id {max(wrong)}; the model embeds 0 to {vocabulary - 1}")


def check_sentences(sentences: Sequence[str], first: int = 0, what: str = "sentence") -> None:
    """Raises ValueError for an item that is not a string, or has a lone surrogate.

    Args:
      sentences: part of the input; any other string is accepted.
      first: position of its first sentence in the input, used in error messages.
      what: what an item is called in error messages.
    """
    for index, sentence in enumerate(sentences, first):
        if not isinstance(sentence, str):
            raise ValueError(f"{what} {index} is of type {type(sentence).__name__}, not a str: {sentence!r:.80}")
        try:
            sentence.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{what} {index} has the lone surrogate U+{ord(sentence[error.start]):04X} at character "
                f"{error.start}; read its file as UTF-8, with errors='replace' if it is damaged"
            ) from None
