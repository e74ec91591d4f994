"""Text to token ids.

A tokenizer takes strings and gives ids that are cut to a length; ``batching`` makes arrays of
them. Most checkpoints carry a tokenizer of the ``tokenizers`` library, which works outside
Python's lock; those of XLM and LASER are Python, a sentence at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

__all__ = ["FastTokenizer", "SlowTokenizer", "Specials", "Tokenizer", "check_sentences"]

Ids = Int[np.ndarray, "_"]


class Specials(NamedTuple):
    """How many special tokens a sentence begins and ends with."""

    before: int
    after: int


@runtime_checkable
class Tokenizer(Protocol):
    """What an encoder needs of a tokenizer.

    Attributes:
      pad_id: the id that fills rows.
      max_length: the most tokens that the model takes, special tokens included.
      specials: tokens around each sentence.
      uses_language: whether the language of a sentence changes its tokens.
    """

    @property
    def pad_id(self) -> int: ...  # noqa: D102

    @property
    def max_length(self) -> int: ...  # noqa: D102

    @property
    def specials(self) -> Specials: ...  # noqa: D102

    @property
    def uses_language(self) -> bool: ...  # noqa: D102

    def __call__(
        self, sentences: Sequence[str], max_length: int, languages: Sequence[str | None], /
    ) -> tuple[list[Ids], int]:
        """Returns the ids of each sentence, and how many sentences were cut to ``max_length``."""
        ...


@dataclass(frozen=True)
class FastTokenizer:
    """A tokenizer of the ``tokenizers`` library.

    Attributes:
      backend: ``tokenizers.Tokenizer`` with the model's special tokens in its post-processor.
      pad_id: as in ``Tokenizer``.
      max_length: as in ``Tokenizer``.
      lower: whether text is lower-cased before the backend sees it.
      lock: held while the backend works.
    """

    backend: Any
    pad_id: int
    max_length: int
    lower: bool = False
    uses_language: bool = field(default=False, init=False)
    lock: Any = field(default_factory=Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A checkpoint's file may pad and cut to a length of its own.
        with self.lock:
            self.backend.no_padding()
            self.backend.no_truncation()

    @property
    def specials(self) -> Specials:
        """Tokens around each sentence, as the backend adds them."""
        with self.lock:
            self.backend.no_truncation()
            mask = self.backend.encode("a").special_tokens_mask
        before = mask.index(0) if 0 in mask else len(mask)
        return Specials(before, mask[::-1].index(0) if 0 in mask else 0)

    def save(self, path: Path) -> None:
        """Writes ``tokenizer.json``, which says nothing of the length that was cut to last."""
        from tokenizers import Tokenizer, normalizers

        with self.lock:
            self.backend.no_truncation()
            backend = Tokenizer.from_str(self.backend.to_str())
        if self.lower:
            parts = [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
            backend.normalizer = normalizers.Sequence(parts)
        backend.save(str(path))

    def __call__(
        self, sentences: Sequence[str], max_length: int, languages: Sequence[str | None] = ()
    ) -> tuple[list[Ids], int]:
        """Tokenizes outside Python's lock, on all cores."""
        texts = [sentence.lower() for sentence in sentences] if self.lower else list(sentences)
        # The limit is a state of the backend, which encoders and threads share.
        with self.lock:
            self.backend.enable_truncation(max_length)
            encodings = self.backend.encode_batch_fast(texts)
        ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
        return ids, sum(bool(encoding.overflowing) for encoding in encodings)


@dataclass(frozen=True)
class SlowTokenizer:
    """A tokenizer in Python: a function from a sentence and its language to ids.

    Attributes:
      encode: the ids without special tokens.
      before: ids put before them.
      after: ids put after them.
      pad_id: as in ``Tokenizer``.
      max_length: as in ``Tokenizer``.
      uses_language: as in ``Tokenizer``.
      files: that it was read from.
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
        """Tokens around each sentence."""
        return Specials(len(self.before), len(self.after))

    def __call__(
        self, sentences: Sequence[str], max_length: int, languages: Sequence[str | None]
    ) -> tuple[list[Ids], int]:
        """Tokenizes one by one, and cuts the text's own tokens only."""
        room = max_length - len(self.before) - len(self.after)
        every, cut = [], 0
        for sentence, language in zip(sentences, languages, strict=True):
            ids = list(self.encode(sentence, language))
            cut += len(ids) > room
            every.append(np.array([*self.before, *ids[:room], *self.after], np.int32))
        return every, cut


def check_sentences(sentences: Sequence[str], first: int = 0, what: str = "sentence") -> None:
    """Raises ValueError for what is not text: another type, or a lone surrogate.

    Any other string is text: an empty one is its special tokens, control characters are
    what the tokenizer makes of them, and a long one is cut and counted.

    Args:
      sentences: a part of what is encoded.
      first: the number of its first sentence, for the error.
      what: they are, for the error.
    """
    for index, sentence in enumerate(sentences, first):
        if not isinstance(sentence, str):
            raise ValueError(f"{what} {index} is a {type(sentence).__name__}, not a str: {sentence!r:.80}")
        try:
            sentence.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{what} {index} has the lone surrogate U+{ord(sentence[error.start]):04X} at character "
                f"{error.start}; read its file as UTF-8, with errors='replace' if it is damaged"
            ) from None
