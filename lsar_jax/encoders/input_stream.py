"""The input of an encoder: sentences and their languages, checked, tokenized ahead of the device, and batched."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import cache
from itertools import count, islice, repeat
from typing import Any
from unicodedata import is_normalized

import numpy as np

from lsar_jax.encoders.encode_report import EncodeReport
from lsar_jax.encoders.options import EncodeCall
from lsar_jax.languages import AUTO, check_codes
from lsar_jax.tokens.packing import BatchSizes, PackedBatch, Sentence, batches
from lsar_jax.tokens.tokenizer import Tokenizer, check_sentences

__all__ = ["read_batches"]

# Sentences that are tokenized together, their characters, and the number of such chunks that are tokenized before they
# are needed.
_CHUNK = 2048
_CHARACTERS = 4_000_000
_AHEAD = 3

# The number of the first sentence, the sentences, and their languages.
_Chunk = tuple[int, list[str], list[str | None]]


def read_batches(
    texts: Iterable[str],
    total: int | None,
    call: EncodeCall,
    *,
    rows: Callable[[str | None], tuple[int, ...]],
    tokenizer: Tokenizer,
    sizes: BatchSizes,
    report: EncodeReport,
) -> Generator[PackedBatch, None, None]:
    """Yields the batches of device calls, while a thread checks and tokenizes the next sentences.

    Args:
      texts: the sentences.
      total: number of sentences, or None if that is not known.
      call: the options, with a language: a code, ``"auto"``, a code for each sentence, or None.
      rows: returns the row of a language in each language table; raises an error for one that cannot be used.
      tokenizer: the tokenizer of the encoder.
      sizes: number of rows of the batches.
      report: the sentences that are truncated, or not in NFC, are added to it.

    Raises:
      ValueError: a sentence is not text, a language is missing or unknown, or the numbers of sentences and languages
        differ.
    """
    language = call.language
    rows = cache(rows)
    if language is None or isinstance(language, str):
        rows(language)
    elif isinstance(language, Sequence | np.ndarray) and total is not None:
        _check_counts(len(language), total)

    def tokenize(first: int, part: list[str], codes: list[str | None]) -> list[Sentence]:
        check_sentences(part, first)
        languages = [None if code == AUTO else code for code in codes]
        ids, truncated = tokenizer(part, call.max_length, languages, call.prompt)
        report.truncated += truncated
        report.decomposed += sum(not is_normalized("NFC", text) for text in part)
        return [Sentence(*values) for values in zip(count(first), ids, map(rows, codes), strict=False)]

    with closing(_ahead(tokenize, _chunks(texts, language))) as chunks:
        yield from batches(chunks, sizes)


def _chunks(texts: Iterable[str], language: str | Iterable[str] | None) -> Iterator[tuple[_Chunk, bool]]:
    """Yields chunks, and whether there may be more."""
    codes: Iterator[Any] = repeat(language) if language is None or isinstance(language, str) else iter(language)
    shared = isinstance(codes, repeat)
    first = 0
    for part, more in _parts(texts):
        several = list(islice(codes, len(part)))
        _check_counts(first + len(several), first + len(part))
        if not shared:
            check_codes(several, first)
        yield (first, part, several), more
        first += len(part)
    if not shared:
        _check_counts(first + len(list(islice(codes, 1))), first)


def _parts(texts: Iterable[str]) -> Iterator[tuple[list[str], bool]]:
    """Yields some sentences, and whether there may be more."""
    part: list[str] = []
    characters = 0
    for text in texts:
        part.append(text)
        characters += len(text) if isinstance(text, str) else 0
        if len(part) == _CHUNK or characters >= _CHARACTERS:
            yield part, True
            part, characters = [], 0
    if part:
        yield part, False


def _check_counts(languages: int, sentences: int) -> None:
    if languages != sentences:
        raise ValueError(f"there are languages for {languages} of {sentences} sentences; give one for each")


def _ahead(
    call: Callable[..., list[Sentence]], chunks: Iterable[tuple[_Chunk, bool]]
) -> Generator[list[Sentence], None, None]:
    """Yields ``call(*chunk)`` for each chunk in order; a thread works a few chunks ahead."""
    waiting: deque[Future[list[Sentence]]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="tokenize") as thread:
        try:
            for chunk, more in chunks:
                if not (more or waiting):  # for the only one, a thread would take half a millisecond
                    yield call(*chunk)
                    continue
                waiting.append(thread.submit(call, *chunk))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            thread.shutdown(cancel_futures=True)
