"""Sentences and their languages, read some at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from lsar_jax.batching import Slot
from lsar_jax.languages import check_known, language_code
from lsar_jax.tokenization import check_sentences
from lsar_jax.transforms.base import AUTO, Transform

__all__ = ["Chunk", "LanguageTables", "read_chunks", "slot_languages"]

# Sentences that are tokenized at a time.
_CHUNK = 2048


class Chunk(NamedTuple):
    """Some sentences on their way.

    ``languages`` are codes, or None where none was given; ``ids`` are the language ids of the
    model's own table and of the transform's steps, one array a table, ``[]`` or ``[n]``.
    """

    first: int
    texts: list[str]
    languages: list[str | None]
    ids: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class LanguageTables:
    """What of an encoder depends on the language.

    Attributes:
      encoder: its id, for messages.
      tokenizer: whether it splits by language.
      embeddings: of the model, code to row, or None.
      transform: with a table a step, or None.
    """

    encoder: str
    tokenizer: bool
    embeddings: Mapping[str, int] | None
    transform: Transform | None

    def __len__(self) -> int:
        return (0 if self.transform is None else len(self.transform.steps)) + (self.embeddings is not None)

    def check_used(self) -> None:
        """Raises ValueError if nothing depends on the language."""
        if not self.tokenizer and self.embeddings is None and self.transform is None:
            raise ValueError("language is given, but no transform, tokenizer or embedding of this encoder uses it")

    def ids(self, language: str | Sequence[str] | None) -> tuple[np.ndarray, ...]:
        """Returns the rows of the model's and the transform's tables, ``[]`` or ``[n]`` each."""
        ids = self.transform.language_ids(language) if self.transform else ()
        if self.embeddings is None:
            return ids
        known = self.embeddings
        if language is None:
            raise ValueError(f"{self.encoder} embeds the language; give language=, one of {', '.join(known)}")
        codes = [language] if isinstance(language, str) else language
        rows = {code: known[check_known(code, known, self.encoder)] for code in set(codes)}
        own = rows[language] if isinstance(language, str) else [rows[code] for code in language]
        return np.array(own, np.int32), *ids

    def auto_ids(self) -> tuple[np.ndarray, ...]:
        """Returns what stands for the rows that the device finds; says what hinders it."""
        if self.transform is None or self.embeddings is not None:
            raise ValueError(f"language is 'auto', which is for transforms; name the languages for {self.encoder}")
        if self.transform.languages is not None:
            self.transform.check_identifier()
        return tuple(np.zeros((), np.int32) for _ in self.transform.steps)


def read_chunks(
    texts: Iterable[str], total: int | None, language: str | Iterable[str] | None, prompt: str, tables: LanguageTables
) -> Iterator[Chunk]:
    """Yields checked parts of the input; what is wrong with the languages is said at once."""
    if language is not None:
        tables.check_used()
    if isinstance(language, str) and language == AUTO:
        return _read(iter(texts), None, None, tables.auto_ids(), prompt, tables)
    if language is None or isinstance(language, str):
        return _read(iter(texts), None, language, tables.ids(language), prompt, tables)
    if isinstance(language, Sequence | np.ndarray) and total is not None and len(language) != total:
        raise ValueError(f"{len(language)} languages for {total} sentences")
    return _read(iter(texts), iter(language), None, (), prompt, tables)


def slot_languages(slot: Slot, tables: Sequence[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """Returns the language ids of a slot's rows, from the ``ids`` of all chunks so far.

    A filler row takes language 0, its vector is dropped.
    """
    return tuple(_rows(slot, tables, which) for which in range(len(tables[0])))


def _read(
    texts: Iterator[str],
    each: Iterator[str] | None,
    given: str | None,
    shared: tuple[np.ndarray, ...],
    prompt: str,
    tables: LanguageTables,
) -> Iterator[Chunk]:
    first = 0
    code = _word_language(given) if given is not None else None
    while part := list(islice(texts, _CHUNK)):
        check_sentences(part, first)
        codes: list[str | None] = [code] * len(part)
        ids = shared
        if each is not None:
            several = list(islice(each, len(part)))
            if len(several) < len(part):
                raise ValueError(f"{first + len(several)} languages for at least {first + len(part)} sentences")
            codes, ids = [_word_language(one) for one in several], tables.ids(several)
        yield Chunk(first, [prompt + text for text in part] if prompt else part, codes, ids)
        first += len(part)
    if each is not None and list(islice(each, 1)):
        raise ValueError(f"more than {first} languages for {first} sentences")


def _rows(slot: Slot, tables: Sequence[tuple[np.ndarray, ...]], which: int) -> np.ndarray:
    rows = np.zeros(slot.rows, np.int32)
    if tables[0][which].ndim == 0:
        rows[: len(slot.sentences)] = tables[0][which]
    else:
        rows[: len(slot.sentences)] = [tables[i // _CHUNK][which][i % _CHUNK] for i in slot.sentences.tolist()]
    return rows


def _word_language(code: str) -> str:
    """The language whose words a tokenizer splits: the code without its script."""
    return language_code(code).partition("-")[0]
