"""Reads text, vectors and encoded folders: as moments, with at most one block in memory, or as embeddings."""

import tokenize
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax import embeddings
from lsar_jax.checkpoints.locate import is_folder
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.embeddings import Embeddings
from lsar_jax.encoders import SentenceEncoder, load_encoder
from lsar_jax.files import same_file
from lsar_jax.moments import Moments
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform

__all__ = [
    "Reader",
    "check_distinct",
    "check_unread",
    "encoder_files",
    "is_vectors",
    "load_with",
    "open_vectors",
    "read_blocks",
]

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
            blocks = self._blocks(path, self.limit)
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
        limit, parts = self.limit or _HELD, list[np.ndarray]()
        for path in paths:
            if is_vectors(path):
                parts += self._blocks(path, limit)
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

    def _blocks(self, path: Path, limit: int | None) -> Iterator[np.ndarray]:
        """Yields the vectors of a file, or of a folder without those of blank sentences."""
        x, start = open_vectors(path), 0
        for block in read_blocks(x, limit):
            if isinstance(x, Embeddings):
                texts = x.sentences(start, start + len(block)).texts
                start += len(block)
                blank = np.array([not text.strip() for text in texts])
                self.blank += int(blank.sum())
                block = block[~blank]
            if len(block):
                yield block

    def _encoder(self, code: str) -> tuple[SentenceEncoder, str | None]:
        assert self.encoder is not None
        return self.encoder, code if self.encoder.uses_language else None

    def _sentences(self, path: Path) -> Iterator[str]:
        for line in islice(stream_lines(path), self.limit):
            if line.strip():
                yield line
            else:
                self.blank += 1


def open_vectors(path: Path) -> np.ndarray | Embeddings:
    """Returns a ``.npy`` file of float vectors, memory-mapped, or a folder that ``lsar-jax encode`` wrote, checked.

    Raises:
      FileNotFoundError: the file or the folder does not exist, or the folder is not finished.
      ValueError: it is not an array ``[n, dim]`` of floats, or a shard of the folder is damaged.
    """
    if path.is_dir():
        opened = embeddings.open(path)
        opened.check()
        return opened
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


def read_blocks(x: np.ndarray | Embeddings, limit: int | None = None) -> Iterator[np.ndarray]:
    """Yields the rows of what ``open_vectors`` returned, some at a time, up to ``limit`` rows."""
    width = x.shape[1] * x.dtype.itemsize
    rows = len(x) if limit is None else min(limit, len(x))
    for start in range(0, rows, _BLOCK):
        stop = min(start + _BLOCK, rows)
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


def load_with(
    fitted: Transform | None, name: str, *, layer: int | None, prompt: str | None = None, **options: Any
) -> SentenceEncoder:
    """Returns an encoder that applies a transform, by default on the layer that the transform was fitted on.

    Args:
      fitted: the transform, if there is one.
      name: name of the encoder.
      layer: its layer, if another one is chosen.
      prompt: string put before each sentence; by default, the checkpoint's own.
      **options: as for ``load_encoder``.
    """
    if layer is None and fitted is not None and fitted.source is not None:
        layer = fitted.source.layer
    encoder = load_encoder(name, layer=layer, **options)
    if prompt is not None:
        encoder = encoder.with_prompt(prompt)
    return encoder if fitted is None else encoder.with_transform(fitted)


def space_of(path: Path) -> EncoderSpec | None:
    """Returns the embedding space of an encoded folder; None for a file of vectors, which does not name it."""
    return embeddings.open(path).spec if path.is_dir() else None


def is_vectors(path: Path) -> bool:
    """Returns whether a path is that of vectors: a ``.npy`` file, judging by its suffix, or a folder."""
    return path.suffix.lower() == ".npy" or path.is_dir()


def _named(path: Path, call: Callable[[], Any]) -> Moments:
    try:
        return call()
    except ValueError as error:
        raise error if str(path) in str(error) else ValueError(f"{path}: {error}") from error
