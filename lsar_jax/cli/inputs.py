"""Reads files of sentences or vectors: as moments, with at most one block in memory, or as embeddings."""

import tokenize
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.checkpoints.locate import is_folder
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.files import same_file
from lsar_jax.moments import Moments

__all__ = ["Reader", "check_distinct", "check_unread", "encoder_files", "is_vectors", "open_vectors", "read_blocks"]

_BLOCK = 8192
_MAGIC = b"\x93NUMPY"
# Default limit of sentences per file if the embeddings themselves are kept in memory.
_HELD = 10_000


class Reader:
    """Reads files as embeddings or moments, and counts the blank lines that it skips.

    Args:
      encoder: encoder of text; None if all files are vectors.
      max_length: maximum number of tokens per sentence.
      limit: maximum number of lines or rows per file.
    """

    def __init__(self, encoder: SentenceEncoder | None, max_length: int | None, limit: int | None) -> None:
        self.encoder = encoder
        self.max_length = max_length
        self.limit = limit
        self.blank = 0

    def moments(self, path: Path, code: str, second: bool) -> Moments:
        """Returns the moments of a file."""
        if is_vectors(path):
            blocks = read_blocks(open_vectors(path)[: self.limit])
            return _named(path, lambda: Moments.from_blocks(blocks, second_moment=second))
        encoder, language = self._encoder(code)
        sentences = self._sentences(path)
        return _named(
            path,
            lambda: encoder.moments(
                sentences, second_moment=second, language=language, max_length=self.max_length, show_progress=True
            ),
        )

    def embeddings(self, code: str, paths: list[Path]) -> np.ndarray:
        """Returns the embeddings of a language's files, up to ``limit`` from each file."""
        limit, parts = self.limit or _HELD, []
        for path in paths:
            if is_vectors(path):
                parts.append(np.asarray(open_vectors(path)[:limit]))
                continue
            encoder, language = self._encoder(code)
            parts.append(
                np.asarray(
                    encoder.encode(
                        islice(self._sentences(path), limit),
                        language=language,
                        max_length=self.max_length,
                        show_progress=True,
                    )
                )
            )
        return np.concatenate(parts)

    def _encoder(self, code: str) -> tuple[SentenceEncoder, str | None]:
        assert self.encoder is not None
        return self.encoder, code if self.encoder.uses_language else None

    def _sentences(self, path: Path) -> Iterator[str]:
        for line in islice(stream_lines(path), self.limit):
            if line.strip():
                yield line
            else:
                self.blank += 1


def open_vectors(path: Path) -> np.ndarray:
    """Returns a ``.npy`` file of float vectors, memory-mapped.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: it is not an array ``[n, dim]`` of floats.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with path.open("rb") as file:
        # Checked here, because numpy's own error suggests to load the file as a pickle.
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{path} is not a .npy file, which numpy.save writes")
    try:
        x = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, OverflowError, SyntaxError, tokenize.TokenError) as error:
        # Not numpy's text, which may have several lines and advise to trust the file.
        told = "it holds Python objects" if "object" in str(error).lower() else "its header is damaged, or it is cut"
        raise ValueError(f"{path} is not a .npy file of floats: {told}") from error
    if isinstance(x, np.memmap) and path.stat().st_size != x.offset + x.nbytes:
        raise ValueError(f"{path} is damaged: its header says {x.nbytes} bytes of vectors, but there are others")
    if not isinstance(x, np.ndarray) or x.ndim != 2 or 0 in x.shape or x.dtype.kind != "f":
        raise ValueError(
            f"{path} holds {getattr(x, 'dtype', type(x))} of shape {np.shape(x)}; expected floats of shape [n, dim]"
        )
    return x


def read_blocks(x: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the rows of an array that ``open_vectors`` returned, some at a time."""
    width = x.shape[1] * x.dtype.itemsize
    for start in range(0, len(x), _BLOCK):
        stop = min(start + _BLOCK, len(x))
        if isinstance(x, np.memmap) and x.flags.c_contiguous:
            # Read, because the pages of a mapped file stay in memory for as long as the kernel likes.
            block = np.fromfile(str(x.filename), x.dtype, (stop - start) * x.shape[1], offset=x.offset + start * width)
            yield block.reshape(-1, x.shape[1])
        else:
            yield np.asarray(x[start:stop])


def check_unread(command: Any) -> None:
    """Raises ValueError if a command without text to encode is given an option that only text needs."""
    for name in ("revision", "layer", "pooling", "max_length"):
        if getattr(command, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is given, but there is no text to encode; omit it")


def check_distinct(option: str, paths: Sequence[Path]) -> None:
    """Raises ValueError if two paths are the same file, which would count twice."""
    for number, path in enumerate(paths):
        if any(same_file(path, other) for other in paths[:number]):
            raise ValueError(f"{option} has {path} twice; omit one")


def encoder_files(encoder: str | None) -> list[Path]:
    """Returns the folder and the files of an encoder that is a folder, which no output may replace."""
    if not encoder or not is_folder(encoder):
        return []
    folder = Path(encoder)
    # Files of a folder may also be read through a link to it.
    linked = [path for place in folder.iterdir() if place.is_symlink() and place.is_dir() for path in place.iterdir()]
    return [folder, *(path for path in (*folder.rglob("*"), *linked) if path.is_file())]


def is_vectors(path: Path) -> bool:
    """Returns whether a file contains vectors, judging by its suffix."""
    return path.suffix.lower() == ".npy"


def _named(path: Path, call: Callable[[], Any]) -> Moments:
    try:
        return call()
    except ValueError as error:
        raise error if str(path) in str(error) else ValueError(f"{path}: {error}") from error
