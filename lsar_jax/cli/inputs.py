"""Reads text, vectors and encoded folders: as moments, with at most one block in memory, or as embeddings.

Several processes read all files together: each takes a part of their lines or vectors, and all get the same moments.
"""

import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax import embeddings
from lsar_jax.checkpoints.locate import is_folder
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.embeddings import Embeddings
from lsar_jax.encoders import SentenceEncoder, load_encoder
from lsar_jax.files import same_file
from lsar_jax.moments import Moments, sum_over_processes
from lsar_jax.processes import gather, is_first, share
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
# Lines that a process takes before the next one's.
_LINES = 512
_MAGIC = b"\x93NUMPY"
# Default limit of sentences per file if the embeddings themselves are kept in memory.
_HELD = 10_000


class Reader:
    """Reads files as embeddings or moments, and counts the blank lines that it skips.

    Of several processes, each counts a part of the blank lines.

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

        def own() -> Moments | None:
            if is_vectors(path):
                blocks = _unless_empty(self._blocks(path, self.limit, share()))
                return None if blocks is None else Moments.from_blocks(blocks, second_moment=second)
            encoder, language = self._encoder(code)
            sentences = _unless_empty(_own(self._sentences(path), _LINES))
            if sentences is None:
                return None
            found = encoder.moments(
                sentences, second_moment=second, language=language, max_length=self.max_length, show_progress=True
            )
            assert isinstance(found, Moments)  # of one layer
            return found

        return _named(path, lambda: sum_over_processes(own()))

    def embeddings(self, code: str, paths: list[Path]) -> np.ndarray:
        """Returns the embeddings of a language's files, up to ``limit`` from each file."""
        limit, parts = self.limit or _HELD, list[np.ndarray]()
        for path in paths:
            if is_vectors(path):
                parts += self._blocks(path, limit)
                continue
            encoder, language = self._encoder(code)
            x = encoder.encode(
                _own(islice(self._sentences(path), limit), _LINES),
                language=language,
                max_length=self.max_length,
                show_progress=True,
            )
            parts.append(_in_order(np.asarray(x)))
        return np.concatenate(parts)

    def _blocks(self, path: Path, limit: int | None, own: tuple[int, int] | None = None) -> Iterator[np.ndarray]:
        """Yields the vectors of a file, or of a folder without those of blank sentences; all, or a process's own."""
        x = open_vectors(path)
        first, step = own or (0, 1)
        for number, block in enumerate(read_blocks(x, limit, first, step)):
            if isinstance(x, Embeddings):
                start = (first + number * step) * _BLOCK
                blank = np.array([not text.strip() for text in x.sentences(start, start + len(block)).texts])
                self.blank += int(blank.sum()) if own or is_first() else 0
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
                self.blank += is_first()


def _own(items: Iterable[Any], run: int) -> Iterator[Any]:
    """Yields this process's share of items, of which the processes take runs in turn."""
    number, count = share()
    return (item for place, item in enumerate(items) if place // run % count == number)


def _unless_empty(items: Iterator[Any]) -> Iterator[Any] | None:
    first = next(items, items)
    return None if first is items else chain([first], items)


def _in_order(x: np.ndarray) -> np.ndarray:
    """Returns the embeddings of the sentences of all processes, in their order."""
    parts = [np.frombuffer(one, x.dtype).reshape(-1, x.shape[1]) for one in gather(x.tobytes())]
    if len(parts) == 1:
        return x
    starts = [0] * len(parts)
    total, runs = sum(map(len, parts)), []
    for place in range(-(-total // _LINES)):
        number = place % len(parts)
        runs.append(parts[number][starts[number] : starts[number] + _LINES])
        starts[number] += _LINES
    return np.concatenate(runs)


def open_vectors(path: Path) -> np.ndarray | Embeddings:
    """Returns a ``.npy`` file of float vectors, memory-mapped, or a folder that ``lsar-jax encode`` wrote, checked.

    Raises:
      FileNotFoundError: the file or the folder does not exist, or the folder is not finished.
      ValueError: it is not an array ``[n, dim]`` of floats, or a shard of the folder is damaged.
    """
    if path.is_dir():
        opened = embeddings.open(path)
        opened.check(shared=True)
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


def read_blocks(
    x: np.ndarray | Embeddings, limit: int | None = None, first: int = 0, step: int = 1
) -> Iterator[np.ndarray]:
    """Yields the rows of what ``open_vectors`` returned, up to ``limit`` rows, in blocks: one of ``step``."""
    width = x.shape[1] * x.dtype.itemsize
    rows = len(x) if limit is None else min(limit, len(x))
    for start in range(first * _BLOCK, rows, step * _BLOCK):
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
        number, count = share()
        where = f"{path}, in the share of process {number}" if count > 1 else f"{path}"
        raise error if str(path) in str(error) else ValueError(f"{where}: {error}") from error
