"""The input of an encoder: sentences and their languages, checked, tokenized ahead of the device, and batched."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.encoders.background import ahead
from lsar_jax.encoders.encode_report import Counts
from lsar_jax.encoders.protocols import EmbeddingTransform
from lsar_jax.languages import AUTO, check_given, language_code, own_name
from lsar_jax.tokens.buckets import Buckets, Sentence, Slot
from lsar_jax.tokens.tokenizer import Tokenizer, check_sentences

__all__ = ["Chunk", "LanguageTables", "read_chunks", "read_slots"]

# Sentences that are tokenized together.
_CHUNK = 2048

LanguageRows = tuple[int, ...]


class Chunk(NamedTuple):
    """Consecutive sentences of the input.

    Attributes:
      first: index of the first sentence in the input.
      texts: the sentences, with their prompt.
      languages: code of each sentence for the tokenizer, or None if no language is given.
      rows: for each sentence, its row in each of the language tables.
    """

    first: int
    texts: list[str]
    languages: list[str | None]
    rows: list[LanguageRows]


@dataclass(frozen=True)
class LanguageTables:
    """The parts of an encoder that depend on the language.

    Attributes:
      encoder: id of the encoder, for error messages.
      tokenizer: whether the tokenizer splits words by language.
      embeddings: row of the model's language embedding by code, or None if it has none.
      transform: transform whose steps have a language table or one shared row, or None.
    """

    encoder: str
    tokenizer: bool
    embeddings: Mapping[str, int] | None
    transform: EmbeddingTransform | None

    def __len__(self) -> int:
        return (0 if self.transform is None else len(self.transform.steps)) + (self.embeddings is not None)

    def check_used(self) -> None:
        """Raises ValueError if nothing depends on the language."""
        if not self.tokenizer and self.embeddings is None and self.transform is None:
            raise ValueError(
                "language is given, but no transform, tokenizer or embedding of this encoder uses it; leave it out"
            )

    def rows(self, languages: Sequence[str]) -> list[LanguageRows]:
        """Returns the rows of each sentence in the tables of the model and of the transform's steps."""
        columns = self._columns(list(languages))
        return [tuple(row) for row in zip(*columns, strict=True)] if columns else [()] * len(languages)

    def shared_rows(self, language: str | None) -> LanguageRows:
        """Returns the rows that all sentences share if they have the same language, or if none is given."""
        return tuple(int(column) for column in self._columns(language))

    def auto_rows(self) -> LanguageRows:
        """Returns placeholder rows for ``language="auto"``; raises ValueError if the language cannot be detected."""
        if self.transform is None or self.embeddings is not None:
            raise ValueError(
                f"language is 'auto', which only transforms support; give the languages for {self.encoder}"
            )
        if self.transform.languages is not None:
            self.transform.check_identifier()
        return (0,) * len(self.transform.steps)

    def _columns(self, language: str | list[str] | None) -> list[Any]:
        # The model's own names of languages may not be codes, which shared steps need not know.
        shared = self.transform is None or (self.embeddings is not None and self.transform.languages is None)
        ids = [] if self.transform is None else list(self.transform.language_ids(None if shared else language))
        if isinstance(language, list):
            # A shared step has one row for every language.
            ids = [np.broadcast_to(which, len(language)) for which in ids]
        if self.embeddings is None:
            return [part.tolist() if isinstance(language, list) else part for part in ids]
        known = self.embeddings
        if language is None:
            raise ValueError(f"{self.encoder} embeds the language; give language=, one of {', '.join(known)}")
        codes = [language] if isinstance(language, str) else language
        row = {code: known[own_name(code, known, self.encoder)] for code in set(codes)}
        own = np.array(row[language] if isinstance(language, str) else [row[code] for code in language], np.int32)
        return [part.tolist() if isinstance(language, list) else part for part in (own, *ids)]


def read_chunks(
    texts: Iterable[str], total: int | None, language: str | Iterable[str] | None, prompt: str, tables: LanguageTables
) -> Iterator[Chunk]:
    """Yields the checked input in chunks; a language for all sentences is checked before anything is read.

    Args:
      texts: the sentences.
      total: number of sentences, or None if that is not known.
      language: a code, ``"auto"``, a code for each sentence, or None.
      prompt: string put before each sentence.
      tables: the parts of the encoder that depend on the language.

    Raises:
      ValueError: a sentence is not text, a language is missing or unknown, or the numbers of sentences and languages
        differ.
    """
    check_given(language)
    if language is not None:
        tables.check_used()
    if isinstance(language, str) and language == AUTO:
        return _read(iter(texts), None, None, tables.auto_rows(), prompt, tables)
    if language is None or isinstance(language, str):
        return _read(iter(texts), None, language, tables.shared_rows(language), prompt, tables)
    if isinstance(language, Sequence | np.ndarray) and total is not None and len(language) != total:
        raise ValueError(
            f"the number of languages ({len(language)}) is not the number of sentences ({total}); "
            "give one language per sentence"
        )
    return _read(iter(texts), iter(language), None, (), prompt, tables)


def read_slots(
    chunks: Iterator[Chunk], tokenizer: Tokenizer, buckets: Buckets, limit: int, counts: Counts
) -> Generator[Slot, None, None]:
    """Yields the batches of device calls, while a thread tokenizes the next chunks.

    Args:
      chunks: the input.
      tokenizer: the tokenizer of the encoder.
      buckets: where sentences wait until a batch is full.
      limit: maximum number of tokens per sentence.
      counts: sentences, tokens and truncated sentences are added to it.
    """

    def tokenize(chunk: Chunk) -> tuple[Chunk, list[np.ndarray], int]:
        return chunk, *tokenizer(chunk.texts, limit, chunk.languages)

    for chunk, ids, truncated in ahead(tokenize, chunks):
        counts.sentences += len(ids)
        counts.tokens += sum(map(len, ids))
        counts.truncated += truncated
        numbers = range(chunk.first, chunk.first + len(ids))
        yield from buckets.add([Sentence(*row) for row in zip(numbers, ids, chunk.rows, strict=True)])
    yield from buckets.flush()


def _read(
    texts: Iterator[str],
    each: Iterator[str] | None,
    given: str | None,
    shared: LanguageRows,
    prompt: str,
    tables: LanguageTables,
) -> Iterator[Chunk]:
    first = 0
    code = _word_language(given) if given is not None else None
    while part := list(islice(texts, _CHUNK)):
        check_sentences(part, first)
        codes: list[str | None] = [code] * len(part)
        rows = [shared] * len(part)
        if each is not None:
            several = list(islice(each, len(part)))
            if len(several) < len(part):
                raise ValueError(
                    f"there are more sentences than languages ({first + len(several)}); give one language per sentence"
                )
            codes, rows = [_word_language(one) for one in several], tables.rows(several)
        yield Chunk(first, [prompt + text for text in part] if prompt else part, codes, rows)
        first += len(part)
    if each is not None and list(islice(each, 1)):
        raise ValueError(f"there are more languages than sentences ({first}); give one language per sentence")


def _word_language(code: str) -> str:
    """Returns the language that a tokenizer splits words by: the code without its script."""
    return language_code(code).partition("-")[0]
