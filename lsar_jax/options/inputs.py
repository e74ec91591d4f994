"""Reads text, vectors and encoded folders: as moments, with at most one block in memory, or as embeddings.

The vectors of a language in a parquet file are in memory together.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import tyro

from lsar_jax import embeddings
from lsar_jax.arrays import check_floats
from lsar_jax.corpora.records import VECTORS, Records, has_columns, is_file, is_parquet
from lsar_jax.corpora.row_files import file_rows
from lsar_jax.embeddings import Embeddings
from lsar_jax.embeddings.job_shares import WHOLE
from lsar_jax.embeddings.shards import memory_mapped
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.encoders.progress import Meter
from lsar_jax.files import check_file, same_file
from lsar_jax.languages import language_code
from lsar_jax.moments import Moments
from lsar_jax.options.texts import Texts
from lsar_jax.transforms.base.sample import SAMPLE, StreamSample, evenly_spaced

__all__ = ["BLOCK", "InputName", "Reader", "check_distinct", "has_vectors", "is_vectors", "open_vectors", "read_rows"]

# What input_path takes: a Path of ./- would be that of -, which is standard input.
InputName: TypeAlias = Annotated[str, tyro.conf.arg(metavar="PATH")]

#: Rows of a block of vectors.
BLOCK = 8192
# Lines that a share has before the next one's.
_LINES = 512
# Default limit of sentences per file if the embeddings themselves are kept in memory.
_MOST_IN_MEMORY = 10_000


class Reader:
    """Reads files, up to ``limit`` lines or rows of each, as embeddings or moments; ``text`` is as for ``Records``.

    It counts the blank lines that it skips. In a ``shard`` of a job, it sums every n-th block of rows. While ``meter``
    is open, it says how much of what was ``found`` is read; tables of several languages are read once for each.
    """

    def __init__(
        self, encoder: SentenceEncoder | None, max_length: int | None, limit: int | None, text: str | None,
        found: Texts, shard: tuple[int, int] = WHOLE,
    ) -> None:  # fmt: skip
        self.encoder, self.max_length, self.limit, self.text = encoder, max_length, limit, text
        self.found, self.shard, self.blank, self.meter = found, shard, 0, Meter()
        paths = list(chain.from_iterable(found.files.values()))
        # Of text, because a pipe is read once.
        self._samples: dict[str, StreamSample[str]] = defaultdict(lambda: StreamSample(SAMPLE))
        # How much there is up to a limit, or in a pipe, is not known.
        known = limit is None and all(path.is_dir() or is_file(path) for path in paths)
        self._total = sum(map(_bytes, paths)) if known else None
        # Sentences that were encoded, and the bytes of the files that are finished, and of the one that is read.
        self._count = self._finished = self._position = 0

    def moments(self, path: Path, code: str, second: bool) -> Moments | None:
        """Returns the moments of the share's rows of a file, None if the share has none of them."""
        number, count = self.shard
        moments: Moments | list[Moments] | None = None
        try:
            if self.encoder is None:
                if blocks := _unless_empty(self._blocks(path, code, self.limit)):
                    moments = Moments.from_blocks(blocks, second_moment=second)
            else:
                lines = enumerate(self._samples[code].watch(self._sentences(path, code)))
                if texts := _unless_empty(text for place, text in lines if place // _LINES % count == number):
                    moments = self.encoder.moments(texts, second_moment=second, **self._options(code))
            if moments is None and (count == 1 or self._is_empty(path, code)):
                raise ValueError("there are no embeddings")
            self._finish(path)
            assert not isinstance(moments, list)  # of one layer
            return moments
        except ValueError as error:
            raise error if str(path) in str(error) else ValueError(f"{path}: {error}") from error

    def embeddings(self, code: str, paths: list[Path]) -> np.ndarray:
        """Returns the embeddings of a language's files."""
        limit, parts = self.limit or _MOST_IN_MEMORY, list[np.ndarray]()
        for path in paths:
            if self.encoder is None:
                parts += self._blocks(path, code, limit)
            else:
                sentences = list(islice(self._sentences(path, code), limit))
                parts.append(np.asarray(self.encoder.encode(sentences, **self._options(code))))
            self._finish(path)
        return np.concatenate(parts)

    def sample(self) -> dict[str, np.ndarray]:
        """Returns embeddings of evenly spaced sentences or vectors of the files of each language that were read."""
        x, files = dict[str, np.ndarray](), self.found.files
        for code, paths in files.items():
            if code in self._samples:
                assert self.encoder is not None
                items, options = self._samples[code].items, self._options(code) | {"show_progress": False}
                chosen = evenly_spaced(len(items), SAMPLE // len(files))
                x[code] = np.asarray(self.encoder.encode([items[row] for row in chosen], **options))
            else:
                x[code] = np.concatenate([self._rows(path, code, SAMPLE // len(files)) for path in paths])
        return x

    def _rows(self, path: Path, code: str, most: int) -> np.ndarray:
        """Returns evenly spaced vectors of a file, or of a folder, but none of blank sentences."""
        x = open_vectors(path, code if path in self.found.tables else None)
        rows = evenly_spaced(len(x) if self.limit is None else min(self.limit, len(x)), most)
        if isinstance(x, np.ndarray):
            return np.concatenate([read_rows(x, row, row + 1) for row in rows.tolist()])
        return x.take(rows[[bool(text.strip()) for text in x.sentences_of(rows).texts]])

    def _blocks(self, path: Path, code: str, limit: int | None) -> Iterator[np.ndarray]:
        """Yields the share's blocks of vectors of a file, or of a folder, but none of blank sentences."""
        x, (number, count) = open_vectors(path, code if path in self.found.tables else None), self.shard
        rows = len(x) if limit is None else min(limit, len(x))
        for start in range(number * BLOCK, rows, count * BLOCK):
            block = read_rows(x, start, min(start + BLOCK, rows))
            if isinstance(x, Embeddings):
                texts = x.sentences(start, start + len(block)).texts
                block = block[[bool(text.strip()) for text in texts]]
                self.blank += len(texts) - len(block)
            if len(block):
                yield block
            self._position += block.nbytes * count
            self._advance(len(block), "read {:,} vectors")

    def _advance(self, sentences: int, text: str = "encoded {:,} sentences") -> None:
        """Shows how far it is when more sentences are encoded; the text is read a little ahead."""
        self._count += sentences
        done = self._count if self._total is None else self._finished + self._position
        self.meter(text.format(self._count), done, self._total)

    def _is_empty(self, path: Path, code: str) -> bool:
        """Whether no share has rows of a file."""
        whole = Reader(self.encoder, self.max_length, self.limit, self.text, self.found)
        rows = whole._sentences(path, code) if self.encoder else whole._blocks(path, code, self.limit)
        return _unless_empty(rows) is None

    def _finish(self, path: Path) -> None:
        """Begins with another file."""
        # The next share has its first rows.
        self.shard = (self.shard[0] - 1) % self.shard[1], self.shard[1]
        self._finished += _bytes(path) if self._total is not None else 0
        self._position = 0

    def _options(self, code: str) -> dict[str, Any]:
        language = code if self.encoder is not None and self.encoder.uses_language else None
        return {"language": language, "max_length": self.max_length, "show_progress": self._advance}

    def _sentences(self, path: Path, code: str) -> Iterator[str]:
        table = "language" if path in self.found.tables else None
        records = Records([path], self.text if has_columns(path) else None, table)
        rows = records.by_language() if table else ((code, record.text) for record in records)
        for text in islice((text for language, text in rows if language == code), self.limit):
            self._position = records.position
            if text.strip():
                yield text
            else:
                self.blank += 1


def _unless_empty(items: Iterator[Any]) -> Iterator[Any] | None:
    first = next(items, items)
    return None if first is items else chain([first], items)


def open_vectors(path: Path, code: str | None = None) -> np.ndarray | Embeddings:
    """Returns a ``.npy`` file of vectors ``[n, dim]``, memory-mapped, or an encoded folder, checked.

    Of a parquet file, it returns the column vector in float32, the whole or the rows of a language, in memory.
    Raises FileNotFoundError or ValueError if it is absent, damaged or something else.
    """
    if is_parquet(path):
        rows = file_rows(path, ["vector", *["language"] * (code is not None)])
        vectors = [row["vector"] for _, row in rows if code is None or language_code(row["language"]) == code]
        with suppress(ValueError, TypeError):
            if (x := np.array(vectors, np.float32)).ndim == 2:
                return x
        raise ValueError(f"{path}: the column vector must hold lists of as many floats in every row")
    if path.is_dir():
        opened = embeddings.open(path)
        opened.check()
        return opened
    check_file(path)
    x = memory_mapped(path)
    check_floats(str(path), x)
    return x


def read_rows(x: np.ndarray | Embeddings, start: int, stop: int) -> np.ndarray:
    """Returns rows of what ``open_vectors`` returned."""
    if not (isinstance(x, np.memmap) and x.flags.c_contiguous):
        return np.asarray(x[start:stop])
    # Read, because the pages of a mapped file stay in memory for as long as the kernel likes.
    offset = x.offset + start * x.strides[0]
    return np.fromfile(str(x.filename), x.dtype, (stop - start) * x.shape[1], offset=offset).reshape(-1, x.shape[1])


def _bytes(path: Path) -> int:
    """The bytes of a file, or of the vectors in a folder."""
    return sum(file.stat().st_size for file in path.glob("vectors-*")) if path.is_dir() else path.stat().st_size


def check_distinct(option: str, paths: Sequence[Path]) -> None:
    """Raises ValueError if two paths are the same file, which would count twice."""
    for number, path in enumerate(paths):
        if any(same_file(path, other) for other in paths[:number]):
            raise ValueError(f"{option} has {path} twice; omit one")


def is_vectors(path: Path) -> bool:
    """Whether a path holds vectors, such as a ``.npy`` file, judging by its suffix, or is a folder."""
    return path.suffix.lower() in VECTORS or path.is_dir()


def has_vectors(path: Path) -> bool:
    """Whether a path holds vectors, or is a parquet file with the column vector."""
    return is_vectors(path) or (is_parquet(path) and "vector" in next(file_rows(path), ("", {}))[1])
