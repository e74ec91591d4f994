"""``lsar-jax apply``: applies a transform to a file of vectors or text, in bounded memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tyro

from lsar_jax.arrays import log, warn_far_off
from lsar_jax.checks import errors_of
from lsar_jax.corpora.records import Records, input_path, is_file
from lsar_jax.embeddings import Embeddings
from lsar_jax.embeddings.job import NUMBER, new_output
from lsar_jax.encoders.progress import count_meter
from lsar_jax.files import new_file
from lsar_jax.mining.job import notes_of
from lsar_jax.options.file_job import FileJob
from lsar_jax.options.inputs import BLOCK, InputName, is_vectors, open_vectors, read_rows
from lsar_jax.retrieval.search import scaled_sides
from lsar_jax.transforms import Transform
from lsar_jax.transforms.identifier import NEAREST_TAKEN

__all__ = ["Apply"]


# Sentences of a block, and the file of a block of a share.
_BLOCK, _FILE = 65_536, "block-{:05d}.npy"


@dataclass(frozen=True)
class Apply(FileJob):
    """Applies a transform to vectors, or to the embeddings of text, and writes the results to a .npy file.

    Attributes:
      transform: the file that lsar-jax fit or Transform.save wrote.
      vectors: a .npy file of floats, one row per sentence, or a folder that lsar-jax encode wrote; or, with --encoder,
        text that lsar-jax encode reads (an empty line is an empty sentence, so that rows are lines).
      out: the .npy file to write, in float32.
      language: language code of all vectors, or auto to detect the language of each; a shared transform needs none.
      strength: how much of the transform to apply, from 0 (vectors unchanged) to 1.
      scale: divide vectors by their length, and append -r / 2 of local scaling, r against the transform's bank.
    """

    transform: tyro.conf.Positional[Path]
    vectors: tyro.conf.Positional[InputName]
    out: tyro.conf.Positional[Path]
    language: str | None = None
    strength: float = 1.0
    scale: bool = False

    # What --help shows.
    essential = (
        "transform", "vectors", "out", "encoder", "layer", "prompt", "max_length", "language", "strength", "scale",
        "overwrite", "shard",
    )  # fmt: skip
    parts: ClassVar[str] = rf"block-{NUMBER}\.npy"

    def run(self) -> None:
        """Writes the file."""
        path = input_path(self.vectors)
        self.check_text([] if is_vectors(path) else [path])
        self.run_job([self.out], {"vectors": [path], "transform": [self.transform]})

    def whole(self) -> None:
        """Applies the transform to all blocks."""
        self._write(block for block in self._blocks(lambda number: True) if block is not None)

    def share(self, shard: tuple[int, int], folder: Path) -> dict[str, Any]:
        """Applies the transform to every n-th block, unless that was done."""
        count = 0
        for block in self._blocks(lambda n: n % shard[1] == shard[0] and not (folder / _FILE.format(n)).is_file()):
            if block is not None:
                with new_file(folder / _FILE.format(count)) as partial:
                    np.save(partial, block)
            count += 1
        return {"blocks": count}

    def merge(self, found: Mapping[str, Any], folder: Path) -> None:
        """Joins the blocks of all shares."""
        self._write(np.load(folder / _FILE.format(number)) for number in range(found["blocks"]))

    @cached_property
    def loaded(self) -> Transform:
        """The transform, at its strength."""
        return Transform.load(self.transform).at_strength(self.strength)

    def _write(self, blocks: Iterator[np.ndarray]) -> None:
        """Writes the blocks to the output."""
        rows, width = 0, self.loaded.dim + self.scale
        with new_output(notes_of(self.out), self.out) as partial, partial.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(block.tobytes())
                rows += len(block)
            # numpy leaves room in the header for any number of rows.
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, header | {"shape": (rows, width)})
        print(f"wrote {rows} vectors of width {width}, transformed by {self.loaded.name}, to {self.out}")

    def _blocks(self, wanted: Callable[[int], bool]) -> Iterator[np.ndarray | None]:
        """Yields each block in float32, transformed, or None if its number is not ``wanted``."""
        path = input_path(self.vectors)
        bank = self.loaded.bank if self.scale else None
        for block in (self._vectors if is_vectors(path) else self._text)(path, wanted):
            if block is not None and bank is not None:
                block = scaled_sides(block, block, bank)[1]
            yield None if block is None else np.asarray(block, "<f4")

    def _vectors(self, path: Path, wanted: Callable[[int], bool]) -> Iterator[Any]:
        """Yields the transformed blocks of vectors."""
        x = open_vectors(path)
        if isinstance(x, Embeddings):
            x.check_transform(self.loaded)
        strange = first_strange = 0
        with count_meter(True, len(x), "transformed", "vectors") as advance:
            for start in range(0, len(x), BLOCK):
                result, stop = None, min(start + BLOCK, len(x))
                if wanted(start // BLOCK):
                    block = read_rows(x, start, stop)
                    if start == 0:
                        warn_far_off(str(path), block)
                    with errors_of(f"{path}, from row {start}"):
                        result, unknown = self.loaded.with_unknown(block, self.language)
                    if unknown is not None and unknown.any():
                        first_strange = first_strange if strange else start + int(unknown.argmax())
                        strange += int(unknown.sum())
                yield result
                advance(stop - start)
        if strange:
            log.warning(NEAREST_TAKEN, strange, len(x), f" in {path}", first_strange)

    def _text(self, path: Path, wanted: Callable[[int], bool]) -> Iterator[Any]:
        """Yields the transformed embeddings of blocks of sentences."""
        # Read to its end first, so that a bad line is found before the work; a pipe can be read once.
        rows = sum(1 for _ in Records([path], self.text)) if is_file(path) else None
        assert self.opened is not None
        encoder, done = self.opened.with_transform(self.loaded), 0
        texts = (record.text for record in Records([path], self.text))
        with count_meter(True, rows) as advance:
            options: dict[str, Any] = {"language": self.language, "max_length": self.max_length}
            while block := list(islice(texts, _BLOCK)):
                if wanted(done // _BLOCK):
                    yield encoder.encode(block, show_progress=advance, **options)
                else:
                    yield advance(len(block))
                done += len(block)
        if rows not in (None, done):
            raise ValueError(f"{path} had {rows} rows, and then {done}: it changed while it was read")
