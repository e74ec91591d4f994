"""Embeddings in a folder, as rows of an array that is read from the disk when it is needed."""

import hashlib
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.embeddings.job import check_digest
from lsar_jax.embeddings.manifest import FILE_NAME, Manifest, file_names
from lsar_jax.embeddings.shards import Sentences, check_shard, read_rows, read_sentences
from lsar_jax.encoders.options import check_transform
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform

__all__ = ["Embeddings", "open_folder"]


class Embeddings:
    r"""The embeddings that ``lsar-jax encode`` wrote; ``lsar_jax.embeddings.open`` opens a folder of them.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     text, out = Path(folder, "de.txt"), Path(folder, "de")
      ...     _ = text.write_text("Guten Tag\nServus\nGuten Tag\n")
      ...     lj.embeddings.encode(lj.load_encoder("bundled", layer=1), [text], out)
      ...     x = lj.embeddings.open(out)
      ...     x.shape, x[1:].shape, x.sentences(0, 2).texts, x.spec.layer
      ((3, 384), (2, 384), ['Guten Tag', 'Servus'], 1)
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        # A shard's sentences stay in memory until those of another one are read.
        self._sentences_of_shard = lru_cache(1)(partial(read_sentences, folder, manifest))

    def __repr__(self) -> str:
        rows, dim = self.shape
        return f"Embeddings({str(self.folder)!r}, {rows} x {dim}, {len(self.manifest.shards)} shards, {self.spec})"

    def __len__(self) -> int:
        return self.manifest.rows

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and the width of a vector."""
        return len(self), self.manifest.job.dim

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the vectors as they are stored."""
        return np.dtype(self.manifest.job.dtype)

    @property
    def spec(self) -> EncoderSpec:
        """The embedding space."""
        return self.manifest.job.spec

    def __getitem__(self, rows: int | slice | Any) -> Float[np.ndarray, "*row dim"]:
        """Returns a row ``[dim]``, or the rows of a range ``[row, dim]``, read from the disk.

        Raises:
          IndexError: there is no such row, or it is neither a whole number nor a range.
        """
        if isinstance(rows, slice):
            return self.take(np.arange(*rows.indices(len(self))))
        row = int(_whole(rows, 0))
        return self.take(np.array([row + len(self) if -len(self) <= row < 0 else row]))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array of embeddings in a folder is a copy; use np.asarray, or copy=None")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def blocks(self, rows: int = 8192) -> Iterator[Float[np.ndarray, "row dim"]]:
        """Yields all vectors in their order, ``rows`` of them at a time."""
        for start in range(0, len(self), rows):
            yield self[start : start + rows]

    def take(self, rows: Int[np.ndarray, " row"]) -> Float[np.ndarray, "row dim"]:
        """Returns any rows in their order, ``[row, dim]``; of each shard, only these are read if it is ``.npy``."""
        x = np.empty((len(rows := _whole(rows, 1)), self.shape[1]), self.dtype)
        for number, chosen, places in self._by_shard(rows):
            x[_run(chosen)] = read_rows(self.folder, self.manifest.job, number, _run(places))
        return x

    def sentences(self, start: int = 0, stop: int | None = None) -> Sentences:
        """Returns the sentences of the rows from ``start`` up to ``stop``, with their ids."""
        return self.sentences_of(np.arange(*slice(start, stop).indices(len(self))))

    def sentences_of(self, rows: Int[np.ndarray, " row"]) -> Sentences:
        """Returns the sentences of any rows, in their order, with their ids; each shard is read once."""
        texts, ids = np.empty(len(rows), object), np.empty(len(rows), object)
        for number, chosen, places in self._by_shard(rows):
            shard = self._sentences_of_shard(number)
            for row, place in zip(chosen, places, strict=True):
                texts[row], ids[row] = shard.texts[place], shard.ids[place]
        return Sentences(texts.tolist(), ids.tolist())

    def distinct(self) -> Int[np.ndarray, " distinct"]:
        """Returns the first row of each distinct sentence that is not blank; 40 bytes a row are in memory."""
        rows, text = self.copies()
        return np.sort(rows[np.unique(text, return_index=True)[1]])

    def copies(self) -> tuple[Int[np.ndarray, " row"], Int[np.ndarray, " row"]]:
        """Returns the rows that are not blank, and a number for the sentence of each, the same for the same."""
        digests, rows = [np.zeros(0, "V16")], [np.zeros(0, np.int64)]
        for number in range(len(self.manifest.shards)):
            texts = self._sentences_of_shard(number).texts
            places = [place for place, text in enumerate(texts) if text.strip()]
            # 16 bytes: two of 10^12 sentences are taken for one with a probability below 10^-14.
            hashes = (hashlib.blake2b(texts[place].encode(), digest_size=16).digest() for place in places)
            digests.append(np.frombuffer(b"".join(hashes), "V16"))
            rows.append(np.array(places, np.int64) + number * self.manifest.job.shard_rows)
        return np.concatenate(rows), np.unique(np.concatenate(digests), return_inverse=True)[1]

    def check_transform(self, transform: Transform) -> None:
        """Raises ValueError if a transform is applied already, or was fitted on other embeddings or another width."""
        check_transform(transform, self.spec, self.shape[1], {*self.manifest.job.applied}, str(self.folder))

    def check(self, shard: tuple[int, int] = (0, 1)) -> None:
        """Compares every shard with its digest, or every n-th, from number i, if ``shard`` is ``(i, n)``.

        Raises:
          FileNotFoundError: a shard is missing.
          ValueError: a shard is damaged.
        """
        advice = "remove it, and run the command that encoded the folder again"
        for part in self.manifest.shards[shard[0] :: shard[1]]:
            for name, digest in part.files.items():
                check_digest(self.folder / name, digest, advice)

    def _by_shard(
        self, rows: Int[np.ndarray, " row"]
    ) -> Iterator[tuple[int, Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]:
        """Yields the shards of rows: the number, which of the rows, and their places in the shard."""
        rows = _whole(rows, 1)
        outside = rows[(rows < 0) | (rows >= len(self))]
        if len(outside):
            raise IndexError(f"row {outside[0]} does not exist; there are {len(self)} rows")
        numbers, places = np.divmod(rows, self.manifest.job.shard_rows)
        for number in np.unique(numbers):
            chosen = np.flatnonzero(numbers == number)
            yield int(number), chosen, places[chosen]


def _whole(rows: object, axes: int) -> np.ndarray:
    """Returns a number of a row, or a list of them (one axis), as an array; IndexError for bools, floats and others."""
    numbers = np.asarray(rows)
    if numbers.ndim != axes or (numbers.size and numbers.dtype.kind not in "iu"):
        raise IndexError(f"{rows!r:.80} is not a whole number or a range; call take with a list of whole numbers")
    return numbers.astype(np.int64)


def _run(rows: Int[np.ndarray, " row"]) -> slice | Int[np.ndarray, " row"]:
    """Returns rows that follow one another as a slice, of which numpy makes no copy."""
    return slice(int(rows[0]), int(rows[-1]) + 1) if (np.diff(rows) == 1).all() else rows


def open_folder(folder: str | Path) -> Embeddings:
    """Opens a folder that ``lsar-jax encode`` finished; only its manifest and the headers of its shards are read.

    Raises:
      FileNotFoundError: there is no such folder, it is not finished, or a shard is missing.
      ValueError: its manifest is damaged, or does not fit its shards.
    """
    folder = Path(folder)
    if not (folder / FILE_NAME).exists() and (folder / ".job").is_dir():
        raise FileNotFoundError(f"{folder} is not finished; run the command that encodes it again")
    manifest = Manifest.read(folder)
    for number in range(len(manifest.shards)):
        for name in file_names(manifest.job.format, number):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"{folder / name} is missing; run the command that encoded the folder again")
        check_shard(folder, manifest, number)
    return Embeddings(folder, manifest)
