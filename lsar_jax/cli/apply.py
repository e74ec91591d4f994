"""``lsar-jax apply``: applies a transform to a file of vectors or text, in bounded memory."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import tyro

from lsar_jax.arrays import warn_far_off
from lsar_jax.cli.inputs import check_unread, encoder_files, is_vectors, load_with, open_vectors, read_blocks
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.embeddings import Embeddings
from lsar_jax.files import check_outputs, new_file
from lsar_jax.transforms import Transform

__all__ = ["Apply"]

_log = logging.getLogger("lsar_jax")

_BLOCK = 65536


@dataclass(frozen=True)
class Apply:
    """Applies a transform to vectors, or to the embeddings of text, and writes the results to a .npy file.

    Attributes:
      transform: the file that lsar-jax fit or Transform.save wrote.
      vectors: a .npy file of floats, one row per sentence, or a folder that lsar-jax encode wrote; or, with --encoder,
        a text file with one sentence per line (an empty line is an empty sentence, so that rows are lines).
      out: the .npy file to write, in float32.
      language: language code of all vectors, or auto to detect the language of each; a shared transform needs none.
      encoder: encoder of the text: bundled, a preset, a folder or a Hub id. Omit it for vectors.
      revision: commit, tag or branch of a Hub id.
      layer: hidden-state layer; by default, the one that the transform was fitted on.
      pooling: pooling of the tokens; by default, the checkpoint's.
      max_length: maximum number of tokens per sentence.
      overwrite: replace the output if it exists.
    """

    transform: tyro.conf.Positional[Path]
    vectors: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]
    language: str | None = None
    encoder: str | None = None
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    max_length: int | None = None
    overwrite: bool = False

    def run(self) -> None:
        """Writes the file.

        Raises:
          FileExistsError: ``out`` exists, and ``overwrite`` is not given.
          FileNotFoundError: a file, or the folder of ``out``, does not exist.
          ValueError: ``out`` is also an input, the width differs, the transform was fitted on other embeddings, or the
            language is missing or unknown.
        """
        fitted = Transform.load(self.transform)
        inputs = [self.transform, self.vectors, *encoder_files(self.encoder)]
        check_outputs([self.out], inputs, overwrite=self.overwrite)
        rows, blocks = self._vectors(fitted) if self.encoder is None else self._text(fitted, self.encoder)
        # A wrong width or language is reported before a file is created.
        first = next(blocks)
        with new_file(self.out) as partial, partial.open("wb") as file:
            written = 0
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, fitted.dim)}
            np.lib.format.write_array_header_1_0(file, header)
            for block in chain([first], blocks):
                file.write(np.asarray(block, "<f4").tobytes())
                written += len(block)
            if written != rows:
                raise ValueError(f"{self.vectors} had {rows} rows, and then {written}: it changed while it was read")
        print(f"wrote {rows} vectors of width {fitted.dim}, transformed by {fitted.name}, to {self.out}")

    def _vectors(self, fitted: Transform) -> tuple[int, Iterator[np.ndarray]]:
        """Returns the number of vectors, and their transformed blocks."""
        if not is_vectors(self.vectors):
            raise ValueError(
                f"{self.vectors} is not a .npy file; to apply the transform to text, give its encoder with --encoder"
            )
        check_unread(self)
        x = open_vectors(self.vectors)
        if isinstance(x, Embeddings):
            x.check_transform(fitted)
        tally = _Unknown()

        def blocks() -> Iterator[np.ndarray]:
            start = 0
            for block in read_blocks(x):
                with np.errstate(over="ignore"):
                    bad = ~np.isfinite(block.astype(np.float32)).all(axis=1)
                if bad.any():
                    row = start + int(bad.argmax())
                    raise ValueError(f"{self.vectors} holds NaN, infinity or a number too large, first in row {row}")
                if start == 0:
                    warn_far_off(str(self.vectors), block)
                moved, unknown = fitted.with_unknown(block, self.language)
                if unknown is not None:
                    tally.add(start, unknown)
                yield np.asarray(moved)
                start += len(block)
            tally.tell(self.vectors, start)

        return len(x), blocks()

    def _text(self, fitted: Transform, name: str) -> tuple[int, Iterator[np.ndarray]]:
        """Returns the number of lines, and the transformed embeddings of their blocks."""
        if is_vectors(self.vectors):
            raise ValueError(f"--encoder {name} is given, but {self.vectors} holds vectors; omit it")
        rows = sum(1 for _ in stream_lines(self.vectors))
        encoder = load_with(fitted, name, layer=self.layer, revision=self.revision, pooling=self.pooling)

        def blocks() -> Iterator[np.ndarray]:
            lines = stream_lines(self.vectors)
            while block := list(islice(lines, _BLOCK)):
                yield np.asarray(encoder.encode(block, language=self.language, max_length=self.max_length))

        return rows, blocks()


@dataclass
class _Unknown:
    """Counts the vectors whose language is none that the identifier knows, over all blocks."""

    count: int = 0
    first: int = 0

    def add(self, start: int, unknown: np.ndarray) -> None:
        if unknown.any() and not self.count:
            self.first = start + int(unknown.argmax())
        self.count += int(unknown.sum())

    def tell(self, path: Path, rows: int) -> None:
        if self.count:
            _log.warning(
                "%d of %d vectors in %s are in none of the languages that the identifier knows, for example row %d; "
                "they are taken for the nearest one",
                self.count, rows, path, self.first,
            )  # fmt: skip
