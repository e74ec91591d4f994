"""``lsar-jax apply``: applies a transform to a file of vectors or text, in bounded memory."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from lsar_jax.arrays import warn_far_off
from lsar_jax.corpora.records import Records, input_path, is_file
from lsar_jax.embeddings import Embeddings
from lsar_jax.encoders.progress import count_meter
from lsar_jax.files import check_outputs, new_file
from lsar_jax.options.encoder import InputOptions
from lsar_jax.options.inputs import InputName, is_vectors, open_vectors, read_blocks
from lsar_jax.retrieval.search import scaled_sides
from lsar_jax.transforms import Transform
from lsar_jax.transforms.identifier import NEAREST_TAKEN

__all__ = ["Apply"]

_log = logging.getLogger("lsar_jax")

_BLOCK = 65_536


@dataclass(frozen=True)
class Apply(InputOptions):
    """Applies a transform to vectors, or to the embeddings of text, and writes the results to a .npy file.

    Attributes:
      transform: the file that lsar-jax fit or Transform.save wrote.
      vectors: a .npy file of floats, one row per sentence, or a folder that lsar-jax encode wrote; or, with --encoder,
        text that lsar-jax encode reads (an empty line is an empty sentence, so that rows are lines).
      out: the .npy file to write, in float32.
      language: language code of all vectors, or auto to detect the language of each; a shared transform needs none.
      strength: how much of the transform to apply, from 0 (vectors unchanged) to 1.
      scale: divide vectors by their length, and append -r / 2 of local scaling, r against the transform's bank.
      overwrite: replace the output if it exists.
    """

    transform: tyro.conf.Positional[Path]
    vectors: tyro.conf.Positional[InputName]
    out: tyro.conf.Positional[Path]
    language: str | None = None
    strength: float = 1.0
    scale: bool = False
    overwrite: bool = False

    # What --help shows.
    essential = (
        "transform", "vectors", "out", "encoder", "layer", "prompt", "max_length", "language", "strength", "scale",
        "overwrite",
    )  # fmt: skip

    def run(self) -> None:
        """Writes the file."""
        transform, path = Transform.load(self.transform).at_strength(self.strength), input_path(self.vectors)
        check_outputs([self.out], [self.transform, path, *self.encoder_files()], overwrite=self.overwrite)
        self.check_text([] if is_vectors(path) else [path])
        blocks, width = (self._vectors if is_vectors(path) else self._text)(path, transform), transform.dim + self.scale
        if self.scale:
            bank, moved = transform.bank, blocks
            blocks = (np.asarray(scaled_sides(block, block, bank)[1]) for block in moved)
        # A wrong width or language is reported before a file is created.
        first, rows = next(blocks), 0
        with new_file(self.out) as partial, partial.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(file, header)
            for block in chain([first], blocks):
                file.write(np.asarray(block, "<f4").tobytes())
                rows += len(block)
            # numpy leaves room in the header for any number of rows.
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, header | {"shape": (rows, width)})
        print(f"wrote {rows} vectors of width {width}, transformed by {transform.name}, to {self.out}")

    def _vectors(self, path: Path, transform: Transform) -> Iterator[np.ndarray]:
        """Yields the transformed blocks of vectors."""
        x = open_vectors(path)
        if isinstance(x, Embeddings):
            x.check_transform(transform)
        start = strange = first_strange = 0
        with count_meter(True, len(x), "transformed", "vectors") as advance:
            for block in read_blocks(x):
                if start == 0:
                    warn_far_off(str(path), block)
                try:
                    result, unknown = transform.with_unknown(block, self.language)
                except ValueError as error:
                    raise ValueError(f"{path}, from row {start}: {error}") from error
                if unknown is not None and unknown.any():
                    first_strange = first_strange if strange else start + int(unknown.argmax())
                    strange += int(unknown.sum())
                yield np.asarray(result)
                start += len(block)
                advance(len(block))
        if strange:
            _log.warning(NEAREST_TAKEN, strange, start, f" in {path}", first_strange)

    def _text(self, path: Path, transform: Transform) -> Iterator[np.ndarray]:
        """Yields the transformed embeddings of blocks of sentences."""
        # Read to its end first, so that a bad line is found before the work; a pipe can be read once.
        rows = sum(1 for _ in Records([path], self.text)) if is_file(path) else None
        encoder, done = self.load(transform).with_transform(transform), 0
        texts = (record.text for record in Records([path], self.text))
        with count_meter(True, rows) as advance:
            options: dict[str, Any] = {"language": self.language, "max_length": self.max_length}
            while block := list(islice(texts, _BLOCK)):
                yield np.asarray(encoder.encode(block, show_progress=advance, **options))
                done += len(block)
        if rows not in (None, done):
            raise ValueError(f"{path} had {rows} rows, and then {done}: it changed while it was read")
